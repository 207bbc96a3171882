import { allocationsAt as allocationsIn } from "../../allocations/allocations-at.ts";
import { fromAllocationOwner } from "../../allocations/owners.ts";
import {
  type CachedAllocation,
  type ClaimViewWithFact,
  type MachineSources,
  projectAllocation,
} from "../../claims/reasons/caches.ts";
import { claimFact, type SweptPod, sweptPod } from "../../claims/reasons/fact-views.ts";
import { UNKNOWN } from "../../claims/reasons/facts.ts";
import { NO_MEMORY } from "../../claims/reasons/read-facts.ts";
import { isMachine } from "../../ipam/owner.ts";
import type { Address } from "../../ipam/space/address.ts";
import { CAPI_GROUP, CAPI_IPAM_GROUP, capiPaths } from "../../kube/cluster-api.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { networkObjectOf } from "../../kube/network-object.ts";
import { allocationName, labelSelector } from "../../kube/object-names.ts";
import {
  ADDRESS_POOLS_PATH,
  ALLOCATIONS_PATH,
  CLAIMS_PATH,
  type IPAllocation,
  type IPNetwork,
  LABEL_NETWORK,
  NADS_PATH,
  NETWORKS_PATH,
  NODES_PATH,
  PODS_PATH,
  WHEREABOUTS_POOLS_PATH,
} from "../../kube/objects.ts";
import { projectAddressPool } from "../../kube/views/address-pool-view.ts";
import { projectClaim } from "../../kube/views/claim-view.ts";
import { projectCapiCluster, projectMachineAddress, projectMachineClaim } from "../../kube/views/machine-claim-view.ts";
import { MalformedObjectError } from "../../kube/views/object-metadata.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { readPool, type WhereaboutsPool } from "../../kube/views/whereabouts.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { DefinitionsWithPools } from "../../networks/definitions-with-pools.ts";
import { type NadView, projectNad } from "../../networks/nad-view.ts";
import { readOwner } from "../../networks/network-owner.ts";
import { poolDefinitionKey } from "../../networks/pool-definition.ts";
import { ifPermitted, listObjects } from "./asking/lists.ts";

export interface Definitions {
  readonly catalog: DefinitionCatalog;
  /** When the NAD or AddressPool that defines a network was created, RFC 3339. */
  readonly madeAt: ReadonlyMap<string, string>;
  /** By `namespace/name`; malformed ones are left out. */
  readonly nads: ReadonlyMap<string, NadView>;
  readonly networks: ReadonlyMap<string, IPNetwork>;
}

export interface SnapshotPod extends SweptPod {
  readonly beingDeleted: boolean;
  readonly lacksSandbox: boolean;
}

export interface ClusterSnapshot extends Definitions {
  /** By object name. */
  readonly allocations: ReadonlyMap<string, CachedAllocation>;
  /** By `namespace/name`; malformed ones are left out, and then `complete` is false. */
  readonly claims: Readable<ClaimViewWithFact>;
  readonly pods: Readable<SnapshotPod>;
  readonly nodes: ReadonlySet<string>;
  /** Machines of Cluster API; null: nothing here is held for any. */
  readonly machines: MachineSources | null;
  /** whereabouts' IPPools; a string tells why one cannot be read. */
  readonly pools: readonly (WhereaboutsPool | string)[];
}

interface Readable<T> {
  readonly items: ReadonlyMap<string, T>;
  readonly complete: boolean;
}

/** The object named after an address. */
export function allocationAt(
  { allocations }: ClusterSnapshot,
  network: string,
  address: Address,
): IPAllocation | undefined {
  return allocations.get(allocationName(network, address))?.object;
}

/** Lists everything, each resource by a quorum read. Throws errors of the API. */
export async function readSnapshot(api: KubeApi): Promise<ClusterSnapshot> {
  const [definitions, claims, pods, allocations, nodes, pools] = await Promise.all([
    readDefinitions(api),
    readAll(api, CLAIMS_PATH, (object): ClaimViewWithFact => {
      const view = projectClaim(object);
      return { ...view, fact: claimFact(view) };
    }),
    readAll(api, PODS_PATH, snapshotPod),
    readAllocations(api),
    readNodes(api),
    ifPermitted(async () => (await listObjects<unknown>(api, WHEREABOUTS_POOLS_PATH)).map(readPool)),
  ]);
  const isMachines = ({ spec }: IPAllocation) =>
    spec?.owner !== undefined && isMachine(fromAllocationOwner(spec.owner).kind);
  return {
    ...definitions,
    claims,
    pods,
    pools,
    machines: allocations.some(isMachines) ? await readMachines(api, definitions.networks) : null,
    allocations: new Map(allocations.map((object) => [object.metadata.name, projectAllocation(object)])),
    nodes,
  };
}

export async function readDefinitions(api: KubeApi): Promise<Definitions> {
  const [nads, networks, addressPools] = await Promise.all([
    readAll(api, NADS_PATH, projectNad),
    readNetworkObjects(api),
    ifPermitted(async () => [...(await readAll(api, ADDRESS_POOLS_PATH, projectAddressPool)).items.values()]),
  ]);
  const catalog = new DefinitionsWithPools(api.clock);
  const made = new Map<string, string>();
  for (const { spec } of networks.values()) {
    const network = spec?.network;
    if (typeof network !== "string") continue;
    const object = networkObjectOf(network, (name) => networks.get(name));
    catalog.setOwner(network, readOwner(object));
    catalog.reservations.set(network, object);
  }
  for (const nad of nads.items.values()) {
    catalog.upsert(nad);
    made.set(nad.key, nad.creationTimestamp);
  }
  for (const pool of addressPools) {
    catalog.upsertPool(pool);
    made.set(poolDefinitionKey(pool.key), pool.creationTimestamp);
  }
  const madeAt = catalog
    .networks()
    .map((network) => [network, made.get(catalog.definitionOf(network)?.by ?? "") ?? ""] as const);
  return { catalog: catalog, madeAt: new Map(madeAt), nads: nads.items, networks };
}

/** `network`: only of it, and perhaps of one whose label is the same. */
export function readAllocations(api: KubeApi, network?: string): Promise<IPAllocation[]> {
  const query = network === undefined ? {} : { labelSelector: labelSelector(LABEL_NETWORK, network) };
  return listObjects<IPAllocation>(api, ALLOCATIONS_PATH, { query });
}

async function readNetworkObjects(api: KubeApi): Promise<Map<string, IPNetwork>> {
  const objects = await listObjects<IPNetwork>(api, NETWORKS_PATH);
  return new Map(objects.map((object) => [object.metadata.name, object]));
}

async function readNodes(api: KubeApi): Promise<Set<string>> {
  const objects = await listObjects<{ metadata: { name: string } }>(api, NODES_PATH, { metadataOnly: true });
  return new Set(objects.map(({ metadata }) => metadata.name));
}

/** One reading of what machines of Cluster API have, as the controller follows it. Namespaces are not read. */
async function readMachines(api: KubeApi, networks: ReadonlyMap<string, IPNetwork>): Promise<MachineSources> {
  const [claims, addresses, clusters, pools] = await Promise.all([
    readVersions(api, capiPaths(CAPI_IPAM_GROUP, "ipaddressclaims"), projectMachineClaim),
    readVersions(api, capiPaths(CAPI_IPAM_GROUP, "ipaddresses"), projectMachineAddress),
    readVersions(api, capiPaths(CAPI_GROUP, "clusters"), projectCapiCluster),
    readVersions(api, [ADDRESS_POOLS_PATH], projectAddressPool),
  ]);
  const objects = new Map([...networks].map(([name, object]) => [name, { object }]));
  return {
    ...NO_MEMORY,
    claims,
    addresses,
    clusters,
    pools,
    data: null,
    networks: { items: objects, known: true },
    namespaceOf: () => UNKNOWN,
  };
}

/** Every object of a collection, in the first version that is served; not known where none is, or one is malformed. */
async function readVersions<T extends { readonly key: string }>(
  api: KubeApi,
  paths: readonly string[],
  project: (object: unknown) => T,
): Promise<{ readonly items: ReadonlyMap<string, T>; readonly known: boolean }> {
  for (const path of paths) {
    const { items, complete, served } = await readAll(api, path, project);
    if (served) return { items, known: complete };
  }
  return { items: new Map(), known: false };
}

/**
 * Every object of a collection by its key, from the quorum. `complete` is false where one is malformed, and `served`
 * where the server does not know the resource. Throws ApiAway.
 */
async function readAll<T extends { readonly key: string }>(
  api: KubeApi,
  path: string,
  project: (object: unknown) => T,
): Promise<{
  readonly items: ReadonlyMap<string, T>;
  readonly complete: boolean;
  readonly served: boolean;
}> {
  const items = new Map<string, T>();
  let complete = true;
  const answer = await api.list({
    path,
    each: (object) => {
      try {
        const item = project(object);
        items.set(item.key, item);
      } catch (error) {
        if (!(error instanceof MalformedObjectError)) throw error;
        complete = false;
      }
    },
    restarted: () => {
      items.clear();
      complete = true;
    },
  });
  return { items, complete, served: answer.kind === "listed" };
}

function snapshotPod(object: unknown): SnapshotPod {
  const view = projectPod(object, { addresses: true });
  const { deletionTimestamp, lacksSandbox } = view;
  return { ...sweptPod(view), beingDeleted: deletionTimestamp !== null, lacksSandbox };
}

/** Who has an address of any network; `network`: only there. Throws ApiAway. */
export async function allocationsAt(
  api: KubeApi,
  address: Address,
  network: string | undefined,
): Promise<IPAllocation[]> {
  return allocationsIn(api, address, network === undefined ? networksKnown(await readDefinitions(api)) : [network]);
}

/** Those that are defined, and those that were: their objects stay while anybody has an address of them. */
export function networksKnown({ catalog, networks }: Definitions): string[] {
  const recorded = [...networks.values()].map(({ spec }) => spec?.network);
  const all = new Set([...catalog.networks(), ...recorded.filter((one) => typeof one === "string")]);
  return [...all].sort();
}
