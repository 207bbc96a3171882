/*
 * platform/: what every process needs
 *
 *   time, notifier             clocks, timers, randomness; waiting for a condition
 *   run-process, settings/     the frame of a process: its settings, signals, exit code; host-port, groups
 *   periodic-task              what runs again and again, never twice at once
 *   log, warn-once             logging, and its limits
 *   bounded-map, single-flight, several-at-once   bounded memory; shared and concurrent work
 *   health-server, prometheus  /healthz, /readyz, /metrics
 *   socket, api-query, api-error    unix sockets, and requests on them; http/: of HTTP clients
 *   machine            the port to the machine: its boot, its network namespaces
 *   boot-id, namespaces, resolv-conf, files, watched-file   the machine itself
 *   kill-point                 crashes in tests
 */

export interface Timer {
  /** Any number of times, also afterwards. */
  cancel(): void;
  /** Starts its time again, even if it has fired; not if it was cancelled. */
  restart(): void;
  /** The process may end before it fires. */
  unref(): this;
}

/** Time, timers and randomness, the only port to them: code that waits or measures is given it. docs/decisions/0032 */
export interface Clock {
  /** Milliseconds of a clock that never jumps. Every duration, cool-down and deadline is measured on it. */
  monotonicMs(): number;
  /** Milliseconds since the epoch. For people to read (history, `since`); it never decides anything. */
  wallMs(): number;
  /** Calls `fire` once, `ms` from now: at once when that is negative, and not before some 24 days when it is longer. */
  timer(ms: number, fire: () => void): Timer;
  /** Calls `fire` when all ready work has had its turn of the event loop. */
  immediate(fire: () => void): void;
  /** [0, 1). */
  random(): number;
  /** Unpredictable: for names, salts, keys. */
  randomBytes(count: number): Buffer;
}

/** The longest that Node waits; it fires timers beyond it at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  timer: (ms, fire) => new SystemTimer(ms, fire),
  immediate: (fire) => void setImmediate(fire),
  random: Math.random,
  // Loaded when needed: 4 ms of the start of a command that does not.
  randomBytes: (count) => process.getBuiltinModule("node:crypto").randomBytes(count),
};

class SystemTimer implements Timer {
  readonly #timeout: NodeJS.Timeout;
  #isCancelled = false;

  constructor(ms: number, fire: () => void) {
    this.#timeout = setTimeout(fire, Math.min(Math.max(0, ms), TIMER_MS_MAX));
  }

  cancel(): void {
    this.#isCancelled = true;
    clearTimeout(this.#timeout);
  }

  restart(): void {
    if (!this.#isCancelled) this.#timeout.refresh();
  }

  unref(): this {
    this.#timeout.unref();
    return this;
  }
}

/** Calls `fire` every `ms`, for the first time `ms` from now. */
export function interval(clock: Clock, ms: number, fire: () => void): Timer {
  const timer = clock.timer(ms, () => {
    timer.restart();
    fire();
  });
  return timer;
}

/** Waits; ends early, without an error, when the signal aborts. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const done = () => {
      timer.cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = clock.timer(ms, done);
    signal?.addEventListener("abort", done);
  });
}

export function nextTurn(clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    clock.immediate(resolve);
  });
}

/** The outcome of work, or an error at an instant of the clock, ms; the work goes on then, and nobody hears of it. */
export function within<T>(clock: Clock, work: Promise<T>, deadlineMs: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = clock.timer(deadlineMs - clock.monotonicMs(), () => reject(late()));
    work.then(resolve, reject).finally(() => timer.cancel());
  });
}

/** Aborts `ms` from now, with a TimeoutError; keeps no process for it. */
export function timeoutSignal(clock: Clock, ms: number): AbortSignal {
  const controller = new AbortController();
  const reason = () => new DOMException("The operation was aborted due to timeout", "TimeoutError");
  clock.timer(ms, () => controller.abort(reason())).unref();
  return controller.signal;
}

/** RFC 9562, version 4. */
export function randomUuid(clock: Clock): string {
  const bytes = clock.randomBytes(16);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** RFC 3339 in UTC to the second, as Kubernetes writes times; of milliseconds since the epoch. */
export function isoTime(wallMs: number): string {
  return `${isoTimeMs(wallMs).slice(0, 19)}Z`;
}

/** The same to the millisecond. */
export function isoTimeMs(wallMs: number): string {
  return new Date(wallMs).toISOString();
}

/** Milliseconds since the epoch of a time as Kubernetes and HTTP write it; NaN: it is not a time. */
export function parseTime(text: string): number {
  return Date.parse(text);
}
