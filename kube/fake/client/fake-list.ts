import type { KubeObject } from "../objects.ts";
import {
  ApiAway,
  Backoff,
  type ListAnswer,
  ListRefused,
  type ListRequest,
  sleep,
  type World,
} from "../port.ts";
import { isPassing, type Outcome, problemOf, waitOf } from "./outcomes.ts";

/** As of the client over HTTP. */
const PAGE_OBJECTS = "500";
const FAILURES_MAX = 4;
const RESTARTS_MAX = 3;
const SILENCE_MS_MAX = 30_000;
const RETRY_MS_MIN = 200;
const RETRY_MS_MAX = 5_000;

const FORBIDDEN = 403;
const NOT_FOUND = 404;
const GONE = 410;

interface Paged {
  readonly outcome: Outcome;
  /** Its 403 may be withdrawn in a moment. */
  readonly isSettling: boolean;
}

export interface FakeListOptions extends World {
  readonly request: ListRequest;
  readonly page: (query: Readonly<Record<string, string>>, limitMs: number) => Promise<Paged>;
  /** Aborts when the client is closed. */
  readonly life: AbortSignal;
}

/** Reads a list to its end, and begins anew where it has to. */
export class FakeList {
  readonly #options: FakeListOptions;
  readonly #backoff: Backoff;
  #query: Record<string, string>;
  #brought = false;
  #restarts = 0;
  #failures = 0;

  constructor(options: FakeListOptions) {
    this.#options = options;
    this.#backoff = new Backoff(RETRY_MS_MIN, RETRY_MS_MAX, options.clock);
    const { query } = options.request;
    const paged = query?.resourceVersion === undefined;
    this.#query = { ...(paged ? { limit: PAGE_OBJECTS } : {}), ...query };
  }

  async run(): Promise<ListAnswer> {
    const { request, page, clock } = this.#options;
    for (;;) {
      this.#checkTime("time is up");
      const leftMs = (request.deadlineMs ?? Number.POSITIVE_INFINITY) - clock.monotonicMs();
      const { outcome, isSettling } = await page(this.#query, Math.min(SILENCE_MS_MAX, leftMs));
      if (outcome.kind === "nothing") {
        // What was half read may be different when it is read again.
        if (this.#brought) await this.#begin(false, outcome.problem);
        else await this.#again(outcome.problem, 0);
        continue;
      }
      const { status, body } = outcome.answer;
      const problem = problemOf(outcome);
      if (status === NOT_FOUND) return { kind: "missing" };
      if (status === GONE) await this.#begin(true, problem);
      else if (isPassing(status) || (status === FORBIDDEN && isSettling))
        await this.#again(problem, waitOf(outcome.answer));
      else if (status !== 200) throw new ListRefused(this.#cannot(problem), status);
      else {
        const answer = await this.#read(body, outcome.cutAfter);
        if (answer) return answer;
      }
    }
  }

  /** null: it goes on. */
  async #read({ items, metadata }: KubeObject, cutAfter: number | undefined): Promise<ListAnswer | null> {
    const arrived = cutAfter === undefined ? items : items.slice(0, cutAfter);
    for (const object of arrived) {
      this.#brought = true;
      this.#options.request.each(object);
    }
    if (cutAfter !== undefined) {
      if (this.#brought) await this.#begin(false, "aborted");
      else await this.#again("aborted", 0);
      return null;
    }
    this.#failures = 0;
    if (!metadata.continue) return { kind: "listed", resourceVersion: metadata.resourceVersion };
    this.#query.continue = metadata.continue;
    return null;
  }

  async #again(problem: string, waitMs: number): Promise<void> {
    this.#failures += 1;
    if (this.#options.request.deadlineMs === undefined && this.#failures >= FAILURES_MAX)
      throw this.#away(problem);
    await this.#wait(Math.max(waitMs, this.#backoff.next()), problem);
  }

  async #begin(isExpired: boolean, problem: string): Promise<void> {
    const { restarted } = this.#options.request;
    this.#restarts += 1;
    const isDeaf = this.#brought && restarted === undefined;
    if (isDeaf || this.#restarts > RESTARTS_MAX) throw this.#away(problem);
    restarted?.();
    this.#brought = false;
    const { continue: _, ...query } = this.#query;
    if (isExpired && query.resourceVersion !== undefined) {
      delete query.resourceVersion;
      query.limit = PAGE_OBJECTS;
    }
    this.#query = query;
    await this.#wait(this.#backoff.next(), problem);
  }

  async #wait(ms: number, problem: string): Promise<void> {
    const { request, clock, life } = this.#options;
    if (clock.monotonicMs() + ms > (request.deadlineMs ?? Number.POSITIVE_INFINITY))
      throw this.#away(problem);
    await sleep(clock, ms, request.signal ?? life);
    this.#checkTime(problem);
  }

  #checkTime(problem: string): void {
    const { request, clock, life } = this.#options;
    if (request.signal?.aborted || life.aborted) throw this.#away("it was called off");
    if (clock.monotonicMs() >= (request.deadlineMs ?? Number.POSITIVE_INFINITY)) throw this.#away(problem);
  }

  #away(problem: string): ApiAway {
    return new ApiAway(this.#cannot(problem));
  }

  #cannot(problem: string): string {
    return `cannot list ${this.#options.request.path}: ${problem}`;
  }
}
