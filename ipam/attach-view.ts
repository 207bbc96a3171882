import type { HeldAddress } from "./decide-addresses.ts";
import type { NetworkDefinition } from "./definition/network-definition.ts";
import type { RequestedAddress } from "./definition/requested-address.ts";
import type { Owner } from "./owner.ts";
import type { Refusal } from "./refusals.ts";
import type { Address } from "./space/address.ts";
import type { InterfaceAddress } from "./space/cidr.ts";
import type { Pool } from "./space/pool.ts";
import type { Stamp } from "./stamp.ts";

export interface AttachAsk {
  readonly network: string;
  readonly containerId: string;
  readonly interface: string;
  readonly stamp: Stamp;
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string } | null;
  readonly claim: { readonly namespace: string; readonly name: string } | null;
  readonly requested: readonly RequestedAddress[];
  /** MAC of the interface, if one was requested. */
  readonly mac?: string;
  /** The bridge of this request takes the gateway's address for itself (isGateway, isDefaultGateway). */
  readonly bridgeIsGateway?: boolean;
  /** CNI results below 0.3.0 have room for one address of each family. */
  readonly onePerFamily: boolean;
}

/** An attachment of this node, from its journal. */
export interface KnownAttachment {
  readonly id: number;
  readonly containerId: string;
  readonly interface: string;
  readonly pod: AttachAsk["pod"];
  /** The claim that it named, `namespace/name`; "" if it named none. */
  readonly claimRef: string;
  readonly ips: readonly { readonly address: string }[];
  readonly stamp: Stamp;
  /** One of its addresses now belongs to another owner. */
  readonly isLost: boolean;
}

/** An attachment that uses a claim, on any node. */
export interface ClaimUser {
  readonly containerId: string;
  readonly interface: string;
  readonly pod: AttachAsk["pod"];
  /** null: there is only this node. */
  readonly node: string | null;
}

export interface KnownClaim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly network: string;
  /** What it lists, as written: how its addresses are found, and a wish where it has none. */
  readonly ips: readonly string[];
  /** The addresses that the claim requests at its first use. */
  readonly ipRequests: readonly string[];
  /** Set where it follows its VM: the network that it was on. */
  readonly followsFrom?: string;
  /** The claim is being deleted: only a newer sandbox of a pod that uses it may go on. Absent: `whyNot` decides. */
  readonly isClosed?: boolean;
}

/** `reason`: of the event about it. */
export interface AttachWarning {
  readonly reason: "ClaimIgnored" | "AddressKept";
  readonly message: string;
}

export type SupersededReason = "used again" | "newer sandbox" | "namespace gone";

/** The owner of the addresses, and the attachments of this node that the new one replaces. */
export interface Attacher<A extends KnownAttachment, C extends KnownClaim> {
  readonly owner: Owner;
  /** Set when the owner is a claim. */
  readonly claim: C | null;
  readonly superseded: readonly { readonly attachment: A; readonly reason: SupersededReason }[];
  readonly warnings: readonly AttachWarning[];
}

export interface Holdings {
  /** Of what a claim has, "bound" is what counts; what it has besides is "cooling", and may be asked for. */
  readonly held: readonly HeldAddress[];
  /** The claim's list cannot be read, and it has nothing. */
  readonly unreadable?: Refusal | undefined;
  /** What the claim lists and has not, in the order of the list: another IPAM or a backup brought it along. */
  readonly wishes?: readonly InterfaceAddress[];
  /** Another container of the claim's VM has an address that is not asked for. */
  readonly runs?: boolean;
  /** An address that a deleted claim of the same name still has; it is about to be retained for this one. */
  readonly unreleased?: Address | undefined;
}

/** `undefined`: not read yet. The decision returns it, and is repeated when the fact is there (docs/decisions/0033). */
export type Fact<T> = T | undefined;

/**
 * What a decision about an ADD is made from. The view answers from what it has read; when the decision asks for
 * something else, the store reads it and decides again. Nothing here waits.
 */
export interface AttachView<A extends KnownAttachment, C extends KnownClaim> {
  readonly ask: AttachAsk;
  /** The definition in force. */
  readonly definition: NetworkDefinition;
  readonly bootId: string;
  /** Milliseconds of the monotonic clock. */
  readonly nowMs: number;
  /** A DEL of the same container and interface that began after this ADD has already been seen. */
  readonly hasLaterDel: boolean;
  /** The attachment of the same container and interface on this network. */
  readonly former: A | null;
  /** Whether an owner that starts again gets what its network was given since; in a cluster, by the controller. */
  readonly mayRenew: boolean;
  /** Free space by range set, in the order of the definition. */
  readonly pools: readonly Pool[];
  /** The claim that the request names; null: there is no such claim. */
  claim(): Fact<C | null>;
  /** Why the pod may not use the claim, which exists and belongs to this network; null: it may. */
  whyNot(claim: C): Fact<Refusal | null>;
  /** Whether the claim, which is on another network, is of the pod's VM, which is to be on this one. */
  mayFollow(claim: C): Fact<boolean>;
  /** Whether the claim, which has addresses, is of a VM, and moves to those that the VM asks for. */
  mayMove(claim: C): boolean;
  /** Whether a claim has anything on this network. */
  has(claim: C): Fact<boolean>;
  /** Attachments of an owner on this network, on this node, oldest first. */
  attachmentsOf(owner: Owner): readonly A[];
  /** Whether the network namespace of the attachment is certainly gone. */
  isGone(attachment: A): boolean;
  /** Owner of a gateway's address; null: it is free. */
  gatewayHolder(gateway: Address): Fact<string | null>;
  holdings(attacher: Attacher<A, C>): Fact<Holdings>;
  /** Other users of a claim. `others`: the attachments of this node that the new one does not replace. */
  usersOf(others: readonly A[]): Fact<readonly ClaimUser[]>;
  /** Whether another user of the claim is a container of this node whose namespace is certainly gone. */
  isUserGone(user: ClaimUser, claim: C): boolean;
  /** Whether another user of the claim is not in the way: its pod is gone, or both belong to one migrating VM. */
  mayShare(user: ClaimUser, claim: C): Fact<boolean>;
  /** Owner of an address, for messages; null: not known. */
  holderOf(address: Address): string | null;
  /** Whether the last holder of a cooling address was of the owner's namespace and has certainly ended. */
  mayReturn(address: Address, owner: Owner): boolean;
  /** Attachments of the address's holder, if of the owner's namespace and all surely gone without a DEL; else none. */
  goneUsersOf(address: Address, owner: Owner): readonly A[];
}
