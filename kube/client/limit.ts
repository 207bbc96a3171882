import type { Clock, Timer } from "../../platform/time.ts";

/** An exchange with the API server that ended without an answer. */
export class ExchangeFailure extends Error {
  override readonly name = "ExchangeFailure";
  /** The connection was kept alive from an earlier request, and the server had closed it. */
  readonly stale: boolean;
  /** Code of the error in Node or OpenSSL, such as ECONNREFUSED; null: it has none. */
  readonly code: string | null;

  constructor(problem: string, { stale = false, code = null }: { stale?: boolean; code?: string | null } = {}) {
    super(problem);
    this.stale = stale;
    this.code = code;
  }
}

/** Time allowed to one exchange, tied to the signals that end it early. Call `dispose` in the end. */
export class Limit {
  readonly #outer: readonly AbortSignal[];
  readonly #callOff = () => this.#end("it was called off");
  readonly #timer: Timer;
  /** Who is told. Not an AbortSignal of its own: every exchange would pay for one. */
  readonly #told = new Set<(reason: ExchangeFailure) => void>();
  #reason: ExchangeFailure | null = null;

  constructor(clock: Clock, ms: number, outer: readonly (AbortSignal | undefined)[]) {
    this.#outer = outer.filter((signal) => signal !== undefined);
    this.#timer = clock.timer(ms, () => this.#end(`nothing came for ${Math.round(ms)} ms`));
    for (const signal of this.#outer) {
      signal.addEventListener("abort", this.#callOff);
      if (signal.aborted) this.#callOff();
    }
  }

  get isOver(): boolean {
    return this.#reason !== null;
  }

  /** Calls `end` when the limit ends the exchange; at once if it already has. Returns a function that undoes this. */
  whenOver(end: (reason: ExchangeFailure) => void): () => void {
    if (this.#reason === null) this.#told.add(end);
    else end(this.#reason);
    return () => this.#told.delete(end);
  }

  /** Resolves as the promise does, unless the limit ends it first: then rejects with ExchangeFailure. */
  async race<T>(promise: Promise<T>): Promise<T> {
    let leave = () => {};
    const ended = new Promise<never>((_resolve, reject) => {
      leave = this.whenOver(reject);
    });
    try {
      return await Promise.race([promise, ended]);
    } finally {
      leave();
    }
  }

  /** Something has arrived: the time begins again. */
  touch(): void {
    this.#timer.restart();
  }

  /** From now on only the outer signals end it. */
  disarm(): void {
    this.#timer.cancel();
  }

  dispose(): void {
    this.#timer.cancel();
    for (const signal of this.#outer) signal.removeEventListener("abort", this.#callOff);
  }

  /** The real cause of an error: the limit's own reason if the limit ended the exchange, and nothing says more. */
  reasonOf(error: unknown): ExchangeFailure {
    return error instanceof ExchangeFailure ? error : (this.#reason ?? failureOf(error));
  }

  #end(problem: string): void {
    if (this.#reason !== null) return;
    this.#reason = new ExchangeFailure(problem);
    for (const end of this.#told) end(this.#reason);
  }
}

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
