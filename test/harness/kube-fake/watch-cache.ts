import type { Change, Entry, Etcd } from "./etcd.ts";
import { expired, tooNew } from "./failure.ts";
import type { KubeObject } from "./objects.ts";
import type { Clock } from "./port.ts";

/** A list that wants a version which the cache has not reached waits so long, ms. */
const WAIT_MS_MAX = 3_000;

export interface CacheOptions {
  readonly etcd: Etcd;
  readonly storage: string;
  readonly clock: Clock;
  /** Events that it remembers; older ones are forgotten. */
  readonly eventsMax: number;
}

/**
 * What the API server keeps of one resource in memory: its objects, and the events since it began. Lists of any version
 * and all watches are answered from it, and it goes back no further than to when it began. Its version is that of the
 * last event of its own resource, whatever else has been written since.
 */
export class WatchCache {
  readonly #options: CacheOptions;
  readonly #objects = new Map<string, KubeObject>();
  readonly #events: Change[] = [];
  readonly #listeners = new Set<(change: Change) => void>();
  readonly #waiting = new Set<() => void>();
  /** Watches from before it are refused. */
  #oldest: number;
  #version: number;
  /** Of the last event; null: there has been none, and so no bookmark is due. */
  #lastEvent: number | null = null;

  constructor(options: CacheOptions) {
    this.#options = options;
    this.#version = options.etcd.revision;
    this.#oldest = this.#version;
    for (const { key, object } of options.etcd.range(options.storage, "")) this.#objects.set(key, object);
  }

  get version(): number {
    return this.#version;
  }

  /** What the store has of the resource by now. */
  get newestVersion(): number {
    return this.#options.etcd.newestOf(this.#options.storage);
  }

  get lastEvent(): number | null {
    return this.#lastEvent;
  }

  /** Those that are meant, in the order of their keys. */
  entries(isMeant: (entry: Entry) => boolean = () => true): Entry[] {
    const meant: Entry[] = [];
    for (const [key, object] of this.#objects) if (isMeant({ key, object })) meant.push({ key, object });
    return meant.sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  apply(change: Change): void {
    if (change.deleted) this.#objects.delete(change.key);
    else this.#objects.set(change.key, change.object);
    this.#events.push(change);
    this.#version = change.revision;
    this.#lastEvent = change.revision;
    if (this.#events.length > this.#options.eventsMax) this.#forget(1);
    for (const listener of this.#listeners) listener(change);
    for (const resolve of this.#waiting) resolve();
  }

  /** Forgets its events; who watches from before hears 410. */
  forget(): void {
    this.#forget(this.#events.length);
    this.#oldest = this.#version;
  }

  #forget(count: number): void {
    const last = this.#events.splice(0, count).at(-1);
    if (last) this.#oldest = last.revision;
  }

  /** Resolves when the cache is at a version. Throws Failure when that takes too long. */
  async until(version: number): Promise<void> {
    if (this.#version >= version) return;
    await new Promise<void>((resolve) => {
      const look = () => {
        if (this.#version >= version) done();
      };
      const done = () => {
        timer.cancel();
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      const timer = this.#options.clock.timer(WAIT_MS_MAX, done);
    });
    if (this.#version < version) throw tooNew(version, this.#version);
  }

  /**
   * Calls back for each event after a version, those that have been first; version 0: for each object as if it were
   * new, and then for each event. Returns what ends it. Throws Failure for a version that it does not go back to.
   */
  follow(version: number, each: (change: Change) => void): () => void {
    if (version !== 0 && version < this.#oldest)
      throw expired(`too old resource version: ${version} (${this.#oldest})`);
    const begin =
      version === 0
        ? this.entries().map(({ key, object }) => this.#asNew(key, object))
        : this.#events.filter(({ revision }) => revision > version);
    for (const change of begin) each(change);
    // One that asks for a version of the future hears nothing until then.
    const listener = (change: Change) => {
      if (change.revision > version) each(change);
    };
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #asNew(key: string, object: KubeObject): Change {
    const revision = Number(object.metadata.resourceVersion);
    return { revision, storage: this.#options.storage, key, object, previous: null, deleted: false };
  }
}
