/*
 * imports/: addresses that were in use before Holdfast
 *
 *   import                        records them; import-backoff: when a definition that joins again waits
 *   read-candidates               reads claims, pools and pods, once for all networks
 *   import-candidates, claim-wishes                 which pods report which addresses; which ones claims wish for
 *   pod-bounds, create-allocation                   how many of them count; what is recorded of each
 */

import { describeHolder } from "../allocations/owners.ts";
import { mergeCondition } from "../ipam/claim-conditions.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { formatInterfaceAddress } from "../ipam/space/cidr.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { changeNetworkObject, readNetworkObject, writeNetworkObject } from "../kube/network-object.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { labelSelector } from "../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationOwner,
  type IPAllocation,
  type IPNetwork,
  LABEL_NETWORK,
} from "../kube/objects.ts";
import { StatusAddressReader } from "../kube/views/held-addresses.ts";
import { claimsNamedBy } from "../kube/views/network-selection.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import {
  broughtUpToDate,
  IMPORT_STALLED,
  IMPORTED,
  isImported,
  joined,
  type SeenSource,
  sourcesOf,
  stillWanted,
  subnetsOf,
  wantedOf,
} from "../networks/import-sources.ts";
import type { Log } from "../platform/log.ts";
import { severalAtOnce } from "../platform/several-at-once.ts";
import { isoTime } from "../platform/time.ts";
import { NotRecorded, reserveInUse } from "./create-allocation.ts";
import { type ImportCandidate, ImportCandidates } from "./import-candidates.ts";
import { OwnerRecords } from "./pod-bounds.ts";
import { readCandidates } from "./read-candidates.ts";

/** Objects created in parallel: an import of thousands must end within minutes, and others use the server too. */
const CREATED_AT_ONCE = 16;
/** Logged problems of each import; the others are counted. */
const PROBLEMS_LOGGED_MAX = 20;

/** A network to import. There may be several targets of one network. */
export interface ImportTarget {
  readonly network: string;
  /** The ranges that the nodes' own configuration gives it, for pods attached without a NAD. */
  readonly nodes?: NetworkDefinition | null;
  /** Nothing is imported when these are already covered; default: all its definitions, and `nodes`. */
  readonly needed?: readonly SeenSource[];
}

export interface ImportOptions {
  /** The network of each NAD and the definition in force. Must be complete, or addresses would be missed. */
  readonly definitions: Pick<DefinitionCatalog, "definitionOf" | "networkOfNad" | "nadsOf" | "permits">;
  /** Imports again although it was done before: on request of an operator. */
  readonly again?: boolean;
  /** Reads only: nothing is written. */
  readonly dryRun?: boolean;
  readonly log: Pick<Log, "info" | "warn">;
}

export interface ImportedAddress {
  /** CIDR. */
  readonly address: string;
  readonly owner: AllocationOwner;
  /** The source, such as `Pod shop/web-0`. */
  readonly foundIn: string;
  /** `recorded`: just now; `known`: before, for the same holder; `taken`: `by` another; null: not read in a dry run. */
  readonly outcome: "recorded" | "known" | "taken" | null;
  readonly by?: string;
}

export type ImportResult =
  | { readonly kind: "done-before" }
  /** Nothing was recorded as imported: it has to be done again. */
  | { readonly kind: "failed"; readonly error: Error }
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

interface Due {
  readonly index: number;
  readonly target: ImportTarget;
  readonly sources: readonly SeenSource[];
  readonly candidates: ImportCandidates;
}

/**
 * Creates an allocation for every address that claims, living pods and whereabouts have on the networks, then records
 * it in each IPNetwork: the condition `Imported`, and the definitions that were covered. Everything is read once for
 * all networks. Through a definition that is not covered nothing is allocated. May run concurrently, and be stopped
 * anywhere. The results are in the order of the targets. Throws ApiAway, and RefusalError IMPORT_UNREADABLE when an
 * operator has to act first.
 */
export async function importNetworks(
  api: KubeApi,
  targets: readonly ImportTarget[],
  options: ImportOptions,
): Promise<ImportResult[]> {
  const { definitions } = options;
  const records = new OwnerRecords();
  const reader = new StatusAddressReader();
  const results: ImportResult[] = targets.map(() => ({ kind: "done-before" }));
  const due: Due[] = [];
  for (const [index, target] of targets.entries()) {
    const { network, nodes = null } = target;
    // Before anything is listed: a definition that joins later is not covered by these lists.
    const sources = sourcesOf(definitions, network, nodes);
    const isDone = async () => isImported(await readNetworkObject(api, network), target.needed ?? sources);
    if (!options.again && (await isDone())) continue;
    const candidates = new ImportCandidates(network, {
      definitions,
      nodes,
      recordedOf: (pod) => records.of(network, { ...pod, claims: claimsNamedBy(pod.annotations, pod.namespace) }),
      hadBy: ({ uid }) => records.ofClaim(network, uid),
      addressesOf: (pod) => reader.of(pod),
    });
    due.push({ index, target, sources, candidates });
  }
  if (due.length === 0) return results;
  const networks = [...new Set(due.map(({ target }) => target.network))];
  await readCandidates(
    api,
    due.map(({ candidates }) => candidates),
    networks.join(", "),
  );
  await readRecords(api, networks, records);
  for (const one of due) {
    try {
      results[one.index] = await importOne(api, one, options);
    } catch (error) {
      if (!(error instanceof Error) || due.length === 1) throw error;
      // It concerns only its network.
      results[one.index] = { kind: "failed", error };
    }
  }
  return results;
}

async function importOne(
  api: KubeApi,
  { target: { network, nodes = null }, sources, candidates }: Due,
  options: ImportOptions,
): Promise<ImportResult> {
  const { log } = options;
  const all = candidates.all();
  const addresses = await recordAll(api, network, all, options);
  const taken = addresses.filter(({ outcome }) => outcome === "taken");
  const { problems } = candidates;
  const created = addresses.filter(({ outcome }) => outcome === "recorded").length;
  const refused = candidates.refusedCount;
  const existed = all.length - created;
  const result = { kind: "imported", created, existed, refused, addresses, problems } as const;
  if (options.dryRun) return result;
  const conflicts = taken.map(({ address, foundIn, by }) => `${address}, in use by ${foundIn}, is held by ${by}`);
  for (const problem of [...conflicts, ...problems].slice(0, PROBLEMS_LOGGED_MAX)) {
    log.warn({ network, problem }, "not imported");
  }
  await setImported(api, network, { sources, nodes, count: all.length, refused });
  log.info(
    { network, created, existed, refused, notImported: conflicts.length + problems.length },
    "addresses in use are imported",
  );
  return result;
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
  if (reserved.kind === "changed") throw new NotRecorded(`${formatInterfaceAddress(one)} is being written by others`);
  if (reserved.kind === "recorded") return { outcome: "recorded" };
  if (reserved.kind === "own") return { outcome: "known" };
  return { outcome: "taken", by: describeHolder(reserved.object.spec.owner) };
}

/** Adds what pods already have. After reading the pods, because other imports may run at the same time. */
async function readRecords(api: KubeApi, networks: readonly string[], records: OwnerRecords): Promise<void> {
  const [only] = networks;
  await api.list({
    path: ALLOCATIONS_PATH,
    ...(networks.length === 1 && only !== undefined
      ? { query: { labelSelector: labelSelector(LABEL_NETWORK, only) } }
      : {}),
    each: (object: IPAllocation) => records.add(object),
    restarted: () => records.forget(),
  });
}

/**
 * Writes the present editions of definitions that are covered, for daemons that have not followed each edition. After a
 * conflict the next attempt updates the newer one. Throws ApiAway.
 */
export async function bringUpToDate(api: KubeApi, known: IPNetwork, sources: readonly SeenSource[]): Promise<void> {
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

async function setImported(api: KubeApi, network: string, { sources, nodes, count, refused }: Covered): Promise<void> {
  const condition = {
    type: IMPORTED,
    status: "True",
    reason: "Imported",
    message: `${count} addresses were in use before${refused === 0 ? "" : `; ${refused} more that pods report are not recorded`}`,
    lastTransitionTime: isoTime(api.clock.wallMs()),
  } as const;
  return changeNetworkObject<void>(api, network, {
    decide: (known) => {
      const conditions = known?.status?.conditions ?? [];
      const stalled = conditions.some(({ type }) => type === IMPORT_STALLED);
      const importedFrom = joined(known, sources);
      const isDone = isImported(known, sources) && wantedOf(known).length === 0 && !stalled;
      if (isDone) return { kind: "leave", result: undefined };
      const others = conditions.filter(({ type }) => type !== IMPORT_STALLED);
      const status = {
        conditions: mergeCondition(others, condition),
        importedFrom,
        importWanted: stillWanted(known, importedFrom),
        // If a NAD defines the network, the controller writes its subnets.
        ...(nodes === null || sources.length > 1 ? {} : { subnets: subnetsOf(nodes), definedBy: "" }),
      };
      return { kind: "write", fields: { status }, afterWrite: () => undefined };
    },
    failed: `the import of network ${network} was not written down`,
  });
}

/** Tells in the IPNetwork why an import cannot go on, and what an operator can do. Throws ApiAway. */
export function tellStalled(
  api: KubeApi,
  network: string,
  why: { readonly reason: string; readonly message: string },
): Promise<void> {
  const lastTransitionTime = isoTime(api.clock.wallMs());
  return changeNetworkObject<void>(api, network, {
    decide: (known) => {
      const conditions = known?.status?.conditions ?? [];
      const told = conditions.find(({ type }) => type === IMPORT_STALLED);
      if (known === null || (told?.reason === why.reason && told.message === why.message))
        return { kind: "leave", result: undefined };
      const stalled = { type: IMPORT_STALLED, status: "True", ...why, lastTransitionTime } as const;
      const status = { conditions: mergeCondition(conditions, stalled) };
      return { kind: "write", fields: { status }, afterWrite: () => undefined };
    },
    failed: `why network ${network} is not imported could not be written down`,
  });
}
