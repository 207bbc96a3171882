import type { Command } from "commander";
import { sleep, systemClock } from "../platform/time.ts";
import { CommandError } from "./failure.ts";
import { printError } from "./terminal.ts";

/** Between two looks, ms. */
const LOOK_MS = 2_000;

/** What a command that goes on has shown: of later looks only lines that are new or have changed. */
export interface Shown {
  /** Lines of the look before, without their ages; null: this is the first. */
  before: ReadonlySet<string> | null;
}

const WATCHING = new WeakMap<Command, Shown>();

/** What was shown before; null: the command shows its list once. */
export function watchingOf(command: Command): Shown | null {
  return WATCHING.get(command) ?? null;
}

/** Adds `-w`, by which a command goes on until it is interrupted. To be called before its action is set. */
export function withWatch(command: Command): Command {
  command.option("-w, --watch", "go on, and show what changes");
  const setAction = command.action.bind(command);
  command.action = (run) =>
    setAction(async (...words: unknown[]) => {
      const isWatching = command.opts<{ watch?: boolean }>().watch === true;
      if (isWatching) WATCHING.set(command, { before: null });
      await run.apply(command, words);
      while (isWatching) {
        await sleep(systemClock, LOOK_MS);
        await lookAgain(async () => run.apply(command, words));
      }
    });
  return command;
}

/** A daemon that is started again is no reason to end. */
async function lookAgain(run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    printError(error.message, error.hint);
  }
}
