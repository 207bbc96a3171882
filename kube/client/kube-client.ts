/*
 * kube/client/: what a client of the API server does, whatever carries its requests
 *
 *   kube-client       one request, tried until its deadline; one watch
 *   read-list         a list, page by page, started over where it must be, or as the beginning of a watch
 *   listed-page       one page, counted
 *   statuses          which answers count, and how long to wait after the others
 *   contact           whether the server is settling after trouble; limit: the time of one attempt
 *   kube-transport    the port below: one attempt; http/ implements it
 */

import { type Clock, sleep } from "../../platform/time.ts";
import { problemOf } from "../answers.ts";
import { Backoff } from "../backoff.ts";
import {
  ApiAway,
  type AttemptFailure,
  GONE,
  type KubeAnswer,
  type KubeApi,
  type KubeRequest,
  type ListAnswer,
  type ListRequest,
  type OnList,
  UNAUTHORIZED,
  type WatchEnd,
  type WatchRequest,
} from "../kube-api.ts";
import type { KubeTransport } from "./kube-transport.ts";
import { readList } from "./read-list.ts";
import { isPassing, waitMsOf } from "./statuses.ts";

/** Time for one attempt, ms: one lost packet or dead connection must not use up a caller's whole time. */
const ATTEMPT_MS = 5_000;
/** Less time than this, ms, is not worth another attempt. */
const ATTEMPT_MS_MIN = 20;
const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 2_000;
/** For a watch to be accepted, ms: the server may first wait until its cache is as new as the requested version. */
const WATCH_OPEN_MS = 30_000;

type Attempt =
  | { readonly kind: "answered"; readonly answer: KubeAnswer }
  | ({ readonly kind: "failed"; readonly waitMs: number } & AttemptFailure);

export interface KubeClientOptions {
  /** For one attempt of `send`, ms; default 5 s. */
  readonly attemptMs?: number | undefined;
  readonly onList?: OnList | undefined;
}

/** The Kubernetes API over a transport: what is tried again, when, and for how long. */
export class KubeClient implements KubeApi {
  readonly clock: Clock;
  readonly #transport: KubeTransport;
  readonly #attemptMs: number;
  readonly #onList: OnList | undefined;

  constructor(transport: KubeTransport, { attemptMs = ATTEMPT_MS, onList }: KubeClientOptions = {}) {
    this.clock = transport.clock;
    this.#transport = transport;
    this.#attemptMs = attemptMs;
    this.#onList = onList;
  }

  async send(request: KubeRequest): Promise<KubeAnswer> {
    const backoff = new Backoff(RETRY_MS_MIN, RETRY_MS_MAX, this.clock);
    const { life } = this.#transport;
    let failure: AttemptFailure = { problem: "time was up before it was sent", status: null, code: null };
    for (;;) {
      if (life.aborted) throw away(request, { problem: "the client was closed" });
      if (request.deadlineMs - this.clock.monotonicMs() < ATTEMPT_MS_MIN) throw away(request, failure);
      const outcome = await this.#inTurn(request, failure);
      if (outcome.kind === "answered") return outcome.answer;
      failure = outcome;
      // Many were refused at the same instant, and are told the same time.
      const waitMs = outcome.waitMs + backoff.next();
      // Waiting is useless when the next attempt would be too late.
      if (this.clock.monotonicMs() + waitMs + ATTEMPT_MS_MIN > request.deadlineMs) throw away(request, failure);
      await sleep(this.clock, waitMs, life);
    }
  }

  list(request: ListRequest): Promise<ListAnswer> {
    return readList(this.#transport, request, this.#onList);
  }

  async watch(request: WatchRequest): Promise<WatchEnd> {
    const { life, contact } = this.#transport;
    const query = { ...request.query, watch: "true", resourceVersion: request.resourceVersion };
    const end = await this.#transport.watch({ ...request, query }, WATCH_OPEN_MS);
    if (end.kind !== "answered" && end.kind !== "nothing") return end;
    if (request.signal.aborted || life.aborted) return { kind: "closed" };
    if (end.kind === "nothing") {
      contact.trouble();
      return { kind: "failed", problem: end.problem };
    }
    const problem = problemOf(end);
    if (end.status === GONE) return { kind: "expired", problem };
    return { kind: "failed", problem, status: end.status, retryAfterMs: waitMsOf(end) };
  }

  /** Each attempt queues again, so that no place is held during a backoff. */
  async #inTurn(request: KubeRequest, { problem, ...before }: AttemptFailure): Promise<Attempt> {
    if (request.method === "GET") return this.#attempt(request);
    try {
      return await this.#transport.inTurn(request, () => this.#attempt(request));
    } catch (error) {
      if (error instanceof ApiAway)
        throw away(request, { ...before, problem: `${error.message} (before that: ${problem})` });
      throw error;
    }
  }

  async #attempt(request: KubeRequest): Promise<Attempt> {
    const reason = request.unless?.() ?? null;
    if (reason !== null) throw new ApiAway(reason);
    const leftMs = Math.max(1, request.deadlineMs - this.clock.monotonicMs());
    const outcome = await this.#transport.exchange(request, Math.min(this.#attemptMs, leftMs));
    if (outcome.kind === "nothing")
      return {
        kind: "failed",
        problem: outcome.problem,
        status: null,
        code: outcome.code ?? null,
        waitMs: 0,
      };
    const { status, body, serverMs } = outcome;
    if (isPassing(status, this.#transport.contact) || status === UNAUTHORIZED)
      return { kind: "failed", problem: problemOf(outcome), status, code: null, waitMs: waitMsOf(outcome) };
    if (body === null)
      return {
        kind: "failed",
        problem: `${status} with a body that is no JSON`,
        status,
        code: null,
        waitMs: 0,
      };
    return { kind: "answered", answer: { status, body, serverMs } };
  }
}

function away({ method, path }: KubeRequest, failure: Partial<AttemptFailure>): ApiAway {
  return new ApiAway(`no answer of the API server to ${method} ${path}: ${failure.problem}`, failure);
}
