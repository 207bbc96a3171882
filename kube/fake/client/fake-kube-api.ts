import { setMaxListeners } from "node:events";
import type { ApiServer } from "../api-server.ts";
import { overTheWire } from "../objects.ts";
import {
  ApiAway,
  Backoff,
  type Clock,
  type KubeAnswer,
  type KubeApi,
  type KubeRequest,
  type ListAnswer,
  type ListRequest,
  type WatchEnd,
  type WatchRequest,
  type World,
} from "../port.ts";
import type { ServerRequest, User } from "../requests.ts";
import { Exchange, type Serve } from "./exchange.ts";
import { FakeList } from "./fake-list.ts";
import { FakeWatch } from "./fake-watch.ts";
import type { Link } from "./link.ts";
import { isPassing, type Outcome, problemOf, refusalOf, waitOf } from "./outcomes.ts";

/** As of the client over HTTP, ms. */
const ATTEMPT_MS = 5_000;
const ATTEMPT_MS_MIN = 20;
const RETRY_MS_MIN = 50;
const RETRY_MS_MAX = 2_000;
const WATCH_OPEN_MS = 30_000;
const SETTLING_MS = 10_000;

const UNAUTHORIZED = 401;
const FORBIDDEN = 403;

export interface FakeKubeApiOptions extends World {
  /** May be another one after a while, as behind a load balancer. */
  readonly server: () => ApiServer;
  readonly user?: User;
  readonly link?: Link;
}

/** A client of an ApiServer in the same process: the KubeApi without a socket. It tries again, and gives up, as the one over HTTP does. */
export class FakeKubeApi implements KubeApi {
  /** What becomes of requests under way; see there. */
  readonly link: Link;
  readonly #options: FakeKubeApiOptions;
  readonly #user: User;
  readonly #exchange: Exchange;
  readonly #life = new AbortController();
  readonly #watches = new Set<FakeWatch>();
  readonly #serve: Serve = (request) => this.#options.server().answer(request);
  #lastContactMs = Number.NEGATIVE_INFINITY;
  #lastTroubleMs = Number.NEGATIVE_INFINITY;

  constructor(options: FakeKubeApiOptions) {
    this.#options = options;
    this.link = options.link ?? {};
    this.#user = options.user ?? { username: "admin", groups: ["system:masters"] };
    this.#exchange = new Exchange(this.link, options.clock);
    // Every request under way listens to it.
    setMaxListeners(0, this.#life.signal);
  }

  get clock(): Clock {
    return this.#options.clock;
  }

  get lastContactMs(): number {
    return this.#lastContactMs;
  }

  /** Ends everything that is under way; what comes later fails. */
  close(): void {
    this.#life.abort();
  }

  /** The connections of the open watches end. */
  cutWatches(): void {
    for (const watch of [...this.#watches]) watch.cut();
  }

  /** The open watches stay open, and nothing comes from them any more. */
  silenceWatches(): void {
    for (const watch of this.#watches) watch.silence();
  }

  async send(request: KubeRequest): Promise<KubeAnswer> {
    const { clock } = this.#options;
    const backoff = new Backoff(RETRY_MS_MIN, RETRY_MS_MAX, clock);
    let problem = "time was up before it was sent";
    for (;;) {
      if (this.#life.signal.aborted) throw away(request, "the client was closed");
      const leftMs = request.deadlineMs - clock.monotonicMs();
      if (leftMs < ATTEMPT_MS_MIN) throw away(request, problem);
      const reason = request.unless?.() ?? null;
      if (reason !== null) throw new ApiAway(reason);
      const outcome = await this.#attempt(serverRequest(this.#user, request), Math.min(ATTEMPT_MS, leftMs));
      if (outcome.kind === "answered" && !this.#isToBeRepeated(outcome.answer.status)) {
        const { status, body, serverMs } = outcome.answer;
        return { status, body, serverMs };
      }
      problem = problemOf(outcome);
      const asked = outcome.kind === "answered" ? waitOf(outcome.answer) : 0;
      const waitMs = Math.max(backoff.next(), asked);
      if (clock.monotonicMs() + waitMs + ATTEMPT_MS_MIN > request.deadlineMs) throw away(request, problem);
      await this.#exchange.wait(waitMs);
    }
  }

  list(request: ListRequest): Promise<ListAnswer> {
    const { clock } = this.#options;
    const page = async (query: Readonly<Record<string, string>>, limitMs: number) => {
      const { path, metadataOnly = false, signal } = request;
      const asked: ServerRequest = { user: this.#user, method: "GET", path, query, metadataOnly };
      const serve = this.#serve;
      const outcome = await this.#exchange.once(asked, { verb: "list", limitMs, signal, serve });
      this.#note(outcome);
      const isSettling =
        outcome.kind === "answered" && outcome.answer.status === FORBIDDEN && this.#isSettling;
      return { outcome, isSettling };
    };
    return new FakeList({ clock, request, page, life: this.#life.signal }).run();
  }

  async watch(request: WatchRequest): Promise<WatchEnd> {
    const { path, metadataOnly = false, resourceVersion, signal } = request;
    const query = { ...request.query, watch: "true", resourceVersion };
    const asked: ServerRequest = { user: this.#user, method: "GET", path, query, metadataOnly };
    const watch = new FakeWatch({
      request,
      life: this.#life.signal,
      arrival: () => this.#exchange.wait(this.link.eventMs?.()),
      heard: () => {
        this.#lastContactMs = this.#options.clock.monotonicMs();
      },
      lost: () => {
        this.#lastTroubleMs = this.#options.clock.monotonicMs();
      },
    });
    const serve = async () => watch.open(this.#options.server(), asked);
    const outcome = await this.#exchange.once(asked, {
      verb: "watch",
      limitMs: WATCH_OPEN_MS,
      signal,
      serve,
    });
    this.#note(outcome);
    const isOff = signal.aborted || this.#life.signal.aborted;
    if (isOff || outcome.kind === "nothing" || outcome.answer.status !== 200) {
      watch.end({ kind: "closed" });
      return isOff ? { kind: "closed" } : refusalOf(outcome);
    }
    this.#watches.add(watch);
    return watch.follow().finally(() => this.#watches.delete(watch));
  }

  async #attempt(request: ServerRequest, limitMs: number): Promise<Outcome> {
    const { signal } = this.#life;
    const outcome = await this.#exchange.once(request, { verb: "send", limitMs, signal, serve: this.#serve });
    this.#note(outcome);
    return outcome;
  }

  #note(outcome: Outcome): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (outcome.kind === "answered") this.#lastContactMs = nowMs;
    if (outcome.kind === "nothing" || outcome.answer.status >= 500) this.#lastTroubleMs = nowMs;
  }

  /** Whether a refusal may be withdrawn in a moment: the server was away or failing until just now. */
  get #isSettling(): boolean {
    return this.#options.clock.monotonicMs() - this.#lastTroubleMs < SETTLING_MS;
  }

  #isToBeRepeated(status: number): boolean {
    return isPassing(status) || status === UNAUTHORIZED || (status === FORBIDDEN && this.#isSettling);
  }
}

function serverRequest(user: User, { method, path, query = {}, body, patch }: KubeRequest): ServerRequest {
  return {
    user,
    method,
    path,
    query,
    ...(body === undefined ? {} : { body: overTheWire(body) }),
    ...(patch === undefined ? {} : { patch }),
  };
}

function away(request: KubeRequest, problem: string): ApiAway {
  return new ApiAway(`no answer of the API server to ${request.method} ${request.path}: ${problem}`);
}
