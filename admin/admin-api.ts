/*
 * admin/: the operators' API, of a node and of a cluster
 *
 *   admin-api              what both answer, and what only one of them does
 *   routes, inputs, limits each route once: how its input is read, and which call answers it
 *   answers                the JSON of each route's answer
 *   address-places, free-addresses, plan   what an address is on each network, what is free, what VMs would get
 *   diagnosis              what a doctor finds of a part
 *   plugin-directories     where container runtimes look for plugins, by distribution
 *   elsewhere              hints for requests that only the other one answers
 *   http, in-process       the routes on a daemon's socket, and for the command line on a cluster
 *   node-admin, manifests   a node's answers
 *   cluster/               a cluster's answers, from its objects
 */

import type { AllocationFilter, ClaimFilter, PageRequest } from "../allocations/filter.ts";
import type { AllocationView, HistoryView, NetworkView, Page } from "../allocations/records.ts";
import type { IdentityQuery } from "../identity/query.ts";
import type { IdentityAnswer } from "../identity/wire.ts";
import type { Finding } from "../ipam/finding.ts";
import type { PlaceKind } from "../ipam/place-of-address.ts";
import type { RefusalCode } from "../ipam/refusals.ts";
import type { Address } from "../ipam/space/address.ts";
import type { FreeQuestion, FreeRange } from "../ipam/space/free-space.ts";
import type { MovedNetwork } from "../networks/record-owner.ts";
import type { ImportReport, ImportRequest } from "../store/host-local/report.ts";
import type { ApplyAction, ClaimManifest, ContentView } from "../store/manifests.ts";
import type { HistoryWant, ReleaseOutcome, ReleaseWant } from "../store/node-store.ts";

/** A cluster of Cluster API whose machines are gone from here. */
export interface ReleaseMovedWant {
  readonly cluster: { readonly namespace: string; readonly name: string };
  /** Also while the Cluster is here, and where nothing serves the kind of its machines' claims any more. */
  readonly force: boolean;
  /** Only says what would be released. */
  readonly dryRun: boolean;
}

export interface MovedAddress {
  readonly network: string;
  readonly address: string;
  readonly holder: string;
  /** Why it is kept. */
  readonly why?: string;
}

export interface ReleasedCluster {
  readonly released: readonly MovedAddress[];
  readonly kept: readonly MovedAddress[];
}

/** What an address is on a network that has it in a subnet, or as a gateway. */
export interface AddressPlace {
  readonly network: string;
  readonly kind: PlaceKind;
  readonly subnet: string;
}

export interface NodeStatus {
  readonly version: string;
  readonly node: string;
  readonly mode: "standalone" | "kubernetes";
  /** RFC 3339. */
  readonly since: string;
  /** Why no address is given now; null: they are. */
  readonly notReady: string | null;
  /** Releases that the Kubernetes API has not received yet. */
  readonly outstanding: number;
  /** When the oldest period of its history began, RFC 3339; null: it has none. */
  readonly journal: string | null;
}

export interface OwnersQuestion {
  readonly address: Address;
  readonly network: string | undefined;
}

/** `not-read`: its kind is not known, or may not be read. */
export interface OwnerLink {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly state: "there" | "gone" | "not-read" | "to-come";
}

/** The owners of a machine's address: its claim first, then each one's owner. */
export interface OwnerChain {
  readonly network: string;
  readonly address: string;
  /** `namespace/name`; null: none. */
  readonly cluster: string | null;
  readonly owners: readonly OwnerLink[];
}

export interface Diagnosis {
  /** What was examined, in a word or two. */
  readonly part: string;
  /** warning: works, but not as most people want it. unknown: it could not be examined. */
  readonly state: "ok" | "warning" | "failed" | "unknown";
  readonly found: string;
  /** What to do; "" where there is nothing to do. */
  readonly fix: string;
}

export interface NetworksWant {
  readonly former?: boolean;
  readonly counted?: boolean;
}

/** `counted` false: what the definition leaves free, as if nobody had an address. */
export type FreeWant = Pick<FreeQuestion, "count" | "within"> & { readonly counted: boolean };

export interface FreeAddresses {
  readonly network: string;
  /**
   * Whether `next` of each range is what this node gives next to pods and containers; false: any free address may be,
   * because each node begins elsewhere, and the lowest are named.
   */
  readonly isNext: boolean;
  readonly ranges: readonly FreeRange[];
}

export interface PlanItem {
  /** `namespace/name` */
  readonly vm: string;
  /** Its name in the VM; "" where the VM as a whole cannot be read. */
  readonly network: string;
  readonly address: string;
  /** The network that the address is asked for on; null: none of Holdfast's. */
  readonly on: string | null;
  readonly state: "fits" | "refused" | "not-ours";
  /** Of the ADD's refusal. */
  readonly code?: RefusalCode;
  readonly message?: string;
}

/** Objects of a file, or the VirtualMachines of a namespace of the cluster (null: of all). */
export type PlanWant =
  | { readonly objects: readonly unknown[]; readonly namespace: string }
  | { readonly objects: null; readonly namespace: string | null };

export interface NetworkWithClaims extends NetworkView {
  /** Whether the addresses from before Holdfast are recorded; none is allocated before. Absent: not known here. */
  readonly imported?: boolean;
}

/** One period of an address's past. A cluster's objects do not tell when a past period began: `from` is null. */
export type PastPeriod = Omit<HistoryView, "from"> & { readonly from: string | null };

export interface CheckReport {
  /** Empty when all is well. */
  readonly findings: readonly Finding[];
  /** What an operator should know, and may want so. */
  readonly notes?: readonly string[];
  /** The number of objects checked, if they are counted. */
  readonly counted?: CheckedCounts;
}

export type CheckedCounts = Readonly<Record<"allocations" | "attachments" | "networks", number>> & {
  readonly claims?: number;
};

export type Released = Omit<Extract<ReleaseOutcome, { kind: "released" }>, "kind">;

export type AppliedResult = { readonly kind: string; readonly namespace: string; readonly name: string } & (
  | { readonly action: ApplyAction | "deleted" | "terminating"; readonly note?: string }
  | { readonly error: { readonly code: string; readonly message: string; readonly hint: string } }
);

/** What applying or deleting an object would do, and its manifests before and after; null: there is none. */
export type ObjectDiff = AppliedResult & { readonly before: object | null; readonly after: object | null };

/** `delete`: as deleting would do, instead of applying. */
export interface DiffWant {
  readonly objects: readonly unknown[];
  readonly delete: boolean;
}

/** A claim that was deleted, or that is deleted with its last user. */
export interface DeletedClaim {
  readonly state: "deleted" | "terminating";
  readonly ips: readonly string[];
}

/**
 * What a node and a cluster both answer. Inputs are already validated (inputs.ts). Refusals are thrown as RefusalError,
 * unless the result type says otherwise; a node's methods also reject with StorageFault and, in Kubernetes, with
 * ApiAway, a cluster's with ClusterProblem.
 */
export interface AdminApi {
  /**
   * In order of their names. `former`: with the number of holders that stay behind, which takes reading them all.
   * `counted` false: what the definitions say, as if nobody had an address; a cluster's allocations are not read.
   */
  networks(options?: NetworksWant): Promise<readonly NetworkWithClaims[]>;
  /** The free addresses of a network. Throws RefusalError NOT_FOUND, also of a part that it does not have. */
  free(network: string, question: FreeWant): Promise<FreeAddresses>;
  /** What would become of what VMs ask for, in the order of the objects. Changes nothing. */
  plan(want: PlanWant): Promise<readonly PlanItem[]>;
  /** Network by network, as Allocations.list has them. */
  allocations(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>>;
  /** In order of namespace and name. */
  claims(filter: ClaimFilter, page: PageRequest): Promise<Page<ClaimManifest>>;
  /** In order of the networks' names. */
  places(address: Address): Promise<readonly AddressPlace[]>;
  /** The newest first. */
  history(filter: HistoryWant): Promise<readonly PastPeriod[]>;
  identity(query: IdentityQuery): Promise<IdentityAnswer>;
  /** `graceSeconds`: younger findings are not reported; null: the default. */
  check(graceSeconds: number | null): Promise<CheckReport>;
  release(want: ReleaseWant): Promise<ReleaseOutcome>;
  importByHand(request: ImportRequest): Promise<ImportReport>;
}

/** What only a daemon answers: it keeps the state of its node and, without Kubernetes, claims and definitions. */
export interface NodeAdminApi extends AdminApi {
  readonly kind: "node";
  readonly version: string;
  status(): NodeStatus;
  /** One result for each object, in their order. */
  apply(objects: readonly unknown[]): Promise<AppliedResult[]>;
  delete(objects: readonly unknown[]): Promise<AppliedResult[]>;
  /** What one of both would do with each object by itself. Changes nothing. */
  diff(want: DiffWant): Promise<ObjectDiff[]>;
  /** Applied Secrets and ConfigMaps, without their values. */
  content(): Promise<readonly ContentView[]>;
  /** null: there is no such claim. */
  deleteClaim(namespace: string, name: string): Promise<DeletedClaim | null>;
  /** `directory`: device and inode as the operator sees it; null: not given. Resolves with the size, bytes. */
  backup(path: string, directory: string | null): Promise<number>;
  /** Whether the state can tell which containers run, and a backup be compared with it. */
  readonly isComparable: boolean;
  /**
   * Continues with a backup, or an empty state; serves again after the spool is drained. `replace`: also when its state
   * is sound.
   */
  rebuild(backup: string | null, replace: boolean): Promise<void>;
}

/** What only a cluster answers: there a network has an owner, and machines have addresses. */
export interface ClusterAdminApi extends AdminApi {
  readonly kind: "cluster";
  /** Moves a network to another namespace, or to the administrators (NODES_OWN); its allocations stay. */
  moveNetwork(network: string, owner: string): Promise<MovedNetwork>;
  /** Releases what is held for the machines of a cluster that moved to another management cluster. */
  releaseMoved(want: ReleaseMovedWant): Promise<ReleasedCluster>;
  /** Whether everything is there that Holdfast needs in a cluster. */
  doctor(): Promise<readonly Diagnosis[]>;
  /** Of machines that hold the address, on each network; none: it is no machine's. */
  ownersOf(question: OwnersQuestion): Promise<readonly OwnerChain[]>;
}
