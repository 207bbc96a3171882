import { chmodSync, copyFileSync, cpSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HOLDFAST, run } from "../harness/daemon.ts";

const NOBODY = 65_534;

/** The command line as a user who is not root, for root's tests: copied into a folder that everybody may read. */
export function asNobody(folder: string, groups: readonly number[] = []) {
  mkdirSync(join(folder, "bin"), { recursive: true });
  chmodSync(folder, 0o755);
  copyFileSync(HOLDFAST, join(folder, "bin/cli.cjs"));
  cpSync(join(dirname(HOLDFAST), "../lib"), join(folder, "lib"), { recursive: true });
  const script = join(folder, "nobody.cjs");
  writeFileSync(
    script,
    `process.setgroups(${JSON.stringify(groups)}); process.setgid(${NOBODY}); process.setuid(${NOBODY}); require("./bin/cli.cjs");`,
  );
  return (...words: readonly string[]) => run(process.execPath, [script, ...words]);
}
