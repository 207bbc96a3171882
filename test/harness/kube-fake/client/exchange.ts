import { wholeSeconds } from "../objects.ts";
import { type AttemptOutcome, type Clock, Limit, sleep } from "../port.ts";
import type { ServerAnswer, ServerRequest } from "../requests.ts";
import type { Fate, Link } from "./link.ts";

const RESET = "socket hang up";
/** What a client hears of an exchange that hangs. Not one promise for all: it would remember everybody who waits. */
const nothing = () => new Promise<never>(() => {});

/** What the server makes of a request that has reached it. */
export type Serve = (request: ServerRequest) => Promise<ServerAnswer>;

/** `cutAfter`: of a list, how many of its objects arrived before the connection ended. */
export type Arrival = AttemptOutcome & { readonly cutAfter?: number | undefined };

export interface Attempt {
  readonly verb: "send" | "list" | "watch";
  /** After this it is given up, ms. */
  readonly limitMs: number;
  /** End it early. */
  readonly signals: readonly (AbortSignal | undefined)[];
  readonly serve: Serve;
}

/** Sends requests over a link, one attempt at a time. */
export class Exchange {
  readonly #link: Link;
  readonly #clock: Clock;

  constructor(link: Link, clock: Clock) {
    this.#link = link;
    this.#clock = clock;
  }

  /** Rejects only with what is a defect of the server. */
  async once(request: ServerRequest, attempt: Attempt): Promise<Arrival> {
    const arrival = await this.#limited(request, attempt);
    this.#link.heard?.(request, attempt.verb, arrival);
    return arrival;
  }

  async #limited(request: ServerRequest, { verb, limitMs, signals, serve }: Attempt): Promise<Arrival> {
    const fate = this.#link.fate?.(request, verb) ?? {};
    const limit = new Limit(this.#clock, limitMs, signals);
    try {
      const isLost = fate.hangs || limit.isOver;
      return await limit.race(isLost ? nothing() : this.#carry(request, fate, { verb, serve }));
    } catch (error) {
      if (limit.isOver) return { kind: "nothing", problem: limit.reasonOf(error).message };
      throw error;
    } finally {
      limit.dispose();
    }
  }

  /** Resolves after a time; at once for none. */
  async wait(ms = 0): Promise<void> {
    if (ms > 0) await sleep(this.#clock, ms);
  }

  async #carry(request: ServerRequest, sent: Fate, { verb, serve }: Pick<Attempt, "verb" | "serve">): Promise<Arrival> {
    const { requestMs = 0 } = sent;
    if (requestMs > 0) await sleep(this.#link.clock ?? this.#clock, requestMs);
    const fate = { ...sent, ...this.#link.reached?.(request, verb) };
    if (fate.hangs) return nothing();
    if (fate.lost === "before") return { kind: "nothing", problem: RESET };
    const answer = fate.status === undefined ? await this.#served(request, fate, serve) : this.#instead(fate);
    this.#link.answered?.(request, verb, answer.status, answer.body);
    if (fate.unheard) return nothing();
    await this.wait(fate.answerMs);
    if (fate.lost === "after") return { kind: "nothing", problem: RESET };
    return { kind: "answered", ...answer, cutAfter: fate.cutAfter };
  }

  async #served(request: ServerRequest, { twice }: Fate, serve: Serve): Promise<ServerAnswer> {
    if (twice) await serve(request);
    return serve(request);
  }

  /** What somebody in between answers. */
  #instead({ status = 503, message, retryAfterSeconds = 0 }: Fate): ServerAnswer {
    const [reason = "", words = ""] = REASONS[status] ?? [];
    const body = {
      kind: "Status",
      apiVersion: "v1",
      metadata: {},
      status: "Failure",
      message: message ?? words,
      ...(reason === "" ? {} : { reason }),
      code: status,
    };
    const serverMs = wholeSeconds(this.#clock.wallMs());
    return { status, body, serverMs, retryAfterMs: retryAfterSeconds * 1_000 };
  }
}

const REASONS: Readonly<Record<number, readonly [reason: string, message: string]>> = {
  401: ["Unauthorized", "Unauthorized"],
  403: ["Forbidden", "forbidden: not yet"],
  410: ["Expired", "too old resource version"],
  429: ["TooManyRequests", "Too many requests, please try again later."],
  500: ["InternalError", "Internal error occurred"],
  502: ["", "bad gateway"],
  503: ["ServiceUnavailable", "service unavailable"],
  504: ["Timeout", "request did not complete within the allowed duration"],
};
