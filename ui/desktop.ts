import { spawn } from "node:child_process";

/** Opens the page in the reader's browser where there is a desktop. Without one, and as root, the printed URL is enough. */
export function openOnDesktop(url: string): void {
  const { DISPLAY, WAYLAND_DISPLAY } = process.env;
  const isDesktop = process.platform === "darwin" || Boolean(DISPLAY || WAYLAND_DISPLAY);
  if (!isDesktop || !process.stdout.isTTY || process.getuid?.() === 0) return;
  const program = process.platform === "darwin" ? "open" : "xdg-open";
  const child = spawn(program, [url], { detached: true, stdio: "ignore" });
  // Without such a program the reader opens the URL himself.
  child.on("error", () => {});
  child.unref();
}
