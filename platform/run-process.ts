import type pino from "pino";
import { makeLog } from "./log.ts";
import { type Environment, type Given, SettingsError } from "./settings/load.ts";
import type { ProcessName } from "./settings/processes.ts";
import { type Clock, systemClock } from "./time.ts";

/** Exit codes, for units and scripts. */
const EXIT = { ok: 0, failed: 1, settings: 2 } as const;
/** By convention of shells, for one that is ended by a signal. */
const SIGNAL_EXITS = { SIGINT: 130, SIGTERM: 143 } as const;
type Signal = keyof typeof SIGNAL_EXITS;

interface Runnable {
  /** Resolves when it serves. Throws Error when it cannot, with nothing left open that keeps the process alive. */
  start(): Promise<void>;
  /** Resolves when pending requests are answered and everything is closed. */
  stop(): Promise<void>;
}

export interface Runner<S> {
  readonly name: ProcessName;
  load(flags: Given, env: Environment): S;
  /** Throws Error when something in the settings cannot be used. All parts share the clock. */
  create(settings: S, log: pino.Logger, clock: Clock): Runnable | Promise<Runnable>;
}

/**
 * Runs a process until SIGTERM or SIGINT:
 *
 *   settings -> create -> start -> serves ... signal -> stop -> 0
 *       |          |        |                             |
 *       2          1        1 (message on stderr)         a second signal: ends at once
 *
 * A signal before it serves ends it at once, too: nothing that it has answered can be lost (decision 31). Resolves with
 * the exit code.
 */
export async function runProcess<S extends { readonly logLevel: string }>(
  { name, load, create }: Runner<S>,
  flags: Given,
): Promise<number> {
  const signals = new Signals();
  let log: pino.Logger;
  let runnable: Runnable;
  try {
    const settings = load(flags, process.env);
    log = makeLog(settings.logLevel, systemClock);
    runnable = await create(settings, log, systemClock);
    await runnable.start();
  } catch (error) {
    process.stderr.write(`holdfast ${name}: ${(error as Error).message}\n`);
    return error instanceof SettingsError ? EXIT.settings : EXIT.failed;
  }
  log.info({ signal: await signals.next() }, "stopping");
  await runnable.stop();
  log.info("stopped");
  return EXIT.ok;
}

/** Handles signals from the start: as process 1 of a container, a process without handlers cannot be ended by them. */
class Signals {
  #awaited: ((signal: Signal) => void) | null = null;

  constructor() {
    for (const signal of Object.keys(SIGNAL_EXITS) as Signal[]) process.on(signal, () => this.#take(signal));
  }

  /** The next signal, once; whatever comes before or after it ends the process at once. */
  next(): Promise<Signal> {
    return new Promise((resolve) => {
      this.#awaited = resolve;
    });
  }

  #take(signal: Signal): void {
    if (this.#awaited === null) endBy(signal);
    this.#awaited?.(signal);
    this.#awaited = null;
  }
}

/** Ends as if the signal had not been handled, so that the parent sees which it was. */
function endBy(signal: Signal): never {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // The kernel does not kill process 1.
  process.exit(SIGNAL_EXITS[signal]);
}
