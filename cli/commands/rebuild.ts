import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { NODE_ONLY } from "../../admin/elsewhere.ts";
import type { Clock } from "../../platform/time.ts";
import { nodeClientOf } from "../choose-client.ts";
import { EXIT } from "../failure.ts";
import { withProgress } from "../progress.ts";
import { note, print } from "../terminal.ts";

const EXPLANATION = `
A daemon that finds its state database damaged puts it aside and gives no address until it is told what to
go on with. Nothing is guessed: an empty database would give away addresses that are in use.

  holdfast rebuild --from BACKUP   goes on with a file that holdfast backup wrote
  holdfast rebuild --from BACKUP --replace
                                   the same with a state that is sound: on a new machine, or to undo a mistake.
                                   Refused while a container runs that was attached after the backup was made,
                                   as far as the state is not damaged: then nothing can be compared
  holdfast rebuild --empty         starts anew; then restore the claims: holdfast apply -f claims.yaml

Files that are replaced stay in the state directory under names that end in .damaged-<time> or .replaced-<time>.`;

const EMPTY_WARNING =
  "warning: what running containers use is not known any more and may be given again: restart them, and apply saved claims now";

const BACKUP_WARNING =
  "warning: containers that were attached since that backup was made are not known, and their addresses may be given again: restart those that still run before new ones start";

const NOT_COMPARED =
  "warning: the state is damaged and cannot tell which containers run: they are not compared with the backup";

function rebuildRequest(from: string | undefined, replace: boolean | undefined): object {
  if (from === undefined) return { empty: true };
  return replace ? { from, replace } : { from };
}

export function addRebuild(program: Command, clock: Clock): void {
  program
    .command("rebuild")
    .usage("--from <backup> [--replace] | --empty")
    .description("gives a daemon with damaged state a new start")
    .addOption(new Option("--from <backup>", "a file that holdfast backup wrote").conflicts("empty"))
    .addOption(new Option("--replace", "also in the place of a sound state").conflicts("empty"))
    .option("--empty", "an empty database")
    .addHelpText("after", EXPLANATION)
    .action(async (options: { from?: string; replace?: boolean; empty?: boolean }, command: Command) => {
      const client = nodeClientOf(command, NODE_ONLY);
      const from = options.from === undefined ? undefined : resolve(options.from);
      if (from === undefined && options.empty !== true) {
        command.error(`error: one of --from <backup> and --empty is needed\n${EXPLANATION}`, {
          exitCode: EXIT.usage,
        });
      }
      const isCompared = options.replace === true && (await client.patient().get("/v1/rebuild")).comparable;
      if (options.replace === true && !isCompared) note(NOT_COMPARED);
      const work = client.patient().post("/v1/rebuild", rebuildRequest(from, options.replace));
      await withProgress(clock, () => "rebuilding", work);
      print(
        from === undefined
          ? "started with an empty database; the daemon serves again\n"
          : `rebuilt from ${from}; the daemon serves again\n`,
      );
      if (from === undefined) note(EMPTY_WARNING);
      // Otherwise the daemon has compared the two, and would have refused.
      else if (!isCompared) note(BACKUP_WARNING);
    });
}
