import { chmodSync, copyFileSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HOLDFAST, run } from "../harness/daemon.ts";

const NOBODY = 65_534;

/** The command line as a user who is not root, for root's tests: copied into a directory that everybody may read. */
export function asNobody(directory: string, groups: readonly number[] = []) {
  mkdirSync(join(directory, "bin"), { recursive: true });
  chmodSync(directory, 0o755);
  copyFileSync(HOLDFAST, join(directory, "bin/cli.cjs"));
  cpSync(join(dirname(HOLDFAST), "../lib"), join(directory, "lib"), { recursive: true });
  const script = join(directory, "nobody.cjs");
  writeFileSync(
    script,
    `process.setgroups(${JSON.stringify(groups)}); process.setgid(${NOBODY}); process.setuid(${NOBODY}); require("./bin/cli.cjs");`,
  );
  return (...words: readonly string[]) => run(process.execPath, [script, ...words]);
}
