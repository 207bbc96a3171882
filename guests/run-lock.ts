import { spawnSync } from "node:child_process";
import { chmodSync, closeSync, lstatSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";

/**
 * Makes the run directory, in which nobody but root makes a name, and locks it: two with one directory would undo each
 * other's work. haproxy, which is not root, passes through it to the one socket of its own. The lock goes with the
 * process, however it ends. Returns what ends it; throws an Error for the operator.
 */
export function lockRunDir(runDir: string): () => void {
  mkdirSync(runDir, { recursive: true, mode: 0o711 });
  const directory = lstatSync(runDir);
  if (!directory.isDirectory() || directory.uid !== process.getuid?.())
    throw new Error(
      `run directory ${runDir} belongs to user ${directory.uid}, or is no directory; remove it, or give another --run-dir`,
    );
  chmodSync(runDir, 0o711);
  const file = openSync(join(runDir, "lock"), "w", 0o600);
  // A lock belongs to the open file, which the child shares with us: it stays when the child has ended.
  const locked = spawnSync("flock", ["--nonblock", "3"], { stdio: ["ignore", "ignore", "pipe", file] });
  if (locked.status === 0) return () => closeSync(file);
  closeSync(file);
  if (locked.error !== undefined) throw new Error(`run directory ${runDir} cannot be locked: ${locked.error.message}`);
  throw new Error(`another holdfast metadata-net works with ${runDir}; end it, or give another --run-dir`);
}
