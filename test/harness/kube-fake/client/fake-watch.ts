import type { ApiServer } from "../api-server.ts";
import { Failure } from "../failure.ts";
import type { KubeObject } from "../objects.ts";
import { type AttemptOutcome, endOfWatch, type WatchAttempt, type WatchEnd } from "../port.ts";
import type { ServerAnswer, ServerRequest } from "../requests.ts";
import type { WatchEvent, WatchSink } from "../watches.ts";

export interface FakeWatchOptions {
  readonly request: WatchAttempt;
  /** Aborts when the client is closed. */
  readonly life: AbortSignal;
  /** Called with the object of each event. */
  readonly told: (object: KubeObject) => void;
  /** Resolves when the next event has come over. */
  readonly arrival: () => Promise<void>;
}

/**
 * One watch of a client: what the server sends arrives later, in its order, and never during what somebody else does.
 */
export class FakeWatch {
  readonly #options: FakeWatchOptions;
  readonly #queue: (() => void)[] = [];
  #isDraining = false;
  #isSilent = false;
  #isFollowed = false;
  #unwatch = () => {};
  #resolve: (end: WatchEnd | AttemptOutcome) => void = () => {};

  constructor(options: FakeWatchOptions) {
    this.#options = options;
  }

  /** The server's part. */
  open(server: ApiServer, asked: ServerRequest): ServerAnswer {
    const sink: WatchSink = {
      event: (event) => this.#come(() => this.#hear(event)),
      end: () => this.#come(() => this.end({ kind: "closed" })),
      cut: () => this.#come(() => this.cut()),
    };
    try {
      // The client may have given up before this came.
      if (!this.#isSilent) this.#unwatch = server.watch(asked, sink);
      return { status: 200, body: null, serverMs: 0, retryAfterMs: 0 };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const { code, body, retryAfterSeconds } = error;
      return { status: code, body, serverMs: 0, retryAfterMs: retryAfterSeconds * 1_000 };
    }
  }

  /** After the server has agreed: reports what comes until it ends. */
  follow(): Promise<WatchEnd | AttemptOutcome> {
    const { request, life } = this.#options;
    const stop = () => this.end({ kind: "closed" });
    const ended = new Promise<WatchEnd | AttemptOutcome>((resolve) => {
      this.#resolve = resolve;
    });
    for (const signal of [request.signal, life]) signal.addEventListener("abort", stop);
    this.#isFollowed = true;
    request.opened?.();
    this.#go();
    return ended.finally(() => {
      for (const signal of [request.signal, life]) signal.removeEventListener("abort", stop);
    });
  }

  /** Ends it from the client's side, or because the server did. */
  end(end: WatchEnd | AttemptOutcome): void {
    this.#unwatch();
    this.#isSilent = true;
    this.#resolve(end);
  }

  /** The connection ends. */
  cut(): void {
    this.end({ kind: "nothing", problem: "aborted" });
  }

  /** The client is gone: the server forgets it, and it never ends. */
  abandon(): void {
    this.#unwatch();
    this.#isSilent = true;
    this.#queue.length = 0;
  }

  /** Nothing of it comes any more, and it stays open. */
  silence(): void {
    this.#isSilent = true;
  }

  #hear(event: WatchEvent): void {
    this.#options.told(event.object);
    if (event.type === "ERROR") {
      this.end(endOfWatch(event.object));
      return;
    }
    const { request } = this.#options;
    try {
      request.arrived?.(Buffer.byteLength(JSON.stringify(event)));
      request.event(event.type, event.object);
    } catch (error) {
      this.end({ kind: "nothing", problem: error instanceof Error ? error.message : String(error) });
    }
  }

  #come(what: () => void): void {
    this.#queue.push(what);
    this.#go();
  }

  #go(): void {
    if (!this.#isDraining && this.#isFollowed) void this.#drain();
  }

  async #drain(): Promise<void> {
    this.#isDraining = true;
    await null;
    for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
      await this.#options.arrival();
      if (this.#isSilent) return;
      next();
    }
    this.#isDraining = false;
  }
}
