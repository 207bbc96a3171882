import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");

/** The content of a file of the repository. */
export const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** The files of the repository whose path matches: tracked ones, and new ones that are not ignored. */
export function tracked(pattern: RegExp): string[] {
  const { status, stdout, stderr, error } = spawnSync(
    "git",
    ["ls-files", "--cached", "--others", "--exclude-standard"],
    { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 26 },
  );
  if (status !== 0)
    throw new Error(`the tidy tests expected git and a git checkout: ${error?.message ?? stderr.trim()}`);
  return stdout.split("\n").filter((file) => pattern.test(file) && existsSync(join(ROOT, file)));
}
