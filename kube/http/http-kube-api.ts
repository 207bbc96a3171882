/*
 * kube/http/: the KubeApi port over HTTP
 *
 *   http-kube-api            one request, tried until its deadline
 *   kube-config              where the server is, and who we are
 *   transport, limit         connections, and answers that did not come
 *   read-list, list-stream   lists, page by page, object by object
 *   watch-stream             watches, event by event
 *   write-queue              writes wait their turn (Bottleneck)
 */

import { type Clock, parseTime, sleep } from "../../platform/time.ts";
import { problemOf } from "../answers.ts";
import { Backoff } from "../backoff.ts";
import { Breather } from "../breather.ts";
import {
  ApiAway,
  type Failure,
  type KubeAnswer,
  type KubeApi,
  type KubeRequest,
  type ListAnswer,
  type ListRequest,
  type WatchEnd,
  type WatchRequest,
} from "../kube-api.ts";
import { parseBody, readBody, retryAfterMs } from "./answer-body.ts";
import type { KubeConnection } from "./kube-config.ts";
import { Limit } from "./limit.ts";
import { acceptOf, PATCH_TYPES } from "./media-types.ts";
import { readList } from "./read-list.ts";
import { type OnRequest, Transport } from "./transport.ts";
import { WatchStream } from "./watch-stream.ts";
import { WriteQueue } from "./write-queue.ts";

/** Time for one attempt, ms: one lost packet or dead connection must not use up a caller's whole time. */
const ATTEMPT_MS = 5_000;
/** Less time than this, ms, is not worth another attempt. */
const ATTEMPT_MS_MIN = 20;
const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 2_000;
/** For a watch to be agreed to, ms: the server may first wait until its cache is as new as the version asked for. */
const WATCH_OPEN_MS = 30_000;

const UNAUTHORIZED = 401;
const FORBIDDEN = 403;
const GONE = 410;
const TOO_MANY = 429;

export interface HttpKubeApiOptions {
  readonly onRequest?: OnRequest;
  /** Time for one attempt of `send`, ms; default 5 s. */
  readonly attemptMs?: number;
  /** Writes in flight at once; default 32. */
  readonly writesMax?: number;
}

type Attempt =
  | { readonly kind: "answered"; readonly answer: KubeAnswer }
  | ({ readonly kind: "failed"; readonly waitMs: number } & Failure);

/** The Kubernetes API over HTTP. Keeps connections, but no process, alive; `close` ends everything at once. */
export class HttpKubeApi implements KubeApi {
  readonly clock: Clock;
  readonly #transport: Transport;
  readonly #writes: WriteQueue;
  readonly #attemptMs: number;

  constructor(connection: KubeConnection, clock: Clock, options: HttpKubeApiOptions = {}) {
    this.clock = clock;
    this.#transport = new Transport(connection, clock, options.onRequest);
    this.#writes = new WriteQueue(clock, options.writesMax);
    this.#attemptMs = options.attemptMs ?? ATTEMPT_MS;
  }

  get lastContactMs(): number {
    return this.#transport.lastContactMs;
  }

  async send(request: KubeRequest): Promise<KubeAnswer> {
    const backoff = new Backoff(RETRY_MS_MIN, RETRY_MS_MAX, this.clock);
    const { life } = this.#transport;
    let failure: Failure = { problem: "time was up before it was sent", status: null };
    for (;;) {
      if (life.aborted) throw away(request, { problem: "the client was closed", status: null });
      if (request.deadlineMs - this.clock.monotonicMs() < ATTEMPT_MS_MIN) throw away(request, failure);
      const outcome = await this.#inTurn(request, failure);
      if (outcome.kind === "answered") return outcome.answer;
      failure = outcome;
      const waitMs = Math.max(backoff.next(), outcome.waitMs);
      // No use in waiting for what comes too late.
      if (this.clock.monotonicMs() + waitMs + ATTEMPT_MS_MIN > request.deadlineMs)
        throw away(request, failure);
      await sleep(this.clock, waitMs, life);
    }
  }

  list(request: ListRequest): Promise<ListAnswer> {
    return readList(this.#transport, this.clock, request);
  }

  async watch(request: WatchRequest): Promise<WatchEnd> {
    const { life } = this.#transport;
    const limit = new Limit(this.clock, WATCH_OPEN_MS, [request.signal, life]);
    try {
      return await this.#follow(request, limit);
    } catch (error) {
      if (request.signal.aborted || life.aborted) return { kind: "closed" };
      this.#transport.trouble();
      return { kind: "failed", problem: limit.reasonOf(error).message };
    } finally {
      limit.dispose();
    }
  }

  /** Ends requests, lists and watches that are under way; later ones fail. */
  close(): void {
    this.#transport.close();
  }

  /** An attempt takes its place in the queue anew each time, so that nobody holds one while waiting to try again. */
  async #inTurn(request: KubeRequest, { problem, status }: Failure): Promise<Attempt> {
    if (request.method === "GET") return this.#attempt(request);
    try {
      return await this.#writes.run(request.priority, request.deadlineMs, () => this.#attempt(request));
    } catch (error) {
      if (error instanceof ApiAway)
        throw away(request, { problem: `${error.message} (before that: ${problem})`, status });
      throw error;
    }
  }

  async #attempt(request: KubeRequest): Promise<Attempt> {
    const reason = request.unless?.() ?? null;
    if (reason !== null) throw new ApiAway(reason);
    const leftMs = Math.max(1, request.deadlineMs - this.clock.monotonicMs());
    const limit = new Limit(this.clock, Math.min(this.#attemptMs, leftMs), [this.#transport.life]);
    try {
      const response = await this.#transport.open({
        verb: request.method,
        method: request.method,
        path: request.path,
        query: request.query,
        ...bodyOf(request),
        limit,
      });
      const status = response.statusCode ?? 0;
      const body = parseBody(await readBody(response), status);
      if (status === TOO_MANY || status >= 500)
        return {
          kind: "failed",
          problem: problemOf({ status, body }),
          status,
          waitMs: retryAfterMs(response),
        };
      const refused = status === UNAUTHORIZED || (status === FORBIDDEN && this.#transport.settling);
      if (refused) return { kind: "failed", problem: problemOf({ status, body }), status, waitMs: 0 };
      if (body === null)
        return { kind: "failed", problem: `${status} with a body that is no JSON`, status, waitMs: 0 };
      const serverMs = parseTime(response.headers.date ?? "");
      return {
        kind: "answered",
        answer: { status, body, serverMs: Number.isNaN(serverMs) ? null : serverMs },
      };
    } catch (error) {
      // The other idle connections probably lead to the same nowhere.
      if (limit.signal.aborted) this.#transport.dropIdle();
      return { kind: "failed", problem: limit.reasonOf(error).message, status: null, waitMs: 0 };
    } finally {
      limit.dispose();
    }
  }

  async #follow(request: WatchRequest, limit: Limit): Promise<WatchEnd> {
    const response = await this.#transport.open({
      verb: "WATCH",
      method: "GET",
      path: request.path,
      query: { ...request.query, watch: "true", resourceVersion: request.resourceVersion },
      headers: { accept: acceptOf("watch", request.metadataOnly) },
      limit,
    });
    const status = response.statusCode ?? 0;
    if (status !== 200) {
      const problem = problemOf({ status, body: parseBody(await readBody(response), status) });
      if (status === GONE) return { kind: "expired", problem };
      return { kind: "failed", problem, status, retryAfterMs: retryAfterMs(response) };
    }
    limit.disarm();
    request.opened?.();
    const stream = new WatchStream(request.event);
    const breather = new Breather(this.clock);
    for await (const chunk of response) {
      this.#transport.contact();
      const end = stream.push(chunk as Buffer);
      if (end) return end;
      if (request.signal.aborted) break;
      if (breather.due) await breather.breathe();
    }
    return { kind: "closed" };
  }
}

function bodyOf(request: KubeRequest): { headers: Record<string, string>; body?: string } {
  const accept = "application/json";
  if (request.body === undefined) return { headers: { accept } };
  const type = request.patch === undefined ? accept : PATCH_TYPES[request.patch];
  return { headers: { accept, "content-type": type }, body: JSON.stringify(request.body) };
}

function away(request: KubeRequest, failure: Failure): ApiAway {
  const message = `no answer of the API server to ${request.method} ${request.path}: ${failure.problem}`;
  return new ApiAway(message, { problem: failure.problem, status: failure.status });
}
