import type { Change } from "./etcd.ts";
import { Failure, forbiddenField, invalid } from "./failure.ts";
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

/**
 * From 1.34 on a server sends what is there at the beginning of a watch, where it is asked for that; from 1.27 on it
 * knows the word.
 */
const STREAMS_LISTS = 34;
const KNOWS_STREAMS = 27;
const LIST_OPTIONS = { group: "meta.k8s.io", plural: "", kind: "ListOptions" };

/** The open watches of one server. */
export class Watches {
  readonly #clock: Clock;
  readonly #minor: number;
  readonly #open = new Map<() => void, { readonly storage: string; readonly sink: WatchSink }>();

  constructor(clock: Clock, minor: number) {
    this.#clock = clock;
    this.#minor = minor;
  }

  get count(): number {
    return this.#open.size;
  }

  /**
   * Opens a watch and returns what closes it from the client's side. Throws Failure for what the server refuses at
   * once.
   */
  open(asked: Asked, cache: WatchCache, metadataOnly: boolean, sink: WatchSink): () => void {
    const { resource, query } = asked;
    const selection = selectionOf(asked);
    const isStreamed = this.#isStreamed(asked);
    const show = (object: KubeObject) => shown(object, resource, { metadataOnly, inList: false });
    const timers = new Set<Timer>();
    let unfollow = () => {};
    const close = () => {
      unfollow();
      for (const timer of timers) timer.cancel();
      this.#open.delete(close);
    };
    this.#open.set(close, { storage: resource.storage, sink });
    const isTyped = metadataOnly || !resource.custom;
    const bookmark = (version: number, annotations?: KubeObject) => {
      const born = isTyped ? { creationTimestamp: null } : {};
      const metadata = { resourceVersion: `${version}`, ...born, ...(annotations ? { annotations } : {}) };
      sink.event({ type: "BOOKMARK", object: bookmarkOf(asked, metadata, metadataOnly) });
    };
    const follow = (version: number) => {
      unfollow = cache.follow(version, (change) => {
        const event = eventOf(change, selection);
        if (event) sink.event({ ...event, object: show(event.object) });
      });
    };
    // As an event, because the answer had begun when the cache was asked.
    const refuse = (error: unknown) => {
      if (!(error instanceof Failure)) throw error;
      close();
      sink.event({ type: "ERROR", object: error.body });
      sink.end();
    };
    if (isStreamed) {
      const wanted = query.resourceVersion ? Number(query.resourceVersion) : cache.newestVersion;
      const begin = () => {
        if (!this.#open.has(close)) return;
        follow(0);
        bookmark(cache.version, { "k8s.io/initial-events-end": "true" });
      };
      cache.until(wanted).then(begin, refuse);
    } else {
      try {
        follow(Number(query.resourceVersion ?? 0));
      } catch (error) {
        refuse(error);
        return close;
      }
    }
    const ms = query.timeoutSeconds ? Number(query.timeoutSeconds) * 1_000 : WATCH_MS_MIN * (1 + this.#clock.random());
    timers.add(
      this.#clock.timer(ms, () => {
        close();
        sink.end();
      }),
    );
    if (query.allowWatchBookmarks === "true") {
      const endsMs = this.#clock.monotonicMs() + ms;
      this.#bookmark(timers, endsMs, () => {
        if (cache.lastEvent !== null) bookmark(cache.lastEvent);
      });
    }
    return close;
  }

  /** Whether it is to begin with what is there. Throws Failure where this server does not do that. */
  #isStreamed({ query }: Asked): boolean {
    const { resourceVersionMatch, sendInitialEvents } = query;
    if (resourceVersionMatch === undefined) return false;
    if (this.#minor >= STREAMS_LISTS) return sendInitialEvents === "true";
    const isKnown = this.#minor >= KNOWS_STREAMS && sendInitialEvents !== undefined;
    const [field, unless] = isKnown
      ? ["sendInitialEvents", " unless the WatchList feature gate is enabled"]
      : ["resourceVersionMatch", ""];
    throw invalid(LIST_OPTIONS, "", [forbiddenField(field, `${field} is forbidden for watch${unless}`)]);
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
