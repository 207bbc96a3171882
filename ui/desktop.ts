import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Whether there is a desktop of the reader's own. Without one, and as root, the printed URL is enough. */
export function isOnDesktop(): boolean {
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  return Boolean(DISPLAY || WAYLAND_DISPLAY) && process.stdout.isTTY && process.getuid?.() !== 0;
}

/**
 * Opens the page in the reader's browser. Everybody on the machine can read the arguments of a process, and those of a
 * browser for as long as it runs: so they name a file that only the reader can read, which leads to the URL. Returns
 * how to remove it.
 */
export function openOnDesktop(url: string): () => void {
  let directory: string | null = null;
  const remove = () => {
    if (directory !== null) rmSync(directory, { recursive: true, force: true });
  };
  try {
    // mkdtemp gives the directory the mode 0700.
    directory = mkdtempSync(join(tmpdir(), "holdfast-ui-"));
    const file = join(directory, "open.html");
    writeFileSync(file, leadingTo(url), { mode: 0o600, flag: "wx" });
    const child = spawn("xdg-open", [file], { detached: true, stdio: "ignore" });
    child.on("error", () => {});
    child.unref();
  } catch {
    // Without a place for the file, as without such a program, the reader opens the URL himself.
    remove();
  }
  return remove;
}

/** The URL has nothing that HTML would take for markup. */
function leadingTo(url: string): string {
  return `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=${url}">
<title>Holdfast</title>
<p><a href="${url}">To the page of holdfast ui</a></p>
`;
}
