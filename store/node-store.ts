import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Finding } from "../ipam/finding.ts";
import type { Owner } from "../ipam/owner.ts";
import type { Refusal } from "../ipam/refusals.ts";
import type { Address } from "../ipam/space/address.ts";
import type { Stamp } from "../ipam/stamp.ts";
import type { Allocations, AttachOutcome, AttachWant, EndReason, Reservations } from "./allocations.ts";
import type { HostLocalTakeover } from "./host-local/takeover.ts";
import type { AppliedClaim, AppliedDefinition, ApplyAction, ClaimOfVm, ClaimView } from "./manifests.ts";
import type { AddressUser, Attachment, HistoryView, NetworkView } from "./records.ts";

export type StoreStatus =
  | { readonly kind: "opening" | "ready" | "closed" }
  /** Writes fail or the disk is full. Mends itself when the disk does. */
  | { readonly kind: "faulted"; readonly reason: string }
  /** The database was put aside. Waits for an operator. */
  | { readonly kind: "rebuild-required"; readonly reason: string };

export type ReleaseOutcome =
  | { readonly kind: "released"; readonly addresses: readonly string[]; readonly holder: string }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** A network's plan from the present one and its attachments on this node; null: there is none yet. */
export type DecidePlan = (known: string | null, attachments: readonly Attachment[]) => string | null;

/*
 * What is asked of the store of a node, by who asks. Methods reject with StorageFault and, in Kubernetes, with ApiAway.
 *
 *   NodeAttachments, Networks   what the parts share
 *   CniStore                    the verbs of the runtime; LocalAnswers: a repeat that needs no API server
 *   ListenerStore               metadata listeners and where they are plugged in
 *   IdentityStore               who is behind an address; ClaimsOfVms: where claims are kept here
 *   AdminStore                  operators; Manifests: where they apply claims and definitions here
 *   StoreLifecycle              the daemon that opens it
 */

/** Attachments of this node. */
export interface NodeAttachments {
  attachment(network: string, containerId: string, interfaceName: string): Attachment | undefined;
  attachmentsAfter(id: number, limit: number): Attachment[];
  attachmentsOfNetwork(network: string): Attachment[];
  /** Attachments of this node that use an address now, on one network or on any; none that has lost one to somebody else. */
  usersOf(address: Address, network?: string): AddressUser[];
  /** The same for a container, oldest first. */
  attachmentsOfContainer(containerId: string): Attachment[];
  /** The same for a network. */
  usersOfNetwork(network: string): Attachment[];
  /** Ends an attachment that was looked at before, unless it has been asked for again since. */
  endAttachment(attachment: Attachment, reason: EndReason, olderThan?: Stamp): Promise<boolean>;
  /**
   * Calls `changed` when attachments of a network may have changed, by whatever path; with null when those of all may. It is
   * called after the change is durable and before anybody is answered that it is, and only takes note.
   */
  watchAttachments(changed: (network: string | null) => void): void;
}

export interface Networks {
  networks(): Promise<NetworkView[]>;
  /** What defines a network now; undefined when nobody does. */
  definition(network: string): NetworkDefinition | undefined;
  /** The definition that counts whatever the runtime's configuration says, and the manifest it is in. */
  appliedDefinition(network: string): { definition: NetworkDefinition; by: string } | undefined;
  /** Who an address is allocated to; null when to nobody. */
  holderOf(network: string, address: Address): Promise<Owner | null>;
}

export interface CniStore
  extends Allocations,
    Networks,
    Pick<
      NodeAttachments,
      "attachment" | "attachmentsOfNetwork" | "attachmentsOfContainer" | "endAttachment"
    > {}

export interface LocalAnswers {
  /** The answer that needs nothing but this node: to an exact repeat, or to an ADD that a DEL has overtaken; null when there is none. */
  answerLocally(want: AttachWant): Promise<AttachOutcome | null>;
}

export interface ListenerStore
  extends Pick<Networks, "definition" | "holderOf">,
    Pick<NodeAttachments, "usersOfNetwork" | "watchAttachments"> {
  /** What metadata/listeners/bridge-plan.ts keeps of networks, by name. */
  listenerPlans(): Map<string, string>;
  /** The same for one; null: there is none. */
  listenerPlan(network: string): string | null;
  /** Decides about a network's plan in a transaction and keeps the decision. Resolves with it; null: still none. */
  keepListenerPlan(network: string, decide: DecidePlan): Promise<string | null>;
}

export type IdentityStore = Pick<NodeAttachments, "usersOf" | "attachmentsOfContainer" | "attachmentsAfter">;

export interface ClaimsOfVms {
  /** What a claim says of its VM; null: there is no such claim. */
  claimByUid(uid: string): ClaimOfVm | null;
}

export interface AdminStore extends Pick<Allocations, "list">, Omit<Networks, "holderOf"> {
  /** What host-local gave on this node before. */
  readonly hostLocal: HostLocalTakeover;
  claims(): Promise<ClaimView[]>;
  history(which: { network?: string; address?: Address; limit: number; before?: number }): HistoryView[];
  check(): Promise<Finding[]>;
  release(which: { network: string; address: Address; force: boolean }): Promise<ReleaseOutcome>;
  /** See StateFolder. */
  readonly isComparable: boolean;
  /** Writes a consistent copy of the state database. Resolves with its size, bytes (docs/decisions/0007). */
  backup(path: string): Promise<number>;
}

/** Claims and definitions as they are applied to a node that stands alone. */
export interface Manifests {
  applyClaim(claim: AppliedClaim): Promise<ApplyAction>;
  /** null: there is none. */
  deleteClaim(
    namespace: string,
    name: string,
  ): Promise<{ state: "deleted" | "terminating"; ips: readonly string[] } | null>;
  applyDefinition(definition: AppliedDefinition): Promise<ApplyAction>;
  deleteDefinition(namespace: string, name: string): Promise<boolean>;
}

interface StoreLifecycle {
  readonly status: StoreStatus;
  open(): Promise<void>;
  close(): void | Promise<void>;
  rebuild(backup: string | null, replace: boolean): Promise<void>;
  housekeeping(nowUs: number): Promise<void>;
}

/** What a daemon hands to its parts, whatever is behind it. */
export interface NodeStore extends CniStore, ListenerStore, IdentityStore, AdminStore, StoreLifecycle {
  readonly reservations: Reservations;
}
