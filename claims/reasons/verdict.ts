import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { IPAllocation } from "../../kube/objects.ts";

/** Settings of the operator. Durations in seconds, measured on a monotonic clock. */
export interface Rules {
  /** Every verdict that changes something must have been observed for so long. */
  readonly graceSeconds: number;
  /** After this time a container whose pod is gone, on an existing but unreachable node, counts as ended; 0: never. */
  readonly podGoneReleaseSeconds: number;
  /** So long after both are gone, not seen to move, a machine's claim and Cluster count as ended; 0: never. */
  readonly clusterGoneReleaseSeconds: number;
  /** How long a Cooling object is kept after its cool-down, so that its history can be read. */
  readonly coolingKeepSeconds: number;
  /** The wall clock, ms, that ends a retention: it may last for weeks, longer than any controller runs. */
  wallMs(): number;
  /** What a network is; null: nothing defines it. */
  definitionOf(network: string): NetworkDefinition | null;
}

type KeepWhy =
  | "claim-has"
  | "claim-says-otherwise"
  | "pod-alive"
  | "pod-names-claim"
  | "guest-migrated"
  | "container-may-run"
  | "recorded-elsewhere"
  | "claim-exists"
  | "claim-moved"
  | "cluster-gone"
  | "preallocated"
  | "retained"
  | "being-deleted"
  | "unknown";
type ReleaseWhy =
  | "another-counts"
  | "vm-moved"
  | "vm-left"
  | "claim-gone"
  | "pod-completed"
  | "pod-gone"
  | "node-gone"
  | "claim-does-not-use"
  | "cluster-gone"
  | "preallocation-gone"
  | "retention-over";
type ReportWhy = "unsound" | "owner-incomplete" | "container-without-attachment";

/** The verdict about an allocation. `afterSeconds`: it must have been observed unchanged for so long. */
export type Verdict =
  | { readonly kind: "keep"; readonly why: KeepWhy }
  | { readonly kind: "release"; readonly why: ReleaseWhy; readonly afterSeconds: number }
  | {
      readonly kind: "prune";
      readonly why: "node-gone";
      /** Keys of the attachments of containers that have certainly ended. */
      readonly keys: readonly string[];
      readonly afterSeconds: number;
    }
  /** The record of an imported pod's address lacks its node. */
  | {
      readonly kind: "record";
      readonly why: "node-not-recorded";
      readonly node: string;
      readonly afterSeconds: number;
    }
  | { readonly kind: "repair"; readonly why: "cooling-with-finalizer"; readonly afterSeconds: number }
  | { readonly kind: "delete"; readonly why: "cooling-expired"; readonly afterSeconds: number }
  /** The IPAddress of a machine's claim that is gone still tells of the address. */
  | { readonly kind: "withdraw"; readonly why: "cooling-still-named"; readonly afterSeconds: number }
  /** It cannot be determined what it is: kept, and reported to the operator. */
  | { readonly kind: "report"; readonly why: ReportWhy };

export interface JudgedAllocation {
  readonly object: IPAllocation;
  /** Canonical, without mask; null: the object is not what its name says, or has no address, owner or state. */
  readonly address: string | null;
}

/** Not everything is known that a verdict rests on. */
export const UNKNOWN_KEPT = { kind: "keep", why: "unknown" } as const;
