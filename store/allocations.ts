/*
 * store/: the owner of each address, durably
 *
 *   ADD ──▶ taking ──▶ held ──▶ leaving ──▶ gone   a use: docs/uses.md
 *              └───────────────────▲
 *   allocations                     the port; manifests: its types
 *   node-store, node-context        what a daemon needs from its store, and a store from its node
 *   readiness                       what has to be there before a daemon serves
 *   refusal-of                      a part of both implementations
 *   journal/                        this node's SQLite
 *   standalone/, cluster/           the port over rows, and over IPAllocation objects
 *   host-local/                     addresses that host-local has allocated on this node
 */

import type { AllocationFilter, PageRequest } from "../allocations/filter.ts";
import type { AllocationView, Attachment, Page } from "../allocations/records.ts";
import type { AttachAsk, AttachWarning } from "../ipam/attach-view.ts";
import type { AddressRequest } from "../ipam/decide-reservation.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Owner } from "../ipam/owner.ts";
import type { Refusal } from "../ipam/refusals.ts";
import type { InterfaceAddress } from "../ipam/space/cidr.ts";
import type { Stamp } from "../ipam/stamp.ts";
import type { NamespaceIdentity } from "../platform/namespaces.ts";

/** One ADD, with everything that the store needs to decide it. */
export interface AttachWant extends AttachAsk {
  /** The definition in the runtime's configuration; an applied one takes precedence. */
  readonly definition: NetworkDefinition;
  /** The configuration that it was read from, kept to rebuild the network's pools at the next start. */
  readonly definitionSource: string;
  readonly netns: NamespaceIdentity;
  /** The VMI of another namespace that the guest migrates from, and whose addresses it goes on using. */
  readonly migratedFrom?: { readonly namespace: string; readonly name: string };
  /** The bridge is the gateway, but the cluster's definition does not say so: other nodes may allocate that address. */
  readonly definitionLacksGateway?: boolean;
  /** Deadline of the whole ADD, an instant of the clock, ms; absent: the store's own limit. */
  readonly deadlineMs?: number;
}

export type AttachOutcome =
  | {
      readonly kind: "attached";
      readonly attachment: Attachment;
      /** The definition whose routes and DNS are in the answer. */
      readonly definition: NetworkDefinition;
      /** true: this attachment was already answered, and nothing was allocated. */
      readonly repeat: boolean;
      readonly warnings: readonly AttachWarning[];
    }
  | { readonly kind: "refused"; readonly refusal: Refusal };

export interface DetachWant {
  readonly containerId: string;
  readonly interface: string;
  /** null: the request names no network, so the attachments of every network are meant. */
  readonly network: string | null;
  readonly stamp: Stamp;
  readonly reason: EndReason;
}

/** Why an attachment or a holding ended, as the history shows it. */
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

/** Ends after which the container certainly runs no more. Any other end leaves that open. */
export const CERTAIN_ENDS: ReadonlySet<unknown> = new Set<EndReason>([
  "DEL",
  "DEL from the spool",
  "DEL by host-local",
  "GC",
  "reboot",
  "namespace gone",
  "claim deleted",
]);

export interface DetachOutcome {
  /** Attachments that this request ended. Empty is a success: they had ended before, or never existed. */
  readonly ended: readonly Attachment[];
}

/**
 * The owner of each address: the durable truth. An allocation exists when its insert-if-absent is durable, and not
 * before. The storage enforces that (network, address) is unique, so two writers can never both succeed. All addresses
 * of one attachment are allocated, or none. All methods resolve when their effect is durable. They reject only with a
 * StorageFault; then nothing was promised and the request may be repeated. See docs/decisions/0001.
 */
export interface Allocations {
  /** Allocates the addresses of an attachment. An exact repeat gets its former answer; an owner keeps what it holds. */
  attach(want: AttachWant): Promise<AttachOutcome>;
  /** Ends attachments older than the request, and releases the addresses that only their owner needed. */
  detach(want: DetachWant): Promise<DetachOutcome>;
  /**
   * Allocations network by network, each by its addresses. Networks are in order of their names, but where a cluster
   * has more than one page: docs/decisions/0076.
   */
  list(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>>;
}

export interface ReserveWant {
  readonly owner: Owner;
  readonly network: string;
  /** An applied definition takes precedence. */
  readonly definition: NetworkDefinition;
  readonly request: AddressRequest;
}

export type ReserveOutcome =
  /** Everything that the owner now holds on the network. */
  | { readonly kind: "reserved"; readonly addresses: readonly InterfaceAddress[] }
  | { readonly kind: "refused"; readonly refusal: Refusal };

export type OwnerReleaseOutcome =
  /** The addresses that are now cooling, on all networks. Empty is a success: the owner held nothing. */
  | {
      readonly kind: "released";
      readonly addresses: readonly (InterfaceAddress & { readonly network: string })[];
    }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/**
 * Addresses of owners without containers: held from `reserve` to `release`, whatever is attached in between. Both may
 * be repeated; only one call per owner may be under way at a time. They reject as the methods of `Allocations` do; then
 * some of the owner's addresses may be reserved or released, and a repeat completes the rest. See docs/decisions/0035.
 */
export interface Reservations {
  /** Reserves addresses in addition to those that the owner holds, all or none. A repeat gets its former answer. */
  reserve(want: ReserveWant): Promise<ReserveOutcome>;
  /** Releases everything of one owner. Refused while an attachment uses it, or while its claim exists. */
  release(owner: Owner): Promise<OwnerReleaseOutcome>;
}

/** The storage could not make a write durable. The request had no effect. */
export class StorageFault extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "StorageFault";
  }
}

/** An error of SQLite about the file or the disk below it, as opposed to one of a single statement. */
export function isStorageError(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return (
    typeof code === "string" && /^SQLITE_(FULL|IOERR|CORRUPT|NOTADB|READONLY|CANTOPEN|PROTOCOL|NOMEM|BUSY)/.test(code)
  );
}

/** No database is open: it is being reopened, or waits to be rebuilt. */
export class StorageAway extends StorageFault {}

export const FORCED = "forced by an operator";
