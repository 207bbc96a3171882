/*
 * cli/commands/: one file for each command of `holdfast`
 *
 *   process                                     runs one: daemon, controller, metadata, metadata-net
 *   list, show, who, networks, claims, content, history  show
 *   check                                       reports faults, with hints
 *   apply, delete, release, import              change
 *   convert                                     another plugin's files
 *   backup, rebuild                             the state of one node
 *   wait, version                               for scripts
 */

import type { Command } from "commander";
import { USE_KUBECTL } from "../../admin/elsewhere.ts";
import type { Clock } from "../../platform/time.ts";
import { splitName, withFiles } from "../arguments.ts";
import { nodeClientOf } from "../choose-client.ts";
import { count } from "../human.ts";
import { contentOfFiles, isContentKind } from "../manifests/content-files.ts";
import { type Placed, readManifests, refuseObject, rehearse, resultName, sendManifests } from "../manifests/run.ts";
import { note, print, printable } from "../terminal.ts";

interface ApplyOptions {
  readonly filename?: string[];
  readonly fromFile?: string[];
  readonly namespace: string;
  readonly dryRun?: true;
}

export function addApply(program: Command, clock: Clock): void {
  withFiles(program.command("apply"))
    .usage("-f <file> | secret|configmap <name> --from-file <path>")
    .description("creates or changes claims, network definitions and content")
    .argument("[kind]", "secret or configmap: one of files, which claims name for their guests")
    .argument("[name]", "its name: [namespace/]name")
    .option(
      "--from-file <path>",
      "a file, <key>=<file>, or a directory of files such as user-data and authorized_keys; may be given again",
      (path: string, before: string[] | undefined) => [...(before ?? []), path],
    )
    .option("-n, --namespace <name>", "namespace for names given without one", "default")
    .option("--dry-run", "show what would become of each object, and change nothing")
    .allowExcessArguments()
    .action(async (kind: string | undefined, name: string | undefined, options: ApplyOptions, command: Command) => {
      const client = nodeClientOf(command, USE_KUBECTL);
      const objects = await objectsOf(clock, kind, name, options, command);
      if (options.dryRun) return rehearse(clock, client, objects, false);
      const actions = new Map<string, number>();
      const sent = sendManifests(clock, client, "/v1/apply", objects, ({ result, ...placed }) => {
        if ("error" in result) return refuseObject(placed, result.error);
        print(`${resultName(result)} ${result.action}\n`);
        if (result.note !== undefined) note(`note: ${resultName(result)}: ${printable(result.note)}`);
        actions.set(result.action, (actions.get(result.action) ?? 0) + 1);
      });
      await sent.catch((error: unknown) => {
        noteApplied(actions, "whether the next ones were applied is not known");
        throw error;
      });
      if (process.exitCode !== undefined) noteApplied(actions, "the errors name what was not applied");
    });
}

/** After a failure: what was applied all the same. */
function noteApplied(actions: ReadonlyMap<string, number>, others: string): void {
  const applied = [...actions.values()].reduce((sum, n) => sum + n, 0);
  if (applied === 0) return;
  const counts = [...actions].map(([action, n]) => `${n} ${action}`).join(", ");
  note(
    `note: ${count(applied, "object")} applied (${counts}); ${others}. Applying the same files again changes only what differs`,
  );
}

async function objectsOf(
  clock: Clock,
  kind: string | undefined,
  name: string | undefined,
  { filename, fromFile, namespace }: ApplyOptions,
  command: Command,
): Promise<readonly Placed[]> {
  if (fromFile === undefined) {
    if (kind !== undefined && isContentKind(kind))
      command.error(`error: --from-file <path> is needed: a ${kind} is made of files`);
    if (filename === undefined)
      command.error("error: -f <file> is needed: a file, a directory, or - for standard input");
    if (command.args.length > 0) {
      command.error(`error: ${command.args.join(", ")}: each file needs its own -f; a directory stands for all in it`);
    }
    return readManifests(clock, filename);
  }
  if (filename !== undefined) command.error("error: -f takes manifests and --from-file makes one; give one of them");
  if (kind === undefined || name === undefined || !isContentKind(kind) || command.args.length > 2) {
    command.error("error: --from-file makes a secret or a configmap, such as: apply secret web --from-file web-boot");
  }
  return [{ place: "", object: contentOfFiles({ kind, ...splitName(name, namespace), paths: fromFile }) }];
}
