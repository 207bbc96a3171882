/*
 * imports/: addresses that were in use before Holdfast
 *
 *   import                        records them, network by network; import-backoff: when it is tried again
 *   import-candidates, listed-address, pod-bounds   which pods report which addresses
 *   owner-records, create-allocation                what is recorded of each
 */

import { mergeCondition } from "../ipam/claim-conditions.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { formatInterfaceAddress } from "../ipam/space/cidr.ts";
import { ApiAway, type KubeApi, ListRefused } from "../kube/kube-api.ts";
import { changeNetworkObject, readNetworkObject, writeNetworkObject } from "../kube/network-object.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { labelSelector } from "../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationOwner,
  CLAIMS_PATH,
  type IPAllocation,
  type IPNetwork,
  LABEL_NETWORK,
  PODS_PATH,
  WHEREABOUTS_POOLS_PATH,
} from "../kube/objects.ts";
import { claimsNamedBy } from "../kube/views/network-selection.ts";
import type { PodView } from "../kube/views/pod-view.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import {
  broughtUpToDate,
  IMPORTED,
  isImported,
  joined,
  type SeenSource,
  sourcesOf,
  subnetsOf,
} from "../networks/import-sources.ts";
import type { Log } from "../platform/log.ts";
import { severalAtOnce } from "../platform/several-at-once.ts";
import { isoTime } from "../platform/time.ts";
import { describeHolder } from "../store/cluster/allocations/owners.ts";
import { NotRecorded, reserveInUse } from "./create-allocation.ts";
import { type ImportCandidate, ImportCandidates } from "./import-candidates.ts";
import { OwnerRecords } from "./owner-records.ts";

/** Objects created in parallel: an import of thousands must end within minutes, and others use the server too. */
const CREATED_AT_ONCE = 16;
/** Logged problems of each import; the others are counted. */
const PROBLEMS_LOGGED_MAX = 20;

export interface ImportOptions {
  /** The network of each NAD and the definition in force. Must be complete, or addresses would be missed. */
  readonly definitions: Pick<DefinitionCatalog, "definitionOf" | "networkOfNad" | "nadsOf">;
  /** The configuration on a node for the network, for pods attached without a NAD. */
  readonly nodes?: NetworkDefinition | null;
  /** Nothing is imported when these are already covered; default: all definitions. */
  readonly needed?: readonly SeenSource[];
  /** Imports again although it was done before: on request of an operator. */
  readonly again?: boolean;
  /** Reads only: nothing is written. */
  readonly dryRun?: boolean;
  readonly log: Pick<Log, "info" | "warn">;
}

/** An address that was in use, as an import found it. */
export interface ImportedAddress {
  /** CIDR. */
  readonly address: string;
  readonly owner: AllocationOwner;
  /** The source, such as `Pod shop/web-0`. */
  readonly foundIn: string;
  /**
   * `recorded`: just now; `known`: before, for the same holder; `taken`: `by` another holder; null: not read in a dry
   * run.
   */
  readonly outcome: "recorded" | "known" | "taken" | null;
  readonly by?: string;
}

export type ImportResult =
  | { readonly kind: "done-before" }
  | {
      readonly kind: "imported";
      readonly created: number;
      /** Addresses that already had an allocation, of whichever owner. */
      readonly existed: number;
      /** Addresses that pods report beyond what their interfaces can have: not recorded. */
      readonly refused: number;
      readonly addresses: readonly ImportedAddress[];
      /** What could not be read, or was refused, a sentence each. */
      readonly problems: readonly string[];
    };

/**
 * Creates an allocation for every address of a network that claims, living pods and whereabouts already have, then
 * records it in the IPNetwork: the condition `Imported`, and the definitions that were covered. Nothing may be
 * allocated through any other definition before it is covered too. May run concurrently, and be stopped anywhere.
 * Throws ApiAway when it is not complete, and RefusalError IMPORT_UNREADABLE when an operator has to act first.
 */
export async function importNetwork(
  api: KubeApi,
  network: string,
  options: ImportOptions,
): Promise<ImportResult> {
  const { definitions, nodes = null, log } = options;
  // Before anything is listed: a definition that joins later is not covered by these lists.
  const sources = sourcesOf(definitions, network, nodes);
  if (!options.again) {
    const known = await readNetworkObject(api, network);
    if (isImported(known, options.needed ?? sources)) {
      if (known !== null) await bringUpToDate(api, known, sources);
      return { kind: "done-before" };
    }
  }
  const records = new OwnerRecords();
  const recordedOf = (pod: PodView) =>
    records.of(network, { ...pod, claims: claimsNamedBy(pod.annotations, pod.namespace) });
  const candidates = new ImportCandidates(network, { definitions, nodes, recordedOf });
  await readCandidates(api, network, candidates);
  await readRecords(api, network, records);
  const all = candidates.all();
  const addresses = await recordAll(api, network, all, options);
  const taken = addresses.filter(({ outcome }) => outcome === "taken");
  const { problems } = candidates;
  const created = addresses.filter(({ outcome }) => outcome === "recorded").length;
  const refused = candidates.refusedCount;
  const result = { kind: "imported", created, existed: all.length - created, refused } as const;
  if (options.dryRun) return { ...result, addresses, problems };
  const conflicts = taken.map(
    ({ address, foundIn, by }) => `${address}, in use by ${foundIn}, is held by ${by}`,
  );
  for (const problem of [...conflicts, ...problems].slice(0, PROBLEMS_LOGGED_MAX)) {
    log.warn({ network, problem }, "not imported");
  }
  await setImported(api, network, { sources, nodes, count: all.length, refused });
  const { existed } = result;
  log.info(
    { network, created, existed, refused, notImported: conflicts.length + problems.length },
    "addresses in use are imported",
  );
  return { ...result, addresses, problems };
}

/** Records addresses that are in use; with `dryRun` only reports them. Throws ApiAway, and NotRecorded at the first. */
export async function recordAll(
  api: KubeApi,
  network: string,
  all: readonly ImportCandidate[],
  { dryRun = false }: Pick<ImportOptions, "dryRun"> = {},
): Promise<ImportedAddress[]> {
  const found: ImportedAddress[] = [];
  await severalAtOnce(all.entries(), CREATED_AT_ONCE, async ([index, candidate]) => {
    const { one, holder, foundIn } = candidate;
    const what = { address: formatInterfaceAddress(one), owner: holder.owner, foundIn };
    const outcome = dryRun ? { outcome: null } : await record(api, network, candidate);
    found[index] = { ...what, ...outcome };
  });
  return found;
}

async function record(
  api: KubeApi,
  network: string,
  { one, holder }: ImportCandidate,
): Promise<Pick<ImportedAddress, "outcome" | "by">> {
  const reserved = await reserveInUse(api, network, one, holder);
  if (reserved.kind === "changed")
    throw new NotRecorded(`${formatInterfaceAddress(one)} is being written by others`);
  if (reserved.kind === "recorded") return { outcome: "recorded" };
  if (reserved.kind === "own") return { outcome: "known" };
  return { outcome: "taken", by: describeHolder(reserved.object.spec.owner) };
}

/** Reads everything that may have an address. Throws ApiAway, and RefusalError IMPORT_UNREADABLE. */
async function readCandidates(api: KubeApi, network: string, candidates: ImportCandidates): Promise<void> {
  // Claims first: a pod whose claim is known gives its address to the claim. Without their definition there are none.
  await api.list({
    path: CLAIMS_PATH,
    each: (object) => candidates.addClaim(object),
    restarted: () => candidates.forgetClaims(),
  });
  try {
    // Without whereabouts' definition there are no pools.
    await api.list({
      path: WHEREABOUTS_POOLS_PATH,
      each: (object) => candidates.addPool(object),
      restarted: () => candidates.forgetPools(),
    });
  } catch (error) {
    if (!(error instanceof ListRefused)) throw error;
    const remedy = "give the account the right to list ippools.whereabouts.cni.cncf.io (deploy/rbac.yaml)";
    throw new RefusalError(refuse("IMPORT_UNREADABLE", { network, remedy, problem: error.message }));
  }
  const pods = await api.list({
    path: PODS_PATH,
    each: (object) => candidates.addPod(object),
    restarted: () => candidates.forgetPods(),
  });
  if (pods.kind === "missing") throw new ApiAway("the server does not know pods");
}

/** Adds what pods already have. After reading the pods, because other imports may run at the same time. */
async function readRecords(api: KubeApi, network: string, records: OwnerRecords): Promise<void> {
  await api.list({
    path: ALLOCATIONS_PATH,
    query: { labelSelector: labelSelector(LABEL_NETWORK, network) },
    each: (object: IPAllocation) => records.add(object),
    restarted: () => records.forget(),
  });
}

/** Updates the list; after a conflict the next attempt updates the newer one. */
async function bringUpToDate(api: KubeApi, known: IPNetwork, sources: readonly SeenSource[]): Promise<void> {
  const importedFrom = broughtUpToDate(known, sources);
  if (importedFrom === null) return;
  await writeNetworkObject(new ObjectClient(api), known.spec.network, known, { status: { importedFrom } });
}

interface Covered {
  readonly sources: readonly SeenSource[];
  readonly nodes: NetworkDefinition | null;
  readonly count: number;
  readonly refused: number;
}

async function setImported(
  api: KubeApi,
  network: string,
  { sources, nodes, count, refused }: Covered,
): Promise<void> {
  const condition = {
    type: IMPORTED,
    status: "True",
    reason: "Imported",
    message: `${count} addresses were in use before${refused === 0 ? "" : `; ${refused} more that pods report are not recorded`}`,
    lastTransitionTime: isoTime(api.clock.wallMs()),
  } as const;
  return changeNetworkObject<void>(api, network, {
    decide: (known) => {
      if (isImported(known, sources)) return { kind: "leave", result: undefined };
      const status = {
        conditions: mergeCondition(known?.status?.conditions ?? [], condition),
        importedFrom: joined(known, sources),
        // If a NAD defines the network, the controller writes its subnets.
        ...(nodes === null || sources.length > 1 ? {} : { subnets: subnetsOf(nodes), definedBy: "" }),
      };
      return { kind: "write", fields: { status }, afterWrite: () => undefined };
    },
    failed: `the import of network ${network} was not written down`,
  });
}
