import { type Clock, sleep } from "../../platform/time.ts";
import { problemOf } from "../answers.ts";
import { Backoff } from "../backoff.ts";
import { ApiAway, GONE, type ListAnswer, ListRefused, type ListRequest, NOT_FOUND, type OnList } from "../kube-api.ts";
import { fullNameOf } from "../object-names.ts";
import type { AttemptOutcome, KubeTransport, ListPageRequest } from "./kube-transport.ts";
import { counted, readPage } from "./listed-page.ts";
import { isPassing, waitMsOf } from "./statuses.ts";

/** Objects per page, as in the server's own client. */
const PAGE_OBJECTS = "500";
/** Failures in a row after which a list without a deadline is given up. */
const FAILURES_MAX = 4;
/** The same of a later page: what came before it would have to be read again. */
const LATER_FAILURES_MAX = 8;
const RESTARTS_MAX = 3;
/** A page is given up after so long without a byte, ms. A large list that is read from etcd takes seconds to begin. */
const SILENCE_MS_MAX = 30_000;
const RETRY_MS_MIN = 200;
const RETRY_MS_MAX = 5_000;

/** The cause that a server gives which is older than the version that was asked for. */
const TOO_LARGE = "ResourceVersionTooLarge";

/**
 * The outcome of one page. `begin`: the list must be started over. `expired`: its version is too old; `goOn` is the
 * token that the server offers for the rest at a later one, "" where it offers none. `ahead`: the server has not
 * reached its version.
 */
type PageResult =
  | { readonly kind: "read"; readonly resourceVersion: string; readonly next: string }
  | { readonly kind: "missing" }
  | { readonly kind: "begin"; readonly problem: string }
  | { readonly kind: "expired"; readonly problem: string; readonly goOn: string }
  | { readonly kind: "ahead"; readonly problem: string }
  | Failed
  | { readonly kind: "refused"; readonly problem: string; readonly status: number };

/** `status`: null: there was no answer. */
interface Failed {
  readonly kind: "failed";
  readonly problem: string;
  readonly waitMs: number;
  readonly status: number | null;
}

export async function readList(transport: KubeTransport, request: ListRequest, onList?: OnList): Promise<ListAnswer> {
  return new ListReader(transport, request, onList).run();
}

class ListReader {
  readonly #transport: KubeTransport;
  readonly #request: ListRequest;
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  readonly #onList: OnList | undefined;
  #query: Readonly<Record<string, string>>;
  /** Whether the caller has received any object since the beginning. */
  #brought = false;
  /** Names of the objects that the caller has received of the page at hand, unless that is the first one. */
  readonly #ofPage = new Set<string>();
  #restarts = 0;
  #failures = 0;
  /** What the caller threw for an object. */
  #thrown: { readonly error: unknown } | null = null;

  constructor(transport: KubeTransport, request: ListRequest, onList: OnList | undefined) {
    this.#clock = transport.clock;
    this.#backoff = new Backoff(RETRY_MS_MIN, RETRY_MS_MAX, transport.clock);
    this.#transport = transport;
    this.#request = request;
    this.#onList = onList;
    // The server sends a list from its cache (resourceVersion) in one piece whatever the limit.
    const { query = {}, notOlderThan } = request;
    if (notOlderThan !== undefined)
      this.#query = { ...query, resourceVersion: notOlderThan, resourceVersionMatch: "NotOlderThan" };
    else this.#query = query.resourceVersion === undefined ? { limit: PAGE_OBJECTS, ...query } : query;
  }

  async run(): Promise<ListAnswer> {
    const streamed = await this.#stream();
    if (streamed !== null) return streamed;
    for (;;) {
      this.#checkTime("time is up");
      const page = await this.#page();
      if (page.kind === "missing") return page;
      if (page.kind === "read") {
        const { resourceVersion, next } = page;
        if (next === "") return { kind: "listed", resourceVersion };
        if (this.#request.onePage) return { kind: "listed", resourceVersion, next };
        this.#failures = 0;
        this.#ofPage.clear();
        this.#query = { ...this.#query, continue: next };
      } else if (page.kind === "ahead" && this.#query.resourceVersionMatch !== undefined)
        this.#query = { ...this.#request.query, limit: PAGE_OBJECTS };
      else if (page.kind === "refused") throw new ListRefused(this.#cannot(page.problem), page.status, page.problem);
      else if (page.kind === "ahead") throw this.#away(page.problem);
      else if (page.kind === "begin") await this.#restart(this.#query, page.problem);
      else if (page.kind === "expired") await this.#expired(page.problem, page.goOn);
      else await this.#again(page);
    }
  }

  /** null: pages are to be read. One attempt: those always lead on, and a server without streams refuses at once. */
  async #stream(): Promise<ListAnswer | null> {
    const { path, query = {}, metadataOnly, signal, streamed } = this.#request;
    if (streamed === undefined) return null;
    this.#checkTime("time is up");
    const each = (object: unknown) => this.#bring(object);
    const gone = (object: unknown) => this.#safely(() => streamed.gone(object));
    const request = { path, query, metadataOnly, signal, each, streamed: { gone } };
    const outcome = await readStream(this.#transport, request, this.#silenceMs, this.#onList);
    if (this.#thrown) throw this.#thrown.error;
    if (outcome.kind === "read") return { kind: "listed", resourceVersion: outcome.resourceVersion };
    const { resourceVersion: _any, ...selectors } = query;
    this.#query = { ...selectors, limit: PAGE_OBJECTS };
    if (outcome.kind === "answered") {
      if (outcome.status === NOT_FOUND) return { kind: "missing" };
      if (isPassing(outcome.status, this.#transport.contact)) await this.#wait(waitMsOf(outcome), problemOf(outcome));
    } else if (this.#brought) await this.#restart(this.#query, outcome.problem);
    return null;
  }

  async #again({ problem, waitMs, status }: Failed): Promise<void> {
    this.#failures += 1;
    const failuresMax = this.#query.continue === undefined ? FAILURES_MAX : LATER_FAILURES_MAX;
    const isLast = this.#request.deadlineMs === undefined && this.#failures >= failuresMax;
    // Also before it is given up: whoever asked for it may begin anew at once. Many were refused together, so not all
    // at that instant.
    if (waitMs > 0 || !isLast) await this.#wait(waitMs + this.#backoff.next(), problem);
    if (isLast) throw this.#away(problem, status);
  }

  async #expired(problem: string, goOn: string): Promise<void> {
    const { continue: _token, resourceVersion, resourceVersionMatch: _match, ...query } = this.#query;
    if (this.#request.onePage && goOn !== "") return this.#restart({ ...query, continue: goOn }, problem);
    // A version that is too old: a current list comes only from a read without one.
    await this.#restart(resourceVersion === undefined ? query : { ...query, limit: PAGE_OBJECTS }, problem);
  }

  async #restart(query: Record<string, string>, problem: string): Promise<void> {
    this.#restarts += 1;
    const deaf = this.#brought && this.#request.restarted === undefined;
    if (deaf || this.#restarts > RESTARTS_MAX) throw this.#away(problem);
    this.#request.restarted?.();
    this.#brought = false;
    this.#ofPage.clear();
    this.#query = query;
    await this.#wait(this.#backoff.next(), problem);
  }

  async #wait(ms: number, problem: string): Promise<void> {
    if (this.#clock.monotonicMs() + ms > (this.#request.deadlineMs ?? Number.POSITIVE_INFINITY))
      throw this.#away(problem);
    await sleep(this.#clock, ms, this.#request.signal ?? this.#transport.life);
    this.#checkTime(problem);
  }

  #checkTime(problem: string): void {
    if (this.#request.signal?.aborted || this.#transport.life.aborted) throw this.#away("it was called off");
    if (this.#clock.monotonicMs() >= (this.#request.deadlineMs ?? Number.POSITIVE_INFINITY)) throw this.#away(problem);
  }

  #away(problem: string, status: number | null = null): ApiAway {
    return new ApiAway(this.#cannot(problem), { problem, status });
  }

  #cannot(problem: string): string {
    return `cannot list ${this.#request.path}: ${problem}`;
  }

  async #page(): Promise<PageResult> {
    const { path, metadataOnly, signal } = this.#request;
    // The token names the version, so a later page is the same when it is read again.
    const isRepeatable = this.#query.continue !== undefined;
    const each = (object: Parameters<typeof fullNameOf>[0]) => {
      if (!isRepeatable || this.#isNewOfPage(object)) this.#bring(object);
    };
    const page = { path, query: this.#query, metadataOnly, signal, each };
    const outcome = await readPage(this.#transport, page, this.#silenceMs, this.#onList);
    if (this.#thrown) throw this.#thrown.error;
    if (outcome.kind === "read") return outcome;
    if (outcome.kind === "nothing") {
      const { problem } = outcome;
      // Of another version the first page may be different when it is read again.
      if (this.#brought && !isRepeatable) return { kind: "begin", problem };
      return { kind: "failed", problem, waitMs: 0, status: null };
    }
    const { status } = outcome;
    const problem = problemOf(outcome);
    if (status === NOT_FOUND) return { kind: "missing" };
    if (status === GONE) return { kind: "expired", problem, goOn: outcome.body?.metadata?.continue ?? "" };
    // It has waited for that already, and a restored one may never get there.
    if (causesOf(outcome.body).includes(TOO_LARGE)) return { kind: "ahead", problem };
    if (isPassing(status, this.#transport.contact))
      return { kind: "failed", problem, waitMs: waitMsOf(outcome), status };
    return { kind: "refused", problem, status };
  }

  get #silenceMs(): number {
    const { deadlineMs = Number.POSITIVE_INFINITY } = this.#request;
    return Math.min(SILENCE_MS_MAX, deadlineMs - this.#clock.monotonicMs());
  }

  /** Notes that the caller is about to receive an object of the page at hand; false: it has already. */
  #isNewOfPage(object: Parameters<typeof fullNameOf>[0]): boolean {
    const name = fullNameOf(object);
    const isNew = !this.#ofPage.has(name);
    this.#ofPage.add(name);
    return isNew;
  }

  #bring(object: unknown): void {
    this.#brought = true;
    this.#safely(() => this.#request.each(object));
  }

  /** What the caller throws ends the list, whatever the transport makes of it. */
  #safely(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#thrown ??= { error };
      throw error;
    }
  }
}

function causesOf(body: { readonly details?: { readonly causes?: readonly { readonly reason?: string }[] } } | null) {
  return (body?.details?.causes ?? []).map(({ reason }) => reason);
}

/** The bookmark with this annotation ends what is there at the beginning of a watch (KEP 3157). */
const INITIAL_EVENTS_END = "k8s.io/initial-events-end";
/** Ends one that brings no such bookmark, seconds: servers before 1.19 overlook what they do not know. */
const STREAM_SECONDS_MAX = "900";

/** Only servers with WatchList take these: 1.19 to 1.26 refuse the second, later ones without it the first (422). */
const STREAM_QUERY = {
  watch: "true",
  sendInitialEvents: "true",
  resourceVersionMatch: "NotOlderThan",
  allowWatchBookmarks: "true",
  timeoutSeconds: STREAM_SECONDS_MAX,
} as const;

/** `resourceVersion`: of the state that was read, from which it can be watched. */
type StreamOutcome = { readonly kind: "read"; readonly resourceVersion: string } | AttemptOutcome;

type StreamedRequest = Omit<ListPageRequest, "arrived"> & Required<Pick<ListRequest, "streamed">>;

/** A whole list as the beginning of a watch, once; given up after `silenceMs` of silence. See docs/decisions/0079. */
function readStream(
  transport: KubeTransport,
  request: StreamedRequest,
  silenceMs: number,
  onList: OnList | undefined,
): Promise<StreamOutcome> {
  const { gone } = request.streamed;
  return counted({ ...request, arrived: undefined }, "stream", onList, async (page) => {
    const ends = new AbortController();
    const end = () => ends.abort();
    const silence = transport.clock.timer(silenceMs, end);
    page.signal?.addEventListener("abort", end);
    if (page.signal?.aborted) end();
    let resourceVersion: string | null = null;
    const event = (type: string, object: StreamedObject) => {
      silence.restart();
      if (resourceVersion !== null) return;
      if (type === "ADDED" || type === "MODIFIED") page.each(object);
      else if (type === "DELETED") gone(object);
      else if (object.metadata?.annotations?.[INITIAL_EVENTS_END] === "true") {
        resourceVersion = object.metadata.resourceVersion ?? "";
        end();
      }
    };
    try {
      const { path, metadataOnly = false, arrived } = page;
      const query = { ...page.query, ...STREAM_QUERY };
      const { signal } = ends;
      const outcome = await transport.watch(
        { path, query, metadataOnly, signal, event, arrived, opened: () => silence.restart() },
        silenceMs,
      );
      if (resourceVersion !== null) return { kind: "read", resourceVersion };
      if (outcome.kind === "answered" || outcome.kind === "nothing") return outcome;
      const problem = outcome.kind === "closed" ? "the stream ended before it was complete" : outcome.problem;
      return { kind: "nothing", problem };
    } finally {
      silence.cancel();
      page.signal?.removeEventListener("abort", end);
    }
  });
}

interface StreamedObject {
  readonly metadata?: {
    readonly resourceVersion?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}
