import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { run } from "./daemon.ts";

/**
 * What a machine needs to boot beside the smallest system, and what the package recommends: machines have no network.
 */
const INCLUDED = "systemd-sysv,dbus,iproute2,containernetworking-plugins";

/** The root of a fresh Debian, from the mirror that this machine uses; made once, and kept. */
export async function debianRoot(release: "bookworm" | "trixie"): Promise<string> {
  const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "holdfast/debian");
  const root = join(cache, release);
  if (existsSync(root)) return root;
  mkdirSync(cache, { recursive: true });
  const { stdout } = await run("apt-get", ["indextargets", "--format", "$(CODENAME) $(REPO_URI)"]);
  const mirror = /^[a-z]+ (\S+)$/m.exec(stdout)?.[1];
  if (mirror === undefined) throw new Error(`no mirror of Debian in ${stdout}`);
  const making = join(cache, `${release}.${process.pid}`);
  const words = ["--variant=minbase", `--include=${INCLUDED}`, release, making, mirror];
  const { code, stdout: told, stderr } = await run("debootstrap", words);
  if (code !== 0) {
    rmSync(making, { recursive: true, force: true });
    throw new Error(`debootstrap ${words.join(" ")}: code ${code}\n${told.slice(-2_000)}${stderr}`);
  }
  try {
    renameSync(making, root);
  } catch {
    // Another test was quicker.
    rmSync(making, { recursive: true, force: true });
  }
  return root;
}
