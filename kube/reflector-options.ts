import type { KubeApi } from "./kube-api.ts";
import type { ItemHooks, Reflected } from "./reflected-items.ts";
import type { ReflectorTimings } from "./reflector-timings.ts";

/**
 * The state of a reflector. `away`: waiting to retry. `missing`: the resource has no definition. `forbidden`: no
 * permission to list it.
 */
export type ReflectorState = "listing" | "watching" | "missing" | "forbidden" | "away";

export interface ReflectorOptions<T extends Reflected> extends ItemHooks<T> {
  readonly api: KubeApi;
  /** Of the collection. */
  readonly path: string;
  /** Of the same collection in other versions, in order: each is tried where those before it are not served. */
  readonly otherPaths?: readonly string[];
  /**
   * `labelSelector`, `fieldSelector`; `resourceVersion: "0"` lets the first list come from the server's cache, and
   * later ones too where they are not older than what is known.
   */
  readonly query?: Readonly<Record<string, string>>;
  readonly metadataOnly?: boolean;
  /** A refusal (403) means that there is nothing for us, and empties the copy; otherwise it counts as being away. */
  readonly forbiddenIsEmpty?: boolean;
  /** After the first complete list. */
  readonly onSynced?: () => void;
  /** `problem` says why, for "away" and "forbidden". */
  readonly onState?: (state: ReflectorState, problem: string) => void;
  /** Each event and bookmark of the watch brings a version. */
  readonly onVersion?: (resourceVersion: string) => void;
  /** Contact was lost and is there again: what follows from an unbroken watch must be checked again. */
  readonly lostTouch?: () => void;
  readonly timings?: Partial<ReflectorTimings>;
}
