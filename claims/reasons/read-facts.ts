import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import type { MachineResource } from "../../kube/cluster-api.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ANNOTATION_ALLOCATION, type IPNetwork } from "../../kube/objects.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import { listedAddresses } from "../../kube/views/claim-view.ts";
import type { CapiClusterView, MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { SweptPod } from "./fact-views.ts";
import {
  ABSENT,
  type AddressPoolFact,
  type ClaimFact,
  type Facts,
  type Found,
  type MachineAddressFact,
  type NamespaceFact,
  type NodeFact,
  present,
  UNKNOWN,
  type Wants,
} from "./facts.ts";
import type { JudgedAllocation } from "./verdict.ts";

/** What can be read of each kind. By `namespace/name`; nodes, allocations, networks and namespaces by name. */
export interface ReadKinds {
  readonly claim: ClaimFact;
  readonly pod: SweptPod;
  readonly node: NodeFact;
  /** The network of a NAD. */
  readonly nad: string;
  readonly allocation: JudgedAllocation;
  readonly addressClaim: MachineClaimView;
  readonly address: MachineAddressView;
  readonly cluster: CapiClusterView;
  readonly machineData: { readonly uid: string };
  readonly network: IPNetwork;
  readonly namespace: NamespaceFact;
}

/** Where facts come from: followed copies, or quorum reads. */
export interface FactReader {
  get<K extends keyof ReadKinds>(kind: K, key: string): Found<ReadKinds[K]>;
  podsNaming(namespace: string, claim: string): Found<readonly SweptPod[]>;
  addressPools(namespace: string): Found<readonly AddressPoolView[]>;
  wants(claim: ClaimFact): Found<Wants>;
  launcherLives(namespace: string, vmi: string): Found<boolean>;
}

/** One claim of those that have had a name: `key` is `namespace/name`. */
export interface NamedClaim {
  readonly key: string;
  readonly uid: string;
}

export interface FactMemory {
  /** Whether the pod is attached to an address of the claim. */
  readonly attachedToClaim: (pod: SweptPod, claim: NamedClaim) => boolean;
  /** Names of the allocations of a claim (UID), as far as they are known: where to look. */
  readonly namesOf: (claim: string) => Iterable<string>;
  readonly wasSeenStopped: Facts["wasSeenStopped"];
  /** As the allocations say, of which the controller has a copy. */
  readonly guestRunsElsewhere: Facts["guestRunsElsewhere"];
  readonly machines: Pick<MachineMemory, "wasSeenPaused">;
}

/** What the controller remembers of machines, and no object says. */
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

/** All facts, from whatever is read. */
export function readFacts(reader: FactReader, memory: FactMemory): Facts {
  const { attachedToClaim, wasSeenStopped, guestRunsElsewhere, machines } = memory;
  return {
    wants: (claim) =>
      claim.vm === null ? present({ network: claim.network, asks: [], vmi: null, nad: "" }) : reader.wants(claim),
    launcherLives: (namespace, vmi) => reader.launcherLives(namespace, vmi),
    had: (claim, besides) => {
      const listed = listedAddresses(claim).map(({ address }) => allocationName(claim.network, address));
      const found: JudgedAllocation[] = [];
      for (const name of new Set([...memory.namesOf(claim.uid), ...listed])) {
        if (besides.includes(name)) continue;
        const one = reader.get("allocation", name);
        if (one.kind === "unknown") return UNKNOWN;
        if (one.kind === "present" && isOf(one.it, claim)) found.push(one.it);
      }
      return present(found);
    },
    claim: (namespace, name) => reader.get("claim", `${namespace}/${name}`),
    pod: (namespace, name) => reader.get("pod", `${namespace}/${name}`),
    node: (name) => reader.get("node", name),
    wasSeenStopped,
    guestRunsElsewhere,
    networkOfNad: (nad) => reader.get("nad", nad),
    podsNaming: (namespace, claim) =>
      convert(reader.podsNaming(namespace, claim), (pods) =>
        pods.map((pod) => ({
          ...pod,
          attachedToClaim: (uid) => attachedToClaim(pod, { key: `${namespace}/${claim}`, uid }),
        })),
      ),
    addressClaim: (namespace, name) => reader.get("addressClaim", `${namespace}/${name}`),
    machineData: (namespace, name) => reader.get("machineData", `${namespace}/${name}`),
    machineAddress: (namespace, name) => convert(reader.get("address", `${namespace}/${name}`), machineAddressFact),
    boundTo: (name) => {
      const allocation = reader.get("allocation", name);
      return allocation.kind === "present" ? boundFact(allocation.it) : allocation;
    },
    cluster: (namespace, name) => reader.get("cluster", `${namespace}/${name}`),
    addressPools: (namespace) => convert(reader.addressPools(namespace), (pools) => pools.map(addressPoolFact)),
    namespace: (name) => reader.get("namespace", name),
    wasPaused: (network, cluster) => {
      const object = reader.get("network", network);
      if (object.kind === "unknown") return UNKNOWN;
      if (machines.wasSeenPaused(cluster)) return present(true);
      // Without a record nothing is known.
      return convert(
        object.kind === "absent" ? UNKNOWN : object,
        ({ status }) => status?.pausedClusters?.includes(cluster) ?? false,
      );
    },
  };
}

function isOf({ object, address }: JudgedAllocation, { uid }: ClaimFact): boolean {
  const { owner } = object.spec ?? {};
  return address !== null && owner?.kind === "IPAMClaim" && owner.uid === uid && object.status?.state === "Bound";
}

export type FactKind = keyof ReadKinds | "pods-naming" | "launchers" | "address-pools" | "guests";

/**
 * As `readFacts`, and notes every question: a verdict changes only when one of the answers does. Guests are noted by
 * namespace and network. What else the memory tells changes with the claim, the pod or the cluster that is asked for.
 */
export function notedFacts(reader: FactReader, memory: FactMemory, note: (kind: FactKind, key: string) => void): Facts {
  return readFacts(
    {
      get: (kind, key) => {
        note(kind, key);
        return reader.get(kind, key);
      },
      podsNaming: (namespace, claim) => {
        note("pods-naming", `${namespace}/${claim}`);
        return reader.podsNaming(namespace, claim);
      },
      addressPools: (namespace) => {
        note("address-pools", namespace);
        return reader.addressPools(namespace);
      },
      // Who finds out tells of it as of a change of the claim.
      wants: (claim) => reader.wants(claim),
      launcherLives: (namespace, vmi) => {
        note("launchers", `${namespace} ${vmi}`);
        return reader.launcherLives(namespace, vmi);
      },
    },
    {
      ...memory,
      guestRunsElsewhere: (namespace, claim, network) => {
        note("guests", `${namespace} ${network}`);
        return memory.guestRunsElsewhere(namespace, claim, network);
      },
    },
  );
}

function convert<T, F>(found: Found<T>, read: (it: T) => F): Found<F> {
  return found.kind === "present" ? present(read(found.it)) : found;
}

function machineAddressFact(view: MachineAddressView): MachineAddressFact {
  const { claim, pool, address, annotations } = view;
  const allocation = annotations.get(ANNOTATION_ALLOCATION) ?? null;
  return { claim, pool, address: canonical(address), allocation };
}

/** The UID of the owner while it is Bound. One that is not sound tells nothing. */
function boundFact({ object, address }: JudgedAllocation): Found<string> {
  if (address === null) return UNKNOWN;
  if (object.status?.state !== "Bound") return ABSENT;
  return present(object.spec.owner.uid);
}

function addressPoolFact({ network, preallocations }: AddressPoolView): AddressPoolFact {
  return { network, preallocated: (claim) => canonical(preallocations.get(claim) ?? "") };
}

function canonical(text: string): string | null {
  try {
    return formatAddress(parseAddress(text));
  } catch {
    return null;
  }
}
