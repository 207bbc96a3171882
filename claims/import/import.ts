import { mergeCondition } from "../../ipam/claim-conditions.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { formatInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway, type KubeApi, ListRefused } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { labelSelector } from "../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationOwner,
  CLAIMS_PATH,
  type IPAllocation,
  type IPNetwork,
  LABEL_NETWORK,
  PODS_PATH,
  WHEREABOUTS_POOLS_PATH,
} from "../../kube/objects.ts";
import { claimsNamedBy } from "../../kube/views/network-selection.ts";
import type { PodView } from "../../kube/views/pod-view.ts";
import type { Log } from "../../platform/log.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import { isoTime } from "../../platform/time.ts";
import { describeHolder } from "../../store/cluster/allocations/owners.ts";
import type { DefinitionBook } from "../definition-book.ts";
import { changeNetworkObject, readNetworkObject, writeNetworkObject } from "../network-object.ts";
import { OwnerRecords } from "../owner-records.ts";
import { NotRecorded, reserveInUse } from "./create-allocation.ts";
import { type ImportCandidate, ImportCandidates } from "./import-candidates.ts";
import {
  broughtUpToDate,
  IMPORTED,
  isImported,
  joined,
  type SeenSource,
  sourcesOf,
  subnetsOf,
  uncovered,
} from "./import-sources.ts";

/** Objects created side by side: an import of thousands must end within minutes, and others use the server too. */
const CREATED_AT_ONCE = 16;
/** Of each import; the rest is counted. */
const PROBLEMS_LOGGED_MAX = 20;

export interface ImportOptions {
  /** Which network a NAD belongs to, and the definition that counts; complete, or addresses would be missed. */
  readonly definitions: Pick<DefinitionBook, "definitionOf" | "networkOfNad" | "nadsOf">;
  /** What the configuration on a node says of the network, where a pod attaches without a NAD. */
  readonly nodes?: NetworkDefinition | null;
  /** Nothing is imported when these are covered already; default: all definitions. */
  readonly needed?: readonly SeenSource[];
  /** Also when it was done before: by hand. */
  readonly again?: boolean;
  /** Only looks: nothing is written. */
  readonly dryRun?: boolean;
  readonly log: Pick<Log, "info" | "warn">;
}

/** An address that was in use, as an import found it. */
export interface ImportedAddress {
  /** CIDR. */
  readonly address: string;
  readonly owner: AllocationOwner;
  /** What says that it is in use, such as `Pod shop/web-0`. */
  readonly foundIn: string;
  /** `recorded`: now; `known`: it was, for the same holder; `taken`: it is another's, `by` whom; null: a dry run did not ask. */
  readonly outcome: "recorded" | "known" | "taken" | null;
  readonly by?: string;
}

export type ImportResult =
  | { readonly kind: "done-before" }
  | {
      readonly kind: "imported";
      readonly created: number;
      /** Had their allocation already, whoever owns it. */
      readonly existed: number;
      /** Addresses that pods report beyond what their interfaces can have: not recorded. */
      readonly refused: number;
      /** Whether the IPNetwork says what was covered; false where its installed definition is of an earlier release. */
      readonly listed: boolean;
      readonly addresses: readonly ImportedAddress[];
      /** What could not be read, or was refused, a sentence each. */
      readonly problems: readonly string[];
    };

/**
 * Makes an allocation of every address of a network that claims, living pods and whereabouts have already, then says so in
 * its IPNetwork: the condition `Imported`, and the definitions that were covered. Through any other definition nobody may
 * allocate before it is covered too. Any number may do it at once, and be stopped anywhere. Throws ApiAway when it is not
 * done, and RefusalError IMPORT_UNREADABLE when somebody has to act first.
 */
export async function importNetwork(
  api: KubeApi,
  network: string,
  options: ImportOptions,
): Promise<ImportResult> {
  const { definitions, nodes = null, log } = options;
  // Before anything is listed: a definition that joins later is not covered by what was listed before.
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
  if (options.dryRun) return { ...result, listed: false, addresses, problems };
  const conflicts = taken.map(
    ({ address, foundIn, by }) => `${address}, in use by ${foundIn}, is held by ${by}`,
  );
  for (const problem of [...conflicts, ...problems].slice(0, PROBLEMS_LOGGED_MAX)) {
    log.warn({ network, problem }, "not imported");
  }
  const listed = await setImported(api, network, {
    sources,
    nodes,
    count: all.length,
    refused,
  });
  const { existed } = result;
  log.info(
    { network, created, existed, refused, notImported: conflicts.length + problems.length },
    "addresses in use are imported",
  );
  if (!listed) {
    log.warn(
      { network },
      "the installed definition of IPNetworks is of an earlier release and does not keep what was imported: apply deploy/crds",
    );
  }
  return { ...result, listed, addresses, problems };
}

/** Records addresses that are in use; with `dryRun` it only names them. Throws ApiAway, and NotRecorded at the first that cannot be. */
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

/** Reads everybody who may have an address. Throws ApiAway, and RefusalError IMPORT_UNREADABLE. */
async function readCandidates(api: KubeApi, network: string, candidates: ImportCandidates): Promise<void> {
  // Claims first: a pod whose claim is known gives its address to the claim. Without the definition there are none.
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

/** What pods have already counts towards what they may have. After the pods, because others import at the same time. */
async function readRecords(api: KubeApi, network: string, records: OwnerRecords): Promise<void> {
  await api.list({
    path: ALLOCATIONS_PATH,
    query: { labelSelector: labelSelector(LABEL_NETWORK, network) },
    each: (object: IPAllocation) => records.add(object),
    restarted: () => records.forget(),
  });
}

/** Whoever comes in between has written another list: the next look brings that one up to date. */
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

/** Returns whether the list was kept. */
async function setImported(
  api: KubeApi,
  network: string,
  { sources, nodes, count, refused }: Covered,
): Promise<boolean> {
  const condition = {
    type: IMPORTED,
    status: "True",
    reason: "Imported",
    message: `${count} addresses were in use before${refused === 0 ? "" : `; ${refused} more that pods report are not recorded`}`,
    lastTransitionTime: isoTime(api.clock.wallMs()),
  } as const;
  return changeNetworkObject<boolean>(api, network, {
    decide: (known) => {
      if (isImported(known, sources)) return { kind: "leave", result: true };
      const status = {
        conditions: mergeCondition(known?.status?.conditions ?? [], condition),
        importedFrom: joined(known, sources),
        // Where a NAD defines the network, the controller says which subnets it has.
        ...(nodes === null || sources.length > 1 ? {} : { subnets: subnetsOf(nodes), definedBy: "" }),
      };
      const written = (object: IPNetwork) => uncovered(object, sources).length === 0;
      return { kind: "write", fields: { status }, written };
    },
    failed: `the import of network ${network} was not written down`,
  });
}
