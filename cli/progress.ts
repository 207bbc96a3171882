import { type Clock, interval, type Timer } from "../platform/time.ts";
import { errors } from "./terminal.ts";

/** Shorter waits need no explanation, ms. */
const QUIET_MS = 1_000;

/** One line on a terminal's stderr about what is going on. Elsewhere nothing is printed. */
export class Progress {
  readonly #timer: Timer | null;
  #shown = false;

  constructor(clock: Clock, text: () => string) {
    this.#timer = process.stderr.isTTY ? interval(clock, QUIET_MS, () => this.#show(text())) : null;
  }

  /** Makes room for a line of the answer: the next text follows below it. */
  erase(): void {
    if (this.#shown) errors().write("\r\u001b[K");
    this.#shown = false;
  }

  end(): void {
    this.#timer?.cancel();
    this.erase();
  }

  #show(text: string): void {
    this.#shown = true;
    errors().write(`\r\u001b[K${text}`);
  }
}

export async function withProgress<T>(clock: Clock, text: () => string, work: Promise<T>): Promise<T> {
  const progress = new Progress(clock, text);
  try {
    return await work;
  } finally {
    progress.end();
  }
}
