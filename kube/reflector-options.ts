import type { KubeApi } from "./kube-api.ts";
import type { ItemHooks, Reflected } from "./reflected-items.ts";

/** `away`: waiting to retry. `missing`: the resource has no definition. `forbidden`: no permission to list it. */
export type ReflectorState = "listing" | "watching" | "missing" | "forbidden" | "away";

export interface ReflectorOptions<T extends Reflected> extends ItemHooks<T> {
  readonly api: KubeApi;
  readonly path: string;
  /** Of the same collection in other versions, in order: each is tried where those before it are not served. */
  readonly otherPaths?: readonly string[];
  /** Selectors; `resourceVersion: "0"`: lists may come from the server's cache, if not older than what is known. */
  readonly query?: Readonly<Record<string, string>>;
  readonly metadataOnly?: boolean;
  /** The collection may be large: it is listed as `streamed` of ListRequest says, and then watched. */
  readonly isStreamed?: boolean;
  /** A refusal (403) means that there is nothing for us, and empties the copy; otherwise it counts as being away. */
  readonly forbiddenIsEmpty?: boolean;
  /** After the first complete list. */
  readonly onSynced?: () => void;
  /** `problem` says why, for "away" and "forbidden". */
  readonly onState?: (state: ReflectorState, problem: string) => void;
  /** Each event and bookmark of the watch brings a version. */
  readonly onVersion?: (resourceVersion: string) => void;
  readonly timings?: Partial<ReflectorTimings>;
}

export const TIMINGS = {
  /** How long a watch may last, seconds: different for each, so that clients do not all reconnect at once. */
  watchSecondsMin: 290,
  watchSecondsMax: 590,
  /** Without an event or bookmark for so long, ms, a watch counts as dead: bookmarks come about once a minute. */
  stallMs: 150_000,
  /** How often to check whether a missing definition has been installed, ms. */
  missingMs: 10_000,
  /** How often to check whether a missing permission has been given, ms, without a request for it. */
  forbiddenMs: 60_000,
  retryMsMin: 500,
  /** A server that asks for more time, by Retry-After, is given this at most, whatever else is set. */
  retryMsMax: 30_000,
  /** Before the first complete list, ms: until then nothing that depends on it can work. */
  firstRetryMsMax: 5_000,
  /** A watch that ends without an event sooner than this, ms, was useless. */
  quickMs: 1_000,
  /** For the server to tell the last change again, ms, once a watch that was broken is there again. */
  replayMs: 3_000,
  /** A watch that goes on from what was told longer ago than this, ms, counts as broken: no restore is so quick. */
  freshMs: 5_000,
};

export type ReflectorTimings = typeof TIMINGS;
