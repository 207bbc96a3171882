/*
 * admin/: what operators ask, of a node or of a cluster
 *
 *   admin-api              what both answer, and what only one of them does
 *   routes, inputs, limits each route once: how its input is read, and which call answers it
 *   answers                the JSON of each route's answer
 *   elsewhere              where an operator goes with what only the other one answers
 *   http, in-process       the routes on a daemon's socket, and for the command line that asks a cluster
 *   node-admin, node-check, manifests, backup-path   a node's answers
 *   cluster/               a cluster's answers, made from its objects
 */

import type { MovedNetwork } from "../claims/record-owner.ts";
import type { IdentityQuery } from "../identity/query.ts";
import type { IdentityAnswer } from "../identity/wire.ts";
import type { Finding } from "../ipam/finding.ts";
import type { Address } from "../ipam/space/address.ts";
import type { AllocationFilter, PageRequest } from "../store/allocations.ts";
import type { ImportReport, ImportRequest } from "../store/host-local/report.ts";
import type { ApplyAction, ClaimManifest } from "../store/manifests.ts";
import type { ReleaseOutcome } from "../store/node-store.ts";
import type { AllocationView, HistoryView, NetworkView, Page } from "../store/records.ts";

export interface ClaimFilter {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

export interface HistoryFilter {
  readonly network?: string | undefined;
  readonly address?: Address | undefined;
  /** At most so many periods, the newest. */
  readonly limit: number;
}

export interface ReleaseWant {
  readonly network: string;
  readonly address: Address;
  /** Also when it is in use or claimed (docs/decisions/0008). */
  readonly force: boolean;
}

/** A network with what only a cluster knows of it. */
export interface NetworkWithClaims extends NetworkView {
  /** Whether the addresses from before Holdfast are recorded; none is given before. Absent: nobody knows here. */
  readonly imported?: boolean;
}

/** One period of an address's past. A cluster's objects do not tell when one that has ended began: `from` is null. */
export type PastPeriod = Omit<HistoryView, "from"> & { readonly from: string | null };

export interface CheckReport {
  /** Empty when all is well. */
  readonly findings: readonly Finding[];
  /** How much was looked at, where that is counted. */
  readonly counted?: CheckedCounts;
}

export type CheckedCounts = Readonly<Record<"allocations" | "attachments" | "claims" | "networks", number>>;

/** The addresses that were taken back, and who held them. */
export type Released = Omit<Extract<ReleaseOutcome, { kind: "released" }>, "kind">;

/** What was done with one object of a manifest. */
export type AppliedResult = { readonly kind: string; readonly namespace: string; readonly name: string } & (
  | { readonly action: ApplyAction | "deleted" | "terminating"; readonly note?: string }
  | { readonly error: { readonly code: string; readonly message: string; readonly hint: string } }
);

/** A claim that was deleted, or that goes with its last user. */
export interface DeletedClaim {
  readonly state: "deleted" | "terminating";
  readonly ips: readonly string[];
}

/**
 * What a node and a cluster both answer. Inputs are read already (inputs.ts). What is refused is thrown as
 * RefusalError, unless a result says otherwise; a node's methods reject with StorageFault, and with ApiAway in
 * Kubernetes, a cluster's with ClusterProblem.
 */
export interface AdminApi {
  /** In order of their names. */
  networks(): Promise<readonly NetworkWithClaims[]>;
  /** In order of network and address. */
  allocations(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>>;
  claims(filter: ClaimFilter): Promise<readonly ClaimManifest[]>;
  /** The newest first. */
  history(filter: HistoryFilter): Promise<readonly PastPeriod[]>;
  identity(query: IdentityQuery): Promise<IdentityAnswer>;
  /** `graceSeconds`: what is younger is not reported; null: what is usual. */
  check(graceSeconds: number | null): Promise<CheckReport>;
  release(want: ReleaseWant): Promise<ReleaseOutcome>;
  importByHand(request: ImportRequest): Promise<ImportReport>;
}

/** What a daemon answers besides: it keeps the state of its node, and without Kubernetes the claims and definitions. */
export interface NodeAdminApi extends AdminApi {
  readonly kind: "node";
  readonly version: string;
  /** One result for each object, in their order. */
  apply(objects: readonly unknown[]): Promise<AppliedResult[]>;
  delete(objects: readonly unknown[]): Promise<AppliedResult[]>;
  /** null: there is no such claim. */
  deleteClaim(namespace: string, name: string): Promise<DeletedClaim | null>;
  /**
   * `folder`: the one that the path is in, as `device:inode` where the operator is; null: not told. Resolves with the
   * size, bytes.
   */
  backup(path: string, folder: string | null): Promise<number>;
  /** Whether the state can tell which containers run, and a backup be compared with it. */
  readonly isComparable: boolean;
  /**
   * Goes on with a backup, or with nothing; serves again after the spool is drained. `replace`: also when its state is
   * sound.
   */
  rebuild(backup: string | null, replace: boolean): Promise<void>;
}

/** What only a cluster answers: there a network belongs to somebody. */
export interface ClusterAdminApi extends AdminApi {
  readonly kind: "cluster";
  /** Moves a network to another namespace, or to the administrators (NODES_OWN); what is allocated on it stays. */
  moveNetwork(network: string, owner: string): Promise<MovedNetwork>;
}
