import type { ClaimFilter, PageRequest } from "../allocations/filter.ts";
import type { AddressUser, Attachment, HistoryView, NetworkView, Page } from "../allocations/records.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Finding } from "../ipam/finding.ts";
import type { FormerHolders } from "../ipam/former-holders.ts";
import type { Owner } from "../ipam/owner.ts";
import type { Refusal } from "../ipam/refusals.ts";
import type { Address } from "../ipam/space/address.ts";
import type { Pool } from "../ipam/space/pool.ts";
import type { Stamp } from "../ipam/stamp.ts";
import type { ObjectKind } from "../kube/views/content-annotations.ts";
import type { Allocations, AttachOutcome, AttachWant, EndReason, Reservations } from "./allocations.ts";
import type { HostLocalTakeover } from "./host-local/takeover.ts";
import type {
  AppliedClaim,
  AppliedContent,
  AppliedDefinition,
  ApplyAction,
  ClaimManifest,
  ClaimOfVm,
  ContentObject,
  ContentView,
} from "./manifests.ts";

export type StoreStatus =
  | { readonly kind: "opening" | "ready" | "closed" }
  /** Writes fail or the disk is full, until it works; `isReopening`: in a moment, unless a first attempt fails. */
  | { readonly kind: "faulted"; readonly reason: string; readonly isReopening: boolean }
  /** The database was put aside. Waits for an operator. */
  | { readonly kind: "rebuild-required"; readonly reason: string };

export interface ReleaseWant {
  readonly network: string;
  readonly address: Address;
  /** Also when it is in use or claimed (docs/decisions/0008). */
  readonly force: boolean;
  /** Only says what would become of it; absent: false. */
  readonly dryRun?: boolean;
}

export type ReleaseOutcome =
  | { readonly kind: "released"; readonly addresses: readonly string[]; readonly holder: string }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/** Which periods: the newest `limit` that match whatever is given. */
export interface HistoryWant {
  readonly network?: string | undefined;
  readonly address?: Address | undefined;
  /** Of the holder, or of the pod that used the address. */
  readonly namespace?: string | undefined;
  readonly limit: number;
}

/*
 * The interface of a node's store, by caller. Methods reject with StorageFault and, in Kubernetes, with ApiAway.
 *
 *   NodeAttachments, Networks   shared by several callers
 *   CniStore                    the verbs of the runtime; LocalAnswers: a repeat that needs no API server
 *   PortStore                   the ports whose guests get metadata
 *   IdentityStore               the owner of an address; ClaimsOfVms, ContentOfClaims: where claims are kept here
 *   AdminStore                  operators; Manifests: where they apply claims and definitions here
 *   StoreLifecycle              the daemon that opens it
 */
export interface NodeAttachments {
  attachment(network: string, containerId: string, interfaceName: string): Attachment | undefined;
  attachmentsAfter(id: number, limit: number): Attachment[];
  attachmentsOfNetwork(network: string): Attachment[];
  /** Attachments of this node that use an address now, on one network or on any; lost ones are left out. */
  usersOf(address: Address, network?: string): AddressUser[];
  /** The same for a container, oldest first. */
  attachmentsOfContainer(containerId: string): Attachment[];
  /** The same for a pod, by its UID as the runtime named it. */
  attachmentsOfPod(uid: string): Attachment[];
  /** The same for a network. */
  usersOfNetwork(network: string): Attachment[];
  /** Attachments of this node by network, for networks that have any. */
  attachmentCounts(): Map<string, number>;
  /** Ends an attachment that was read before, unless it has been requested again since. */
  endAttachment(attachment: Attachment, reason: EndReason, olderThan?: Stamp): Promise<boolean>;
  /**
   * Calls `changed` when attachments of a network may have changed, by whatever path; with null when those of all
   * networks may. It is called after the change is durable and before any caller is answered, and must only take note.
   */
  watchAttachments(changed: (network: string | null) => void): void;
}

export interface NetworkNow {
  readonly definition: NetworkDefinition;
  /** In the order of its range sets; cool-downs that are over at `nowMs` have ended. */
  readonly pools: readonly Pool[];
  readonly nowMs: number;
}

export interface Networks {
  /** As this node knows them. */
  networks(): Promise<NetworkView[]>;
  /** Before networks of a cluster are looked at: reads what is published of them, unless that was done a moment ago. */
  look(): Promise<void>;
  /** The free space of a network as this node knows it, to be looked at; null: it has no definition. */
  space(network: string): NetworkNow | null;
  /** The definition of a network now; undefined: it has none. */
  definition(network: string): NetworkDefinition | undefined;
  /** The definition that takes precedence over the runtime's configuration, and its manifest. */
  appliedDefinition(network: string): { definition: NetworkDefinition; by: string } | undefined;
  /** The owner of an address; null: it is free. */
  holderOf(network: string, address: Address): Promise<Owner | null>;
}

export interface CniStore
  extends Allocations,
    Networks,
    Pick<NodeAttachments, "attachment" | "attachmentsOfNetwork" | "attachmentsOfContainer" | "endAttachment"> {}

export interface LocalAnswers {
  /** The answer that needs only this node: to an exact repeat, or to an ADD overtaken by a DEL; null: neither. */
  answerLocally(want: AttachWant): Promise<AttachOutcome | null>;
}

export interface PortStore
  extends Pick<Networks, "definition">,
    Pick<NodeAttachments, "usersOfNetwork" | "attachmentCounts" | "watchAttachments"> {
  /** `mtu` of the plugin's configuration of a network with metadata, as last seen; null: none, or not known. */
  pluginMtu(network: string): number | null;
  keepPluginMtu(network: string, mtu: number | null): Promise<void>;
}

export type IdentityStore = Pick<
  NodeAttachments,
  "usersOf" | "attachmentsOfContainer" | "attachmentsOfPod" | "attachmentsAfter"
>;

export interface ClaimsOfVms {
  /** The VM of a claim, according to the claim; null: there is no such claim. */
  claimByUid(uid: string): ClaimOfVm | null;
}

export interface AdminStore extends Pick<Allocations, "list">, Omit<Networks, "holderOf"> {
  /** What host-local allocated on this node; null: its directories are not read here. */
  readonly hostLocal: HostLocalTakeover | null;
  claims(filter: ClaimFilter, page: PageRequest): Promise<Page<ClaimManifest>>;
  history(which: HistoryWant): Promise<HistoryView[]>;
  /** When the oldest period of the history began, RFC 3339; null: there is none, or it cannot be read now. */
  readonly historySince: string | null;
  check(): Promise<Finding[]>;
  /** What an operator should know beside the findings. */
  readonly notes: readonly string[];
  /** Claims and containers of this node with addresses as a former definition of their network gave them. */
  formerHolders(): Promise<FormerHolders>;
  release(which: ReleaseWant): Promise<ReleaseOutcome>;
  /** See StateDirectory. */
  readonly isComparable: boolean;
  /** Writes a consistent copy of the state database. Resolves with its size, bytes (docs/decisions/0007). */
  backup(path: string): Promise<number>;
}

export interface ContentOfClaims extends ClaimsOfVms {
  /** An applied Secret or ConfigMap; null: there is none. */
  contentObject(kind: ObjectKind, namespace: string, name: string): ContentObject | null;
}

export interface Manifests extends ManifestWrites, Pick<ContentOfClaims, "contentObject"> {
  /** The same writes, rolled back: what would become of them. */
  readonly rehearsal: ManifestWrites;
  /** The claim or NetworkAttachmentDefinition as it was applied, metadata and spec; null: there is none. */
  manifest(kind: "IPAMClaim" | "NetworkAttachmentDefinition", namespace: string, name: string): object | null;
  /** In order of namespace, kind and name, without their values. */
  contentViews(): Promise<ContentView[]>;
  claimCount(): number;
}

/** Each is one transaction. Reject with RefusalError. */
export interface ManifestWrites {
  applyContent(content: AppliedContent): Promise<ApplyAction>;
  /** false: there is none. */
  deleteContent(kind: ObjectKind, namespace: string, name: string): Promise<boolean>;
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
  /** Calls `changed` when `status` is another one; it must only take note. */
  watchStatus(changed: () => void): void;
  open(): Promise<void>;
  close(): void | Promise<void>;
  rebuild(backup: string | null, replace: boolean): Promise<void>;
  housekeeping(nowUs: number): Promise<void>;
}

export interface NodeStore extends CniStore, PortStore, IdentityStore, AdminStore, StoreLifecycle {
  readonly reservations: Reservations;
}
