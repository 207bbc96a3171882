/*
 * cli/commands/: one file for each command of `holdfast`
 *
 *   process                                     runs one: daemon, controller, metadata, metadata-net
 *   list, show, who, networks, claims, history  show
 *   check                                       reports faults, with hints
 *   apply, delete, release, import              change
 *   backup, rebuild                             the state of one node
 *   wait, version                               for scripts
 */

import type { Command } from "commander";
import { USE_KUBECTL } from "../../admin/elsewhere.ts";
import type { Clock } from "../../platform/time.ts";
import { nodeClientOf } from "../choose-client.ts";
import { withFiles } from "../file-option.ts";
import { readManifests, refuseObject, resultName, sendManifests } from "../manifest-run.ts";
import { note, print, printable } from "../terminal.ts";

/** `holdfast apply -f`: creates or changes claims and network definitions, as kubectl would in a cluster. */
export function addApply(program: Command, clock: Clock): void {
  withFiles(program.command("apply"))
    .usage("-f <file>")
    .description("creates or changes claims and network definitions")
    .allowExcessArguments()
    .action(async ({ filename }: { filename?: string[] }, command: Command) => {
      const client = nodeClientOf(command, USE_KUBECTL);
      if (filename === undefined)
        command.error("error: -f <file> is needed: a file, a folder, or - for standard input");
      if (command.args.length > 0) {
        command.error(
          `error: ${command.args.join(", ")}: each file needs its own -f; a folder stands for all in it`,
        );
      }
      const objects = await readManifests(filename);
      await sendManifests(clock, client, "/v1/apply", objects, ({ result, ...placed }) => {
        if ("error" in result) refuseObject(placed, result.error);
        else {
          print(`${resultName(result)} ${result.action}\n`);
          if (result.note !== undefined) note(`note: ${resultName(result)}: ${printable(result.note)}`);
        }
      });
    });
}
