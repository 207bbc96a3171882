import { soundAddress } from "../../allocations/allocation-object.ts";
import { networkObjectOf } from "../../kube/network-object.ts";
import type { IPAllocation, IPNetwork } from "../../kube/objects.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { ClaimView } from "../../kube/views/claim-view.ts";
import type { CapiClusterView, MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { SweptPod } from "./fact-views.ts";
import {
  ABSENT,
  type Cache,
  type ClaimFact,
  type Facts,
  type Found,
  type NamespaceFact,
  type NodeFact,
  present,
  UNKNOWN,
  type Wants,
} from "./facts.ts";
import {
  type FactMemory,
  type FactReader,
  type MachineMemory,
  NO_MEMORY,
  type ReadKinds,
  readFacts,
} from "./read-facts.ts";
import type { StoppedPods } from "./stopped-pods.ts";
import type { JudgedAllocation } from "./verdict.ts";

export type { Cache } from "./facts.ts";

/**
 * An allocation in the cache. `object` has no `managedFields` and may have to be parsed; the other fields cost nothing:
 * whoever passes over all looks at them first.
 */
export interface CachedAllocation extends JudgedAllocation {
  /** Its name. */
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** `spec.network`; "" where there is none. */
  readonly network: string;
  readonly state: string | undefined;
  readonly ownerKind: string | undefined;
  readonly hasMac: boolean;
  /** It records who has written which field: half of its bytes. */
  readonly recordsFields: boolean;
}

/** Everything the controller follows. Claims and pods by `namespace/name`, the others by name. */
export interface Caches {
  readonly allocations: Cache<CachedAllocation>;
  readonly claims: Cache<ClaimViewWithFact>;
  readonly pods: Cache<SweptPod>;
  readonly nodes: Cache<NodeFact>;
  readonly stoppedPods: Pick<StoppedPods, "has">;
  readonly catalog: Pick<DefinitionCatalog, "networkOfNad">;
  /** Names of the allocations of a claim (UID); absent: they are looked for. */
  readonly namesOf?: FactMemory["namesOf"];
  /** Where the VM of a claim (UID) wants it, as was read last; absent: nothing is known of any. */
  readonly wanted?: ReadonlyMap<string, Wants>;
  /** null: no machines are followed. */
  readonly machines: MachineSources | null;
}

/** Followed copies of everything that machines' facts come from. By `namespace/name`, networks by name. */
export interface MachineSources extends MachineMemory {
  readonly claims: Cache<MachineClaimView>;
  readonly addresses: Cache<MachineAddressView>;
  readonly pools: Cache<AddressPoolView>;
  readonly clusters: Cache<CapiClusterView>;
  /** null: they are not followed. */
  readonly data: Cache<{ readonly uid: string }> | null;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  /** As it was read last; unknown until then. */
  namespaceOf(name: string): Found<NamespaceFact>;
}

export interface ClaimViewWithFact extends ClaimView {
  readonly fact: ClaimFact;
}

/** Whether it is sound is computed once for each version. Throws TypeError without metadata. */
export function projectAllocation(object: IPAllocation): CachedAllocation {
  const { spec, status } = object;
  // managedFields are half of the object, and nothing here reads them.
  const { managedFields, ...metadata } = object.metadata as IPAllocation["metadata"] & {
    managedFields?: readonly unknown[];
  };
  return {
    key: metadata.name,
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    network: `${spec?.network ?? ""}`,
    address: soundAddress(object),
    state: status?.state,
    ownerKind: spec?.owner?.kind,
    hasMac: spec?.mac !== undefined,
    recordsFields: managedFields !== undefined && managedFields.length > 0,
    object: { ...object, metadata },
  };
}

/** What is looked up by something else than the name of an object. */
export interface FactIndexes extends Pick<FactMemory, "attachedToClaim" | "guestRunsElsewhere" | "namesOf"> {
  /** Pods that are not terminal and name the claim (`namespace/name`). */
  podsNaming(claim: string): readonly SweptPod[];
  addressPools(namespace: string): readonly AddressPoolView[];
}

/** Facts from the caches: enough to suspect, never to act. Valid for one pass. */
export function cachedFacts(caches: Caches): Facts {
  const indexes = indexesOf(caches);
  return readFacts(cachedReader(caches, indexes), cachedMemory(caches, indexes));
}

export function cachedMemory(caches: Caches, indexes: FactIndexes): FactMemory {
  return {
    attachedToClaim: (pod, claim) => indexes.attachedToClaim(pod, claim),
    namesOf: caches.namesOf ?? ((claim) => indexes.namesOf(claim)),
    wasSeenStopped: (podUid) => caches.stoppedPods.has(podUid),
    guestRunsElsewhere: (...of) => indexes.guestRunsElsewhere(...of),
    machines: caches.machines ?? NO_MEMORY,
  };
}

export function cachedReader(caches: Caches, indexes: FactIndexes): FactReader {
  const { machines, catalog, pods } = caches;
  const kinds: { readonly [K in keyof ReadKinds]: (key: string) => Found<ReadKinds[K]> } = {
    claim: (key) => find(caches.claims, key, ({ fact }) => fact),
    pod: (key) => find(pods, key),
    node: (key) => find(caches.nodes, key),
    nad: (key) => {
      const network = catalog.networkOfNad(key);
      return network === null ? UNKNOWN : present(network);
    },
    allocation: (key) => find(caches.allocations, key),
    addressClaim: (key) => find(machines?.claims, key),
    address: (key) => find(machines?.addresses, key),
    cluster: (key) => find(machines?.clusters, key),
    machineData: (key) => find(machines?.data, key),
    network: (key) => {
      if (!machines?.networks.known) return UNKNOWN;
      const object = networkObjectOf(key, (name) => machines.networks.items.get(name)?.object);
      return object === null ? ABSENT : present(object);
    },
    namespace: (key) => machines?.namespaceOf(key) ?? UNKNOWN,
  };
  return {
    get: (kind, key) => kinds[kind](key),
    podsNaming: (namespace, claim) => (pods.known ? present(indexes.podsNaming(`${namespace}/${claim}`)) : UNKNOWN),
    wants: ({ uid }) => {
      const wanted = caches.wanted?.get(uid);
      return wanted === undefined ? UNKNOWN : present(wanted);
    },
    // Only asked for where a VM has left, which a part of the controller has found.
    launcherLives: (namespace, vmi) => {
      if (!pods.known) return UNKNOWN;
      const isLauncher = (pod: SweptPod) => pod.namespace === namespace && pod.vmi?.uid === vmi && !pod.terminal;
      return present([...pods.items.values()].some(isLauncher));
    },
    addressPools: (namespace) => (machines?.pools.known ? present(indexes.addressPools(namespace)) : UNKNOWN),
  };
}

/** Indexes of what is in the caches now, each made when it is asked for first. */
function indexesOf({ allocations, pods, machines }: Caches): FactIndexes {
  let naming: ReadonlyMap<string, readonly SweptPod[]> | null = null;
  let pools: ReadonlyMap<string, readonly AddressPoolView[]> | null = null;
  return {
    podsNaming: (claim) => {
      naming ??= groupBy(pods.items, claimsNamed);
      return naming.get(claim) ?? [];
    },
    addressPools: (namespace) => {
      pools ??= poolsByNamespace(machines?.pools.items ?? new Map());
      return pools.get(namespace) ?? [];
    },
    namesOf: namesByClaim(allocations.items),
    attachedToClaim: attachedClaims(allocations.items),
    guestRunsElsewhere: migratedGuests(allocations.items),
  };
}

/** `namespace/name` of the claims that a pod names while it has not ended. */
export function claimsNamed({ terminal, namespace, claims }: SweptPod): string[] {
  return terminal ? [] : claims.map((name) => `${namespace}/${name}`);
}

export function poolsByNamespace(
  pools: ReadonlyMap<string, AddressPoolView>,
): ReadonlyMap<string, readonly AddressPoolView[]> {
  return groupBy(pools, ({ namespace }) => [namespace]);
}

/** Indexes the allocations at the first call. */
function namesByClaim(allocations: ReadonlyMap<string, CachedAllocation>): FactIndexes["namesOf"] {
  let names: ReadonlyMap<string, readonly CachedAllocation[]> | null = null;
  return (claim) => {
    names ??= groupBy(allocations, ({ object }) => [`${object.spec?.owner?.uid}`]);
    return (names.get(claim) ?? []).map(({ key }) => key);
  };
}

/** Indexes the allocations at the first call. */
function attachedClaims(allocations: ReadonlyMap<string, CachedAllocation>): FactIndexes["attachedToClaim"] {
  let pairs: Set<string> | null = null;
  return (pod, claim) => {
    pairs ??= new Set(
      [...allocations.values()].flatMap(({ object: { spec, status } }) =>
        Object.values(status?.attachments ?? {}).map((one) => `${one.pod?.uid} ${spec?.owner?.uid}`),
      ),
    );
    return pairs.has(`${pod.uid} ${claim.uid}`) || pairs.has(`${pod.staticUid} ${claim.uid}`);
  };
}

/** Runs there: a container that the guest came with is attached. Indexes the allocations at the first call. */
export function migratedGuests(allocations: ReadonlyMap<string, CachedAllocation>): Facts["guestRunsElsewhere"] {
  let sources: Map<string, Set<string>> | null = null;
  return (namespace, claim, network) => {
    sources ??= sourcesOf(allocations);
    const vmis = sources.get(`${namespace} ${network}`) ?? new Set<string>();
    // ipam-extensions begins the names of a VM's claims with the name of its VMI.
    return [...vmis].some((vmi) => claim.startsWith(`${vmi}.`));
  };
}

/** Names of the VMIs that attached guests came from, by their namespace and network. */
function sourcesOf(allocations: ReadonlyMap<string, CachedAllocation>): Map<string, Set<string>> {
  const sources = new Map<string, Set<string>>();
  for (const { object } of allocations.values()) {
    for (const { migratedFrom } of Object.values(object.status?.attachments ?? {})) {
      if (migratedFrom === undefined) continue;
      const key = `${migratedFrom.namespace} ${object.spec.network}`;
      sources.set(key, (sources.get(key) ?? new Set()).add(migratedFrom.name));
    }
  }
  return sources;
}

function find<T>(cache: Cache<T> | null | undefined, key: string): Found<T>;
function find<T, F>(cache: Cache<T>, key: string, read: (item: T) => F): Found<F>;
function find<T>(
  cache: Cache<T> | null | undefined,
  key: string,
  read: (item: T) => unknown = (item) => item,
): Found<unknown> {
  if (!cache?.known) return UNKNOWN;
  const item = cache.items.get(key);
  return item === undefined ? ABSENT : present(read(item));
}

function groupBy<T>(
  items: ReadonlyMap<string, T>,
  keysOf: (item: T) => readonly string[],
): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items.values()) {
    for (const key of keysOf(item)) {
      const known = groups.get(key);
      if (known === undefined) groups.set(key, [item]);
      else known.push(item);
    }
  }
  return groups;
}
