import type { Clock, Timer } from "../../platform/time.ts";

/** An exchange with the API server that ended without an answer. */
export class ExchangeFailure extends Error {
  override readonly name = "ExchangeFailure";
  /** The connection was kept alive from an earlier request, and the server had closed it. */
  readonly stale: boolean;
  /** Code of the error in Node or OpenSSL, such as ECONNREFUSED; null: it has none. */
  readonly code: string | null;

  constructor(
    problem: string,
    { stale = false, code = null }: { stale?: boolean; code?: string | null } = {},
  ) {
    super(problem);
    this.stale = stale;
    this.code = code;
  }
}

/** Time allowed to one exchange, tied to the signals that end it early. Call `dispose` in the end. */
export class Limit {
  readonly #controller = new AbortController();
  readonly #outer: readonly AbortSignal[];
  readonly #abort: () => void;
  readonly #timer: Timer;

  constructor(clock: Clock, ms: number, outer: readonly (AbortSignal | undefined)[]) {
    this.#outer = outer.filter((signal) => signal !== undefined);
    this.#abort = () => this.#controller.abort(new ExchangeFailure("it was called off"));
    this.#timer = clock.timer(ms, () =>
      this.#controller.abort(new ExchangeFailure(`nothing came for ${Math.round(ms)} ms`)),
    );
    for (const signal of this.#outer) {
      signal.addEventListener("abort", this.#abort);
      if (signal.aborted) this.#abort();
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Calls `end` with the reason when the limit ends the exchange, at once where it has. */
  whenOver(end: (reason: ExchangeFailure) => void): void {
    const { signal } = this;
    if (signal.aborted) end(signal.reason);
    else signal.addEventListener("abort", () => end(signal.reason), { once: true });
  }

  /** What the promise becomes, unless the limit ends it first: then throws ExchangeFailure. */
  async race<T>(promise: Promise<T>): Promise<T> {
    let abort = () => {};
    const ended = new Promise<never>((_resolve, reject) => {
      abort = () => reject(this.signal.reason);
    });
    this.signal.addEventListener("abort", abort);
    if (this.signal.aborted) abort();
    try {
      return await Promise.race([promise, ended]);
    } finally {
      this.signal.removeEventListener("abort", abort);
    }
  }

  /** Something came: the time begins anew. */
  touch(): void {
    this.#timer.restart();
  }

  /** From now on only the outer signals end it. */
  disarm(): void {
    this.#timer.cancel();
  }

  dispose(): void {
    this.#timer.cancel();
    for (const signal of this.#outer) signal.removeEventListener("abort", this.#abort);
  }

  /** What an error of this exchange really was: the limit's own reason where it was the limit that ended it. */
  reasonOf(error: unknown): ExchangeFailure {
    const cause = this.signal.aborted ? this.signal.reason : error;
    return cause instanceof ExchangeFailure ? cause : failureOf(cause);
  }
}

/** An error of Node's, with its code. */
export function failureOf(error: unknown, stale = false): ExchangeFailure {
  const { code } = error as { code?: unknown };
  return new ExchangeFailure(messageOf(error), { stale, code: typeof code === "string" ? code : null });
}

/** Node's errors for several addresses at once have an empty message. */
export function messageOf(error: unknown): string {
  const { message, code } = error as { message?: unknown; code?: unknown };
  if (typeof message === "string" && message !== "") return message;
  return typeof code === "string" ? code : String(error);
}
