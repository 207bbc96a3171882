import { type Clock, sleep } from "../platform/time.ts";
import { Backoff } from "./backoff.ts";
import { CollectionPaths } from "./collection-paths.ts";
import { ApiAway, BAD_REQUEST, FORBIDDEN, ListRefused, NOT_FOUND, TOO_MANY, type WatchEnd } from "./kube-api.ts";
import { LastChange } from "./last-change.ts";
import { type Listed, Listing, type Reflected, ReflectedItems } from "./reflected-items.ts";
import { type ReflectorOptions, type ReflectorState, type ReflectorTimings, TIMINGS } from "./reflector-options.ts";
import { watchOnce } from "./watch-once.ts";

export type { ReflectorOptions, ReflectorState, ReflectorTimings } from "./reflector-options.ts";

/** Useless watches in a row after which to list again: the version they begin at may be wrong. */
const QUICK_ENDS_MAX = 3;

/**
 * Keeps a copy of a resource's objects: lists them, then follows changes, forever. Replaced objects are recognised by
 * UID, even if the deletion was missed. The copy stays while the server is away or the definition is missing.
 *
 * A server that is there again may have been restored from a backup, and have reached the copy's version a second time.
 * So a watch that was broken is resumed from before the last change, which has to be told again; without that, the
 * objects are listed anew. See docs/decisions/0046.
 */
export class Reflector<T extends Reflected> {
  readonly #options: ReflectorOptions<T>;
  readonly #timings: ReflectorTimings;
  readonly #clock: Clock;
  readonly #reflected: ReflectedItems<T>;
  readonly #paths: CollectionPaths;
  #backoff: Backoff;
  readonly #life = new AbortController();
  readonly #waiting = new Set<() => void>();
  #loop: Promise<void> | null = null;
  #synced = false;
  #missing = false;
  #forbidden = false;
  /** The version to watch from; null: list first. */
  #version: string | null = null;
  #lastVersion: string | null = null;
  #lastChange = new LastChange();
  /** A watch broke, and the server has not shown since that it has what the copy was made from. */
  #unproven = false;
  /** When the server last told something that a watch can go on from, ms. */
  #toldMs = 0;
  /** The next list must not come from the server's cache: the last one failed. */
  #quorum = false;
  /** Watches in a row that were accepted and ended at once. */
  #quickEnds = 0;
  /** Ends the watch that is under way. */
  #ends = new AbortController();
  #lost = false;
  #state: ReflectorState | null = null;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#timings = { ...TIMINGS, ...options.timings };
    this.#clock = options.api.clock;
    this.#reflected = new ReflectedItems(options, this.#clock);
    this.#paths = new CollectionPaths(options.path, options.otherPaths);
    const { retryMsMin, retryMsMax, firstRetryMsMax } = this.#timings;
    this.#backoff = new Backoff(retryMsMin, Math.min(firstRetryMsMax, retryMsMax), this.#clock);
  }

  /** By key. */
  get items(): ReadonlyMap<string, T> {
    return this.#reflected.items;
  }

  /** Whether there has been a complete list. It stays true. */
  get synced(): boolean {
    return this.#synced;
  }

  /** Whether the server does not know the resource. Known objects stay until a list succeeds. */
  get missing(): boolean {
    return this.#missing;
  }

  /** The path of the collection that the objects were listed from. */
  get servedPath(): string {
    return this.#paths.lastServed;
  }

  /** Whether there is no permission to list, with `forbiddenIsEmpty`. */
  get forbidden(): boolean {
    return this.#forbidden;
  }

  start(): void {
    if (this.#loop !== null) throw new Error("a reflector starts once");
    this.#loop = this.#run();
  }

  /** Ends the list or watch under way. No callback comes after it, and nothing runs on when it resolves. */
  async stop(): Promise<void> {
    this.#life.abort();
    this.#release();
    await this.#loop;
  }

  /** The server may have another state than before: ends the watch, and lists again from the quorum. */
  relist(): void {
    this.#version = null;
    this.#lastVersion = null;
    this.#quorum = true;
    this.#ends.abort();
  }

  /** True once the objects are known, undefined or forbidden; false when it was stopped or aborted before. */
  waitSynced(signal?: AbortSignal): Promise<boolean> {
    return this.#wait(() => this.#synced || this.#missing || this.forbidden, signal);
  }

  async #wait(settled: () => boolean, signal?: AbortSignal): Promise<boolean> {
    while (!settled() && !this.#life.signal.aborted && !signal?.aborted) {
      await new Promise<void>((resolve) => {
        const done = () => {
          signal?.removeEventListener("abort", done);
          this.#waiting.delete(done);
          resolve();
        };
        this.#waiting.add(done);
        signal?.addEventListener("abort", done);
      });
    }
    return settled();
  }

  async #run(): Promise<void> {
    while (!this.#life.signal.aborted) {
      if (this.#version === null) await this.#list();
      else await this.#watch(this.#version);
    }
  }

  async #list(): Promise<void> {
    const { api, metadataOnly = false, isStreamed = false } = this.#options;
    const { signal } = this.#life;
    const listing = new Listing(this.#reflected);
    // Until the list is there, what is known is no newer than the contact that was lost.
    if (!this.#lost) this.#setState("listing", "");
    try {
      const answer = await api.list({
        path: this.#paths.current,
        query: this.#listQuery(),
        metadataOnly,
        each: (object) => listing.add(object),
        restarted: () => listing.restart(),
        ...(isStreamed ? { streamed: { gone: (object) => listing.remove(object) } } : {}),
        signal,
      });
      if (signal.aborted) return;
      if (answer.kind === "missing") await this.#waitForDefinition();
      else {
        this.#toldMs = this.#clock.monotonicMs();
        await this.#take(listing.listed, answer.resourceVersion);
        this.#lastChange = listing.lastChange;
      }
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
      // A server that is too busy for a list from its cache is not asked for a dearer one.
      if (error.status !== TOO_MANY) this.#quorum = true;
      const forbidden = error instanceof ListRefused && error.status === FORBIDDEN;
      if (forbidden && this.#options.forbiddenIsEmpty) return this.#waitForRight(error.message);
      await this.#retryLater(error.message, 0);
    }
  }

  /** From the cache, or all read etcd after its restart; an older list would bring back what was deleted. */
  #listQuery(): Record<string, string> {
    const { resourceVersion, ...query } = this.#options.query ?? {};
    const version = this.#lastVersion ?? resourceVersion;
    return version === undefined || this.#quorum ? query : { ...query, resourceVersion: version };
  }

  async #take(listed: Listed<T>, resourceVersion: string): Promise<void> {
    await this.#reflected.replace(listed, this.#life.signal);
    if (this.#life.signal.aborted) return;
    this.#version = resourceVersion;
    this.#lastVersion = resourceVersion;
    this.#quorum = false;
    this.#unproven = false;
    this.#missing = false;
    this.#paths.served();
    this.#forbidden = false;
    this.#quickEnds = 0;
    this.#regained();
    if (!this.#synced) {
      this.#synced = true;
      this.#backoff = new Backoff(this.#timings.retryMsMin, this.#timings.retryMsMax, this.#clock);
      this.#options.onSynced?.();
    }
    this.#release();
  }

  async #waitForDefinition(): Promise<void> {
    if (this.#paths.notServed()) return;
    if (!this.#missing)
      this.#options.log.info(`${this.#options.path}: not served; waiting for its definition to be installed`);
    this.#missing = true;
    this.#forbidden = false;
    this.#setState("missing", "");
    this.#release();
    await sleep(this.#clock, this.#timings.missingMs, this.#life.signal);
  }

  async #waitForRight(problem: string): Promise<void> {
    await this.#reflected.replace(new Map(), this.#life.signal);
    this.#forbidden = true;
    this.#setState("forbidden", problem);
    this.#release();
    await sleep(this.#clock, this.#timings.forbiddenMs, this.#life.signal);
  }

  async #watch(version: string): Promise<void> {
    const { api, query = {}, metadataOnly = false } = this.#options;
    const { resourceVersion: _lists, limit: _too, ...selectors } = query;
    const awaited = this.#unproven ? this.#lastChange : null;
    const resourceVersion = awaited === null ? version : awaited.versionBefore;
    if (resourceVersion === null) {
      this.#version = null;
      return;
    }
    const ends = new AbortController();
    this.#ends = ends;
    const stop = () => ends.abort();
    this.#life.signal.addEventListener("abort", stop);
    const { end, stalled, opened, heard, idle, tookMs, unbroken } = await watchOnce({
      api,
      path: this.#paths.current,
      query: selectors,
      metadataOnly,
      resourceVersion,
      awaited,
      toldMs: this.#toldMs,
      timings: this.#timings,
      ends,
      inTouch: () => this.#inTouch(),
      otherHistory: () => this.#otherHistory(),
      event: (type, object) => this.#event(type, object),
    });
    this.#life.signal.removeEventListener("abort", stop);
    if (this.#life.signal.aborted) return;
    if (unbroken) this.#toldMs = this.#clock.monotonicMs();
    else this.#unproven = true;
    const quick = tookMs < this.#timings.quickMs;
    if (!quick) this.#backoff.reset();
    this.#quickEnds = opened && quick && !heard ? this.#quickEnds + 1 : 0;
    const silent = `nothing was heard for ${this.#timings.stallMs} ms`;
    if (!stalled) await this.#goOn(end, quick);
    else await this.#retryLater(silent, 0, idle ? "info" : "warn");
  }

  /** The copy is what the server has, or had a moment ago. */
  #inTouch(): void {
    this.#unproven = false;
    this.#setState("watching", "");
    this.#regained();
  }

  #otherHistory(): void {
    this.#options.log.info(
      `${this.#options.path}: the API server does not tell again what it told last (a restored etcd?); listing again`,
    );
    this.relist();
  }

  #event(type: string, object: { readonly metadata?: { readonly resourceVersion?: string } }): void {
    if (type === "ADDED" || type === "MODIFIED") this.#reflected.upsert(object);
    else if (type === "DELETED") this.#reflected.delete(object);
    if (type !== "BOOKMARK") this.#lastChange.note(type, object);
    const version = object?.metadata?.resourceVersion;
    if (version === undefined) return;
    this.#version = version;
    this.#lastVersion = version;
    this.#options.onVersion?.(version);
  }

  /** After a watch: whether to list again, now or later. */
  async #goOn(end: WatchEnd, quick: boolean): Promise<void> {
    if (this.#quickEnds >= QUICK_ENDS_MAX || end.kind === "expired") this.#version = null;
    if (end.kind === "failed") {
      // The resource has gone, the version is none of this server's, or the right was withdrawn.
      const withdrawn = end.status === FORBIDDEN && this.#options.forbiddenIsEmpty;
      if (end.status === NOT_FOUND || end.status === BAD_REQUEST || withdrawn) this.#version = null;
      await this.#retryLater(end.problem, end.retryAfterMs ?? 0);
    } else if (quick) await sleep(this.#clock, this.#backoff.next(), this.#life.signal);
  }

  async #retryLater(problem: string, waitMs: number, level: "info" | "warn" = "warn"): Promise<void> {
    if (this.#life.signal.aborted) return;
    if (!this.#lost) this.#options.log[level](`${this.#options.path}: lost touch: ${problem}`);
    this.#lost = true;
    this.#setState("away", problem);
    const asked = Math.min(waitMs, TIMINGS.retryMsMax);
    await sleep(this.#clock, asked + this.#backoff.next(), this.#life.signal);
  }

  #regained(): void {
    if (!this.#lost) return;
    this.#lost = false;
    this.#options.log.info(`${this.#options.path}: in touch again`);
  }

  #setState(state: ReflectorState, problem: string): void {
    if (state === this.#state || this.#life.signal.aborted) return;
    this.#state = state;
    this.#options.onState?.(state, problem);
  }

  #release(): void {
    for (const done of [...this.#waiting]) done();
  }
}
