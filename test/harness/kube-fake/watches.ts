import type { Change } from "./etcd.ts";
import { Failure } from "./failure.ts";
import type { KubeObject } from "./objects.ts";
import type { Clock, Timer } from "./port.ts";
import type { Asked } from "./requests.ts";
import { apiVersionOf } from "./resources.ts";
import { type Selection, selectionOf, shown } from "./selection.ts";
import type { WatchCache } from "./watch-cache.ts";

/** Between the bookmarks of one watch, ms. */
const BOOKMARK_MS = 60_000;
/** A last bookmark comes so long before the server ends a watch, ms. */
const BEFORE_END_MS = 2_000;
/** The server ends a watch after this, ms, and up to as much again, where the client names no time. */
const WATCH_MS_MIN = 30 * 60_000;

export interface WatchEvent {
  readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  readonly object: KubeObject;
}

/** A watch as the server holds it: events go out one by one, and an end. */
export interface WatchSink {
  event(event: WatchEvent): void;
  /** The server ends the answer. */
  end(): void;
  /** The connection ends in the middle of it. */
  cut(): void;
}

/** The open watches of one server. */
export class Watches {
  readonly #clock: Clock;
  readonly #open = new Map<() => void, { readonly storage: string; readonly sink: WatchSink }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get count(): number {
    return this.#open.size;
  }

  /** Opens a watch and returns what closes it from the client's side. Throws Failure for what the server refuses at once. */
  open(asked: Asked, cache: WatchCache, metadataOnly: boolean, sink: WatchSink): () => void {
    const { resource, query } = asked;
    const selection = selectionOf(asked);
    const show = (object: KubeObject) => shown(object, resource, { metadataOnly, inList: false });
    const timers = new Set<Timer>();
    let unfollow = () => {};
    const close = () => {
      unfollow();
      for (const timer of timers) timer.cancel();
      this.#open.delete(close);
    };
    this.#open.set(close, { storage: resource.storage, sink });
    try {
      unfollow = cache.follow(Number(query.resourceVersion ?? 0), (change) => {
        const event = eventOf(change, selection);
        if (event) sink.event({ ...event, object: show(event.object) });
      });
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      // As an event, because the answer had begun when the cache was asked.
      close();
      sink.event({ type: "ERROR", object: error.body });
      sink.end();
      return close;
    }
    const ms = query.timeoutSeconds
      ? Number(query.timeoutSeconds) * 1_000
      : WATCH_MS_MIN * (1 + this.#clock.random());
    timers.add(
      this.#clock.timer(ms, () => {
        close();
        sink.end();
      }),
    );
    if (query.allowWatchBookmarks === "true") {
      const endsMs = this.#clock.monotonicMs() + ms;
      this.#bookmark(timers, endsMs, () => {
        if (cache.lastEvent === null) return;
        const isTyped = metadataOnly || !resource.custom;
        const metadata = {
          resourceVersion: `${cache.lastEvent}`,
          ...(isTyped ? { creationTimestamp: null } : {}),
        };
        sink.event({ type: "BOOKMARK", object: bookmarkOf(asked, metadata, metadataOnly) });
      });
    }
    return close;
  }

  /** The server ends watches: all of them, or those of a resource. */
  end(storage?: string, how: "end" | "cut" = "end"): void {
    for (const [close, open] of [...this.#open]) {
      if (storage !== undefined && open.storage !== storage) continue;
      close();
      open.sink[how]();
    }
  }

  #bookmark(timers: Set<Timer>, endsMs: number, send: () => void): void {
    const leftMs = endsMs - BEFORE_END_MS - this.#clock.monotonicMs();
    if (leftMs <= 0) return;
    const timer = this.#clock.timer(Math.min(BOOKMARK_MS, leftMs), () => {
      timers.delete(timer);
      send();
      this.#bookmark(timers, endsMs, send);
    });
    timers.add(timer);
  }
}

function bookmarkOf({ resource }: Asked, metadata: KubeObject, metadataOnly: boolean): KubeObject {
  if (metadataOnly) return { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata };
  return { kind: resource.kind, apiVersion: apiVersionOf(resource), metadata };
}

/** What a change is to somebody who sees only what is selected; null: nothing. */
function eventOf(change: Change, { key, passes }: Selection): WatchEvent | null {
  if (key !== null && change.key !== key) return null;
  const { object, previous, deleted } = change;
  const was = previous !== null && passes(previous);
  if (deleted) return was ? { type: "DELETED", object } : null;
  const is = passes(object);
  if (is) return { type: was ? "MODIFIED" : "ADDED", object };
  if (!was) return null;
  const { resourceVersion } = object.metadata;
  return { type: "DELETED", object: { ...previous, metadata: { ...previous.metadata, resourceVersion } } };
}
