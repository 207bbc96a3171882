import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Refusal } from "../ipam/refusals.ts";
import type { NetworkOwner } from "./network-owner.ts";

export interface CountingDefinition {
  readonly definition: NetworkDefinition;
  /** Its NAD, `namespace/name`; of a pool: `AddressPool namespace/name`. */
  readonly by: string;
  /** `spec.config` of that NAD, or what that would be for a pool. */
  readonly source: string;
}

export type NadVerdict =
  | ({ readonly kind: "ok"; readonly network: string } & CountingDefinition)
  | { readonly kind: "unknown" }
  | { readonly kind: "not-ours" }
  /** Unreadable, or ours and invalid. */
  | { readonly kind: "broken"; readonly refusal: Refusal }
  /** What is reserved on the network's IPNetwork cannot be read. */
  | { readonly kind: "reservations-broken"; readonly network: string; readonly refusal: Refusal }
  /** `other`, the NAD of the ADD, differs from `by`, which is in force. */
  | { readonly kind: "conflict"; readonly network: string; readonly by: string; readonly other: string }
  /** The network belongs to another namespace, which has not shared it with this one. */
  | { readonly kind: "not-shared"; readonly network: string; readonly owner: NetworkOwner }
  /** The network belongs to another namespace, where nothing defines it now. */
  | { readonly kind: "undefined"; readonly network: string; readonly owner: NetworkOwner };
