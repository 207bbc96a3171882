import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";

/** Longer than any of them takes, ms: what hangs must not hold up the others. */
const RUN_MS_MAX = 10_000;

export const AS_ROOT = "run holdfast doctor as root (sudo)";

export const ON_THE_NODE = "run holdfast doctor on the node itself";

export interface Outcome {
  /** null: the program is not there, or did not end. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Never throws. */
export function run(
  program: string,
  words: readonly string[],
  { env = {}, input = "" }: { readonly env?: Readonly<Record<string, string>>; readonly input?: string } = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { env: { PATH: process.env.PATH ?? "", ...env }, timeout: RUN_MS_MAX };
    const child = execFile(program, words, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : null;
      resolve({ code, stdout, stderr: stderr === "" && error !== null ? error.message : stderr });
    });
    // A program that reads nothing and ends is no fault of ours.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}

export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
