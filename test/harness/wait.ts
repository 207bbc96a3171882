import { connect } from "node:net";
import { type Clock, sleep, systemClock } from "../../platform/time.ts";

/**
 * The first pause between two polls, ms, and the longest: whoever waits long must not take the processor from what it
 * waits for.
 */
const POLL_MS_MIN = 20;
const POLL_MS_MAX = 150;
const POLL_GROWTH = 1.3;

/**
 * What a test waits on: the machine's time, or that of a world in which all processes are the test's own (WorldTime).
 */
export abstract class TestTime {
  /** Of everything that lives in it. */
  abstract readonly clock: Clock;

  /** What the work becomes; time passes meanwhile. */
  abstract run<T>(work: Promise<T>): Promise<T>;

  /** The same object; time passes for whoever waits for one of these methods of it. */
  waitedFor<Name extends string, T extends Readonly<Record<Name, (...args: never[]) => Promise<unknown>>>>(
    one: T,
    ...names: readonly Name[]
  ): T {
    for (const name of names) {
      const method = one[name].bind(one);
      Object.assign(one, { [name]: (...args: never[]) => this.run(method(...args)) });
    }
    return one;
  }

  /** For a process of its own that ends by itself, so that its wall clock shows the time here. */
  abstract get environment(): Readonly<Record<string, string>>;

  /** Polls until true. The limit only ends a hung test: it is far above what anything takes. */
  until(condition: () => boolean | Promise<boolean>, what: string | (() => string), limitMs = 60_000): Promise<void> {
    return this.run(poll(this.clock, condition, what, limitMs));
  }

  /** Lets time pass in which something must not happen, or may. What has to happen is waited for with `until`. */
  advance(ms: number): Promise<void> {
    return this.run(sleep(this.clock, ms));
  }
}

async function poll(
  clock: Clock,
  condition: () => boolean | Promise<boolean>,
  what: string | (() => string),
  limitMs: number,
): Promise<void> {
  const end = clock.monotonicMs() + limitMs;
  for (let pauseMs = POLL_MS_MIN; !(await condition()); pauseMs = Math.min(pauseMs * POLL_GROWTH, POLL_MS_MAX)) {
    if (clock.monotonicMs() > end) throw new Error(`gave up waiting for ${typeof what === "string" ? what : what()}`);
    await sleep(clock, pauseMs);
  }
}

class MachineTime extends TestTime {
  override readonly clock = systemClock;

  override readonly environment = {};

  override run<T>(work: Promise<T>): Promise<T> {
    return work;
  }
}

/** The machine's: where processes of their own take part. */
export const machineTime: TestTime = new MachineTime();

/** See TestTime; on the machine's time. */
export const until: TestTime["until"] = (...args) => machineTime.until(...args);

/** `advance` on the machine's time. */
export const pause: TestTime["advance"] = (ms) => machineTime.advance(ms);

/** What a process says may come behind its answer. */
export function untilSaid(log: () => string, text: string): Promise<void> {
  return until(
    () => log().includes(text),
    () => `"${text}" in\n${log()}`,
  );
}

/** For somebody to listen on a unix socket, of whom nobody hears it: the file is there before anybody may connect. */
export function untilListening(path: string): Promise<void> {
  return until(() => isListening(path), `somebody to listen on ${path}`);
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}
