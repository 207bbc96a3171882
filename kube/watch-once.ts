import type { Timer } from "../platform/time.ts";
import type { KubeApi, WatchEnd } from "./kube-api.ts";
import type { LastChange } from "./last-change.ts";
import type { ReflectorTimings } from "./reflector-options.ts";

/** A watch that ends so close, ms, to the time that it was opened for has ended because of that. */
const ON_TIME_MS = 2_000;

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind; readers project them
type WireObject = any;

export interface WatchOnce {
  readonly api: KubeApi;
  readonly path: string;
  /** Selectors. */
  readonly query: Readonly<Record<string, string>>;
  readonly metadataOnly: boolean;
  readonly resourceVersion: string;
  /** What has to be told again before anything else counts; null: nothing. */
  readonly awaited: LastChange | null;
  /** When the server told what the watch goes on from, ms. */
  readonly toldMs: number;
  readonly timings: ReflectorTimings;
  readonly ends: AbortController;
  /** The watch is there, and goes on from what is known. */
  inTouch(): void;
  /** The last change was not told again. */
  otherHistory(): void;
  event(type: string, object: WireObject): void;
}

export interface WatchOutcome {
  readonly end: WatchEnd;
  /** Nothing was heard for too long. */
  readonly stalled: boolean;
  readonly opened: boolean;
  readonly heard: boolean;
  /** Silent to its end: a server that has had no write of the resource since it began sends no bookmarks. */
  readonly idle: boolean;
  readonly tookMs: number;
  /** It ended as every watch does, and the next one goes on where it was. */
  readonly unbroken: boolean;
}

/** One watch of a reflector, from its request to its end. Never throws. */
export async function watchOnce(options: WatchOnce): Promise<WatchOutcome> {
  const { api, path, query, metadataOnly, resourceVersion, timings, ends } = options;
  const { stallMs, replayMs, freshMs, watchSecondsMin, watchSecondsMax } = timings;
  const { clock } = api;
  const startMs = clock.monotonicMs();
  const seconds = Math.round(watchSecondsMin + clock.random() * (watchSecondsMax - watchSecondsMin));
  let { awaited } = options;
  let stalled = false;
  let opened = false;
  let heard = false;
  const stall = clock.timer(stallMs, () => {
    stalled = true;
    ends.abort();
  });
  const replays: Timer[] = [];
  const end = await api.watch({
    path,
    query: { ...query, allowWatchBookmarks: "true", timeoutSeconds: `${seconds}` },
    metadataOnly,
    resourceVersion,
    signal: ends.signal,
    opened: () => {
      opened = true;
      stall.restart();
      if (awaited !== null) replays.push(clock.timer(replayMs, options.otherHistory));
      else if (clock.monotonicMs() - options.toldMs <= freshMs) options.inTouch();
      // The server may have been away in between.
      else ends.abort();
    },
    event: (type, object) => {
      heard = true;
      stall.restart();
      if (ends.signal.aborted) return;
      if (awaited === null) options.event(type, object);
      else if (awaited.isToldBy(type, object)) {
        awaited = null;
        for (const replay of replays) replay.cancel();
        options.inTouch();
      } else if (type !== "BOOKMARK" || awaited.isPassedAt(object?.metadata?.resourceVersion)) options.otherHistory();
    },
  });
  for (const timer of [stall, ...replays]) timer.cancel();
  const tookMs = clock.monotonicMs() - startMs;
  const onTime = end.kind === "closed" && Math.abs(tookMs - seconds * 1_000) <= ON_TIME_MS;
  const idle = stalled && opened && !heard;
  return { end, stalled, opened, heard, idle, tookMs, unbroken: awaited === null && (onTime || idle) };
}
