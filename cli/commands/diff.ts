import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { ObjectDiff } from "../../admin/admin-api.ts";
import type { Clock } from "../../platform/time.ts";
import { withFiles } from "../arguments.ts";
import { nodeClientOf } from "../choose-client.ts";
import { CommandError, EXIT } from "../failure.ts";
import { diffManifests, readManifests, refuseObject, resultName } from "../manifests/run.ts";
import { documentText } from "../output.ts";
import { print, printLinesOf } from "../terminal.ts";

/** More than the two manifests of the largest object that is taken. */
const OUTPUT_BYTES_MAX = 64 << 20;
const IN_A_CLUSTER = "in a cluster kubectl does this: kubectl diff -f";

/** `holdfast diff -f FILE`: what `apply` would change, as `diff -u` shows it. Exit 1 when it would change something. */
export function addDiff(program: Command, clock: Clock): void {
  withFiles(program.command("diff"))
    .usage("-f <file>")
    .description("what apply would change, line by line; values of Secrets are shown by their sums")
    .addHelpText("after", "\nExit codes: 0 nothing would change, 1 something would, or an object is refused.")
    .action(async ({ filename }: { filename?: string[] }, command: Command) => {
      const client = nodeClientOf(command, IN_A_CLUSTER);
      if (filename === undefined)
        command.error("error: -f <file> is needed: a file, a directory, or - for standard input");
      const placed = await readManifests(clock, filename);
      await diffManifests(clock, client, { placed, isDelete: false }, async ({ result, ...one }) => {
        if ("error" in result) return refuseObject(one, result.error);
        if (result.action === "unchanged") return;
        process.exitCode = EXIT.refused;
        print(await differenceOf(result));
      });
    });
}

async function differenceOf(result: Exclude<ObjectDiff, { readonly error: unknown }>): Promise<string> {
  const { execFile } = process.getBuiltinModule("node:child_process");
  const directory = mkdtempSync(join(tmpdir(), "holdfast-diff-"));
  try {
    const [before, after] = await Promise.all(
      (["before", "after"] as const).map(async (side) => {
        const path = join(directory, side);
        const manifest = result[side];
        writeFileSync(path, manifest === null ? "" : await documentText("yaml", manifest), { mode: 0o600 });
        return path;
      }),
    );
    const name = resultName(result);
    const labels = ["--label", `${name} (now)`, "--label", `${name} (${result.action})`];
    return await new Promise<string>((resolve, reject) => {
      const words = ["-u", ...labels, before as string, after as string];
      execFile("diff", words, { maxBuffer: OUTPUT_BYTES_MAX }, (error, stdout) => {
        // 1: they differ.
        if (error === null || error.code === 1) resolve(printLinesOf(stdout));
        else
          reject(
            new CommandError(`diff -u cannot be run: ${error.message}`, {
              hint: "install the package diffutils",
            }),
          );
      });
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
}
