import { type Clock, interval } from "../platform/time.ts";
import { errors } from "./terminal.ts";

/** Shorter waits need no explanation, ms. */
const QUIET_MS = 1_000;

/** One line on a terminal's stderr about what is going on, erased when it is over. Elsewhere nothing is printed. */
export async function withProgress<T>(clock: Clock, text: () => string, work: Promise<T>): Promise<T> {
  if (!process.stderr.isTTY) return work;
  let shown = false;
  const timer = interval(clock, QUIET_MS, () => {
    shown = true;
    errors().write(`\r\u001b[K${text()}`);
  });
  try {
    return await work;
  } finally {
    timer.cancel();
    if (shown) errors().write("\r\u001b[K");
  }
}
