import type { HeldAddress } from "./decide-addresses.ts";
import type { NetworkDefinition } from "./definition/network-definition.ts";
import type { RequestedAddress } from "./definition/requested-address.ts";
import type { Owner } from "./owner.ts";
import type { Refusal } from "./refusals.ts";
import type { Address } from "./space/address.ts";
import type { Pool } from "./space/pool.ts";
import type { Stamp } from "./stamp.ts";

/** What one ADD asks for. */
export interface AttachAsk {
  readonly network: string;
  readonly containerId: string;
  readonly interface: string;
  readonly stamp: Stamp;
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string } | null;
  readonly claim: { readonly namespace: string; readonly name: string } | null;
  readonly requested: readonly RequestedAddress[];
  /** The bridge of this request takes the gateway's address for itself (isGateway, isDefaultGateway). */
  readonly bridgeIsGateway?: boolean;
  /** CNI results below 0.3.0 have room for one address of each family. */
  readonly onePerFamily: boolean;
}

/** An attachment of this node, as its journal has it. */
export interface KnownAttachment {
  readonly id: number;
  readonly containerId: string;
  readonly interface: string;
  readonly pod: AttachAsk["pod"];
  /** The claim it named, `namespace/name`; "" for none. */
  readonly claimRef: string;
  readonly ips: readonly { readonly address: string }[];
  readonly stamp: Stamp;
  /** An address of it was found in somebody else's hands. */
  readonly isLost: boolean;
}

/** An attachment that uses a claim, of any node. */
export interface ClaimUser {
  readonly containerId: string;
  readonly interface: string;
  readonly pod: AttachAsk["pod"];
  /** null: this node is the only one. */
  readonly node: string | null;
}

/** What an ADD has to know of the claim that it names. */
export interface KnownClaim {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly network: string;
  /** Its addresses, once it has some: never changed by an ADD. */
  readonly ips: readonly string[];
  /** What it asks for at its first use. */
  readonly ipRequests: readonly string[];
  /** It is being deleted, and only a newer sandbox of a pod that uses it may go on. Absent: `whyNot` tells who may. */
  readonly isClosed?: boolean;
}

export type SupersededReason = "used again" | "newer sandbox" | "namespace gone";

/** Who will hold the addresses, and which attachments of this node the new one takes the place of. */
export interface Attacher<A extends KnownAttachment, C extends KnownClaim> {
  readonly owner: Owner;
  /** When the owner is a claim. */
  readonly claim: C | null;
  readonly superseded: readonly { readonly attachment: A; readonly reason: SupersededReason }[];
  /** What an operator should know although the ADD succeeds. */
  readonly warnings: readonly string[];
}

/** What the owner has on the network according to the store. */
export interface Holdings {
  readonly held: readonly HeldAddress[];
  /** An address that is published as the owner's, and is somebody else's. */
  readonly taken: { readonly address: Address; readonly holder: string } | null;
}

/** `undefined`: not read yet. The decision says so, and is made again once it is (docs/decisions/0033). */
export type Fact<T> = T | undefined;

/**
 * What a decision about an ADD is made from: the request, the journal of this node, and the truth. A store answers from
 * what it has read, and reads what is missing when the decision asks for it; nothing here waits.
 */
export interface AttachView<A extends KnownAttachment, C extends KnownClaim> {
  readonly ask: AttachAsk;
  /** The definition that counts. */
  readonly definition: NetworkDefinition;
  /** The present boot of this node. */
  readonly bootId: string;
  /** Milliseconds of the monotonic clock. */
  readonly nowMs: number;
  /** A DEL of the same container and interface that began later has been seen already. */
  readonly hasLaterDel: boolean;
  /** The attachment of the same container and interface on this network. */
  readonly former: A | null;
  /** Free space by range set, in the order of the definition. */
  readonly pools: readonly Pool[];
  /** The claim that is asked for; null: there is none. */
  claim(): Fact<C | null>;
  /** Why the pod may not use the claim, which exists and is of this network. */
  whyNot(claim: C): Fact<Refusal | null>;
  /** Attachments of an owner on this network, on this node, oldest first. */
  attachmentsOf(owner: Owner): readonly A[];
  /** Whether its network namespace is certainly gone. */
  isGone(attachment: A): boolean;
  /** Who holds a gateway's address. */
  gatewayHolder(gateway: Address): Fact<string | null>;
  holdings(attacher: Attacher<A, C>): Fact<Holdings>;
  /** Who uses a claim besides. `others`: those of this node that the new one does not take the place of. */
  usersOf(claim: C, others: readonly A[]): Fact<readonly ClaimUser[]>;
  /** Whether another user of the claim is a container of this node whose namespace is certainly gone. */
  isUserGone(user: ClaimUser, claim: C): boolean;
  /** Whether another user of the claim does not keep the asker from it: its pod is gone, or both are of one VM that migrates. */
  mayShare(user: ClaimUser, claim: C): Fact<boolean>;
  /** Who holds an address, for messages; null: not known. */
  holderOf(address: Address): string | null;
}
