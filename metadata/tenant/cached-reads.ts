import type { ObjectReading } from "../../kube/answers.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { leanView, weightOf } from "../../kube/lean-view.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { BoundedMap } from "../../platform/bounded-map.ts";

/** How long a read object is cached, ms: with what the server composes of it, a change is told within three seconds. */
const BELIEVED_MS = 2_900;
/** For a first read, ms: a guest's client gives up after 10 s. */
const FIRST_READ_MS_MAX = 5_000;
/** For refreshing a cached object, ms: after that the cached one is used. */
const READ_AGAIN_MS_MAX = 1_000;
/** After a read without an answer, ms: so long the cached one is used without a request. */
const AWAY_MS = 5_000;
/** Several for each VM of a node. Beyond that, the least recently used is dropped. */
const REMEMBERED_MAX = 8_000;
/** Of all values together, as `weightOf` counts them; likewise. */
const REMEMBERED_BYTES_MAX = 16 << 20;

interface CachedRead<V> {
  /** null: never read. */
  found: { readonly value: V; readonly bytes: number } | null;
  /** Of the last answer, and of the last time that none came; instants of the clock, ms. */
  readMs: number;
  failedMs: number;
  problem: ApiAway | null;
  reading: Promise<void> | null;
}

/** Answers of the API server about single objects, which requests of guests share. */
export class CachedReads<V> {
  readonly #api: Pick<KubeApi, "send" | "clock">;
  readonly #firstReadMsMax: number;
  /** In the order of their last use. */
  readonly #cache = new BoundedMap<string, CachedRead<V>>(REMEMBERED_MAX, {
    sizeMax: REMEMBERED_BYTES_MAX,
    sizeOf: ({ found }) => found?.bytes ?? 0,
  });

  constructor(api: Pick<KubeApi, "send" | "clock">, firstReadMsMax = FIRST_READ_MS_MAX) {
    this.#api = api;
    this.#firstReadMsMax = firstReadMsMax;
  }

  /** Of one object. What is remembered for one UID, of a VM or a namespace, is never answered for another. */
  readObject(path: string, uid: string, judge: (reading: ObjectReading) => V, believedMs?: number): Promise<V> {
    const get = async (deadlineMs: number) => judge(await new ObjectClient(this.#api, "add").get(path, deadlineMs));
    return this.read(`${path} ${uid}`, get, believedMs);
  }

  /** As it was `believedMs` ago at most, or before the API went away. Throws ApiAway for what was never read. */
  async read(key: string, get: (deadlineMs: number) => Promise<V>, believedMs = BELIEVED_MS): Promise<V> {
    const one = this.#recall(key);
    const nowMs = this.#api.clock.monotonicMs();
    const isKnown = one.found !== null;
    const isFresh = isKnown && (nowMs - one.readMs < believedMs || nowMs - one.failedMs < AWAY_MS);
    if (!isFresh) {
      const forMs = isKnown ? READ_AGAIN_MS_MAX : this.#firstReadMsMax;
      one.reading ??= this.#refresh(key, one, () => get(nowMs + forMs)).finally(() => {
        one.reading = null;
      });
      await one.reading;
    }
    if (one.found === null) throw one.problem ?? new ApiAway(`${key} is not known yet`);
    return one.found.value;
  }

  /** It is read again before it is used. */
  forgetObject(path: string, uid: string): void {
    this.#cache.delete(`${path} ${uid}`);
  }

  #recall(key: string): CachedRead<V> {
    const one = this.#cache.get(key) ?? {
      found: null,
      readMs: Number.NEGATIVE_INFINITY,
      failedMs: Number.NEGATIVE_INFINITY,
      problem: null,
      reading: null,
    };
    this.#cache.set(key, one);
    return one;
  }

  async #refresh(key: string, one: CachedRead<V>, get: () => Promise<V>): Promise<void> {
    try {
      const value = leanView(await get());
      const { bytes } = weightOf(value);
      // One that was forgotten or dropped meanwhile is for those who wait for it alone.
      const isKept = this.#cache.get(key) === one && this.#cache.delete(key);
      one.found = { value, bytes };
      one.readMs = this.#api.clock.monotonicMs();
      if (isKept) this.#cache.set(key, one);
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
      one.problem = error;
      one.failedMs = this.#api.clock.monotonicMs();
    }
  }
}
