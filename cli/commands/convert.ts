import { join } from "node:path";
import type { Command } from "commander";
import type { Clock } from "../../platform/time.ts";
import { withFiles } from "../arguments.ts";
import { loadBundle } from "../load-bundle.ts";
import { readManifests } from "../manifests/run.ts";
import { print, printError } from "../terminal.ts";

type Convert = typeof import("../manifests/convert.ts");

export function addConvert(program: Command, clock: Clock): void {
  withFiles(program.command("convert"))
    .usage("-f <file>")
    .description("prints the CNI configurations of another IPAM plugin with Holdfast's keys")
    .action(async ({ filename }: { filename?: string[] }, command: Command) => {
      if (filename === undefined)
        command.error("error: -f <file> is needed: a file, a directory, or - for standard input");
      // A bundle of its own: all that understands addresses is in it, which no other command needs.
      const { convertPlaced } = loadBundle(join(import.meta.dirname, "../lib/convert.cjs")) as Convert;
      const texts: string[] = [];
      for (const placed of await readManifests(clock, filename)) {
        const text = await convertPlaced(placed);
        if (typeof text === "string") {
          texts.push(text);
          continue;
        }
        printError(`${placed.place}: ${text.message}`, "this document is left out, the others are converted");
        process.exitCode = 1;
      }
      print(texts.join("---\n"));
    });
}
