/*
 * store/: who holds which address, durably
 *
 *   allocations                     the port; records, manifests: its types
 *   node-store, node-context        what a daemon asks of the store of its node, and what a store asks of the node
 *   network-space, refusal-of       what both implementations need
 *   journal/                        this node's SQLite
 *   standalone/, cluster/           the port over rows, and over IPAllocation objects
 *   host-local/                     what host-local gave on this node
 */

import type { AttachAsk } from "../ipam/attach-view.ts";
import type { Wish } from "../ipam/decide-reservation.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Owner } from "../ipam/owner.ts";
import type { Refusal } from "../ipam/refusals.ts";
import type { Address } from "../ipam/space/address.ts";
import type { InterfaceAddress } from "../ipam/space/cidr.ts";
import type { Stamp } from "../ipam/stamp.ts";
import type { NamespaceIdentity } from "../platform/namespaces.ts";
import type { AllocationView, Attachment, Page } from "./records.ts";

/** What one ADD wants, with everything the store needs to decide it. */
export interface AttachWant extends AttachAsk {
  /** The definition of the runtime's configuration; an applied one wins over it. */
  readonly definition: NetworkDefinition;
  /** The configuration it was read from, kept so that the network's pools can be rebuilt at the next start. */
  readonly definitionSource: string;
  readonly netns: NamespaceIdentity;
  /** MAC of the interface, where somebody asked for one. */
  readonly mac?: string;
  /** The bridge is the gateway, and the cluster's definition does not say so: other nodes may give that address. */
  readonly definitionLacksGateway?: boolean;
  /** By when the whole ADD has to be answered, an instant of the clock, ms; absent: as long as the store itself allows. */
  readonly deadlineMs?: number;
}

export type AttachOutcome =
  | {
      readonly kind: "attached";
      readonly attachment: Attachment;
      /** The definition the answer's routes and DNS come from. */
      readonly definition: NetworkDefinition;
      /** true: this very attachment was answered before and nothing was allocated. */
      readonly repeat: boolean;
      /** Things an operator should know although the ADD succeeded. */
      readonly warnings: readonly string[];
    }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** Which attachments have ended, and why. */
export interface DetachWant {
  readonly containerId: string;
  readonly interface: string;
  /** null: the request does not name a network, so those of every network are meant. */
  readonly network: string | null;
  readonly stamp: Stamp;
  readonly reason: EndReason;
}

/** Why an attachment or a holding ended, as the history tells it. */
export type EndReason =
  | "DEL"
  | "DEL from the spool"
  | "GC"
  | "reboot"
  | "namespace gone"
  | "newer sandbox"
  | "used again"
  | "claim deleted"
  | "released"
  | "released by an operator"
  | "forced by an operator"
  | "lost to another owner"
  | "pod gone"
  | "pod ended"
  | "DEL by host-local";

export interface DetachOutcome {
  /** Attachments that this request ended. Empty is a success: they had ended before, or never were. */
  readonly ended: readonly Attachment[];
}

export interface AllocationFilter {
  readonly network?: string | undefined;
  readonly address?: Address | undefined;
  /** `namespace/name`, or a bare name in any namespace. */
  readonly pod?: string | undefined;
  readonly claim?: string | undefined;
  readonly vm?: string | undefined;
  readonly node?: string | undefined;
  /** Container ID. */
  readonly container?: string | undefined;
}

export interface PageRequest {
  readonly limit: number;
  readonly continue?: string | undefined;
}

/**
 * Who holds which address: the durable truth. An allocation exists when its insert-if-absent is durable, and not before; uniqueness of
 * (network, address) is a constraint of the storage, so that two writers cannot both succeed, whatever they
 * believe. All addresses of one attachment are given or none.
 *
 * Both methods resolve when their effect is durable. They reject only with a StorageFault: then nothing was
 * promised, and the request may be repeated.
 * See docs/decisions/0001.
 */
export interface Allocations {
  /** Gives an attachment its addresses. An exact repeat gets its former answer; an owner keeps what it holds. */
  attach(want: AttachWant): Promise<AttachOutcome>;
  /** Ends attachments older than the request. Frees what nobody needs any more: only what the ended attachment's owner holds. */
  detach(want: DetachWant): Promise<DetachOutcome>;
  /** Allocations in order of network and address. */
  list(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>>;
}

/** What an owner that nothing is attached for wants on one network. */
export interface ReserveWant {
  readonly owner: Owner;
  readonly network: string;
  /** An applied one wins over it. */
  readonly definition: NetworkDefinition;
  readonly wish: Wish;
}

export type ReserveOutcome =
  /** Everything that the owner holds on the network now. */
  | { readonly kind: "reserved"; readonly addresses: readonly InterfaceAddress[] }
  | { readonly kind: "refused"; readonly refusal: Refusal };

export type OwnerReleaseOutcome =
  /** What rests now, on whatever network. Empty is a success: it held nothing. */
  | {
      readonly kind: "released";
      readonly addresses: readonly (InterfaceAddress & { readonly network: string })[];
    }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/**
 * Addresses of owners that no container stands for: held from `reserve` to `release`, whatever is attached in between.
 * Both are harmless when done twice, and of one owner only one may be under way at a time. They reject as those of
 * `Allocations` do; then some of an owner's addresses may be reserved, or may rest, and a repeat does what is left.
 * See docs/decisions/0035.
 */
export interface Reservations {
  /** Gives an owner what it wishes beside what it holds, all or nothing. A repeat gets its former answer. */
  reserve(want: ReserveWant): Promise<ReserveOutcome>;
  /** Lets everything of one owner rest. Refused while something is attached with it, or while its claim is there. */
  release(owner: Owner): Promise<OwnerReleaseOutcome>;
}

/** The storage could not make a write durable. Nothing of the request took effect. */
export class StorageFault extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "StorageFault";
  }
}

/** There is no open database to ask: it is being reopened, or waits to be rebuilt. */
export class StorageAway extends StorageFault {}

/** How the history says that an operator took an address away from somebody who used it. */
export const FORCED = "forced by an operator";
