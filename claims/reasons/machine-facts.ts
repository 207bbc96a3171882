import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import type { MachineResource } from "../../kube/cluster-api.ts";
import { ANNOTATION_ALLOCATION, type IPNetwork } from "../../kube/objects.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type {
  CapiClusterView,
  MachineAddressView,
  MachineClaimView,
} from "../../kube/views/machine-claim-view.ts";
import { networkObjectOf } from "../network-object.ts";
import {
  ABSENT,
  type AddressPoolFact,
  type Cache,
  type Found,
  type MachineAddressFact,
  type MachineFacts,
  type NamespaceFact,
  present,
  UNKNOWN,
} from "./facts.ts";
import type { JudgedAllocation } from "./verdict.ts";

/** What the controller remembers of machines, and no object tells. */
export interface MachineMemory {
  /** A Cluster (`namespace/name`) was paused when it was last seen. False is no evidence. */
  wasSeenPaused(cluster: string): boolean;
  /** The collection's path in the version that is known to be served; null: not known. */
  servedPath(resource: MachineResource): string | null;
  /** The IPAddress (`namespace/name`) as it was seen last; null: not known. */
  addressAt(key: string): MachineAddressView | null;
}

/** The memory of somebody who has followed nothing. */
export const NO_MEMORY: MachineMemory = {
  wasSeenPaused: () => false,
  servedPath: () => null,
  addressAt: () => null,
};

/** Followed copies of everything that machines' facts come from. By `namespace/name`, networks by name. */
export interface MachineSources extends MachineMemory {
  readonly claims: Cache<MachineClaimView>;
  readonly addresses: Cache<MachineAddressView>;
  readonly pools: Cache<AddressPoolView>;
  readonly clusters: Cache<CapiClusterView>;
  /** null: they are not followed. */
  readonly data: Cache<{ readonly uid: string }> | null;
  /** IPNetwork objects. */
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  /** As it was read last; unknown until then. */
  namespaceOf(name: string): Found<NamespaceFact>;
}

/** Machines' facts where none are followed. */
export const NO_MACHINES: MachineFacts = {
  addressClaim: () => UNKNOWN,
  machineData: () => UNKNOWN,
  machineAddress: () => UNKNOWN,
  boundTo: () => UNKNOWN,
  cluster: () => UNKNOWN,
  addressPools: () => UNKNOWN,
  namespace: () => UNKNOWN,
  wasPaused: () => UNKNOWN,
};

/** Facts from followed copies: enough to suspect, never to act. Valid for one pass. */
export function cachedMachineFacts(
  sources: MachineSources,
  allocations: Cache<JudgedAllocation>,
): MachineFacts {
  const { claims, addresses, clusters, pools, data, networks } = sources;
  let byNamespace: ReadonlyMap<string, readonly AddressPoolFact[]> | null = null;
  return {
    addressClaim: (namespace, name) => found(claims, `${namespace}/${name}`, (claim) => claim),
    machineData: (namespace, name) =>
      data === null ? UNKNOWN : found(data, `${namespace}/${name}`, ({ uid }) => ({ uid })),
    machineAddress: (namespace, name) => found(addresses, `${namespace}/${name}`, machineAddressFact),
    boundTo: (name) => {
      const allocation = found(allocations, name, boundFact);
      return allocation.kind === "present" ? allocation.it : allocation;
    },
    cluster: (namespace, name) => found(clusters, `${namespace}/${name}`, (cluster) => cluster),
    addressPools: (namespace) => {
      if (!pools.known) return UNKNOWN;
      byNamespace ??= poolsByNamespace(pools.items);
      return present(byNamespace.get(namespace) ?? []);
    },
    namespace: (name) => sources.namespaceOf(name),
    wasPaused: (network, cluster) => {
      if (!networks.known) return UNKNOWN;
      const object = networkObjectOf(network, (name) => networks.items.get(name)?.object);
      return pausedIn(object, cluster, sources);
    },
  };
}

/** Whether a Cluster that is gone was paused, by the record of a network; null: there is no record, so nothing is known. */
export function pausedIn(
  object: IPNetwork | null,
  cluster: string,
  { wasSeenPaused }: MachineMemory,
): Found<boolean> {
  if (wasSeenPaused(cluster)) return present(true);
  if (object === null) return UNKNOWN;
  return present(object.status?.pausedClusters?.includes(cluster) ?? false);
}

export function machineAddressFact(view: MachineAddressView): MachineAddressFact {
  const { claim, pool, address, annotations } = view;
  const allocation = annotations.get(ANNOTATION_ALLOCATION) ?? null;
  return { claim, pool, address: canonical(address), allocation };
}

/** The UID of the owner while it is Bound. One that is not sound tells nothing. */
export function boundFact({ object, address }: JudgedAllocation): Found<string> {
  if (address === null) return UNKNOWN;
  if (object.status?.state !== "Bound") return ABSENT;
  return present(object.spec.owner.uid);
}

export function addressPoolFact({ network, preallocations }: AddressPoolView): AddressPoolFact {
  return { network, preallocated: (claim) => canonical(preallocations.get(claim) ?? "") };
}

function poolsByNamespace(pools: ReadonlyMap<string, AddressPoolView>): Map<string, AddressPoolFact[]> {
  const byNamespace = new Map<string, AddressPoolFact[]>();
  for (const pool of pools.values()) {
    const known = byNamespace.get(pool.namespace);
    if (known === undefined) byNamespace.set(pool.namespace, [addressPoolFact(pool)]);
    else known.push(addressPoolFact(pool));
  }
  return byNamespace;
}

function canonical(text: string): string | null {
  try {
    return formatAddress(parseAddress(text));
  } catch {
    return null;
  }
}

function found<T, F>(cache: Cache<T>, key: string, read: (item: T) => F): Found<F> {
  if (!cache.known) return UNKNOWN;
  const item = cache.items.get(key);
  return item === undefined ? ABSENT : present(read(item));
}
