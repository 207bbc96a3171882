import { CommanderError } from "commander";
import { systemClock } from "../platform/time.ts";
import { CommandError, EXIT } from "./failure.ts";
import { buildProgram } from "./program.ts";
import { printError } from "./terminal.ts";

/** Runs one command. The exit code is set, never forced, so that all output is flushed. */
export async function main(): Promise<void> {
  try {
    await buildProgram(systemClock).parseAsync();
  } catch (error) {
    process.exitCode = report(error);
  }
}

function report(error: unknown): number {
  // Commander has already printed its errors; help and version on request are not errors.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof CommandError) {
    printError(error.message, error.hint);
    return error.exitCode;
  }
  printError(
    `a fault in holdfast: ${(error as Error)?.stack ?? String(error)}`,
    "please report it, with the command that led to it",
  );
  return EXIT.refused;
}

/** What every start does: the code cache has what ran until it was made. */
export function warmUp(): void {
  buildProgram(systemClock).helpInformation();
}
