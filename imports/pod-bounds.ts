import { soundAddress } from "../allocations/allocation-object.ts";
import { type Address, formatAddress, parseAddress } from "../ipam/space/address.ts";
import { cidrFirst } from "../ipam/space/cidr.ts";
import { placeOf, type RangeSet } from "../ipam/space/range-set.ts";
import type { IPAllocation } from "../kube/objects.ts";
import type { PodAddress } from "../kube/views/held-addresses.ts";

/**
 * Addresses of one subnet that one pod may have by its annotations, including those recorded before: more interfaces on
 * one network than pods have, and too few to exhaust a subnet.
 */
export const POD_INTERFACES_MAX = 8;

export interface PodBounds {
  readonly rangeSets: readonly RangeSet[];
  /** Interfaces that the pod selects on the network. */
  readonly interfaceCount: number;
  /** Addresses already recorded for it on the network. */
  readonly recorded: readonly Address[];
  /** Whether the kubelet reports it too, in a field that a tenant cannot write. */
  isKubelets(one: PodAddress): boolean;
}

export interface BoundAddresses {
  readonly kept: readonly PodAddress[];
  /** More than its interfaces can have. */
  readonly surplus: readonly PodAddress[];
  /** Gateways, excluded addresses and those outside the subnets: never allocated, so they need no record. */
  readonly heldBack: readonly PodAddress[];
}

/**
 * Which of a pod's addresses on a network are recorded. Annotations are written by the tenant: an interface has at most
 * one address of each range set, and none that the network would never allocate.
 */
export function withinBounds(
  held: readonly PodAddress[],
  { rangeSets, interfaceCount, recorded, isKubelets }: PodBounds,
): BoundAddresses {
  const bucketOf = (address: Address) => {
    const place = placeOf(rangeSets, address);
    return place === null ? `outside, IPv${address.family}` : `${place.index}`;
  };
  const known = new Map<string, Set<string>>();
  for (const one of recorded) setAt(known, bucketOf(one)).add(formatAddress(one));
  const taken = new Map<string, Set<string>>();
  const kept: PodAddress[] = [];
  const surplus: PodAddress[] = [];
  const heldBack: PodAddress[] = [];
  for (const one of held) {
    const byKubelet = isKubelets(one);
    if (!byKubelet && isHeldBack(rangeSets, one)) {
      heldBack.push(one);
      continue;
    }
    const bucket = bucketOf(one.address);
    const interfaces = setAt(taken, bucket);
    const ofPod = setAt(known, bucket);
    const name = one.interface || `${one.nad?.namespace}/${one.nad?.name}`;
    const text = formatAddress(one.address);
    const beyond = interfaces.has(name) || interfaces.size >= Math.min(interfaceCount, POD_INTERFACES_MAX);
    if (beyond || (!byKubelet && !ofPod.has(text) && ofPod.size >= POD_INTERFACES_MAX)) {
      surplus.push(one);
      continue;
    }
    interfaces.add(name);
    ofPod.add(text);
    kept.push(one);
  }
  return { kept, surplus, heldBack: heldBack };
}

function isHeldBack(rangeSets: readonly RangeSet[], { nad, address }: PodAddress): boolean {
  // Without ranges it cannot be determined.
  if (rangeSets.length === 0) return false;
  const place = placeOf(rangeSets, address);
  if (place === null || !place.subnet.usable.contains(address.value)) return true;
  // For a definition in a file on the nodes only the subnets are known here: by default a bridge has the first address.
  const { cidr, gateway } = place.subnet;
  return nad === null && gateway === null && address.value === cidrFirst(cidr) + 1n;
}

function setAt(sets: Map<string, Set<string>>, key: string): Set<string> {
  const found = sets.get(key) ?? new Set();
  sets.set(key, found);
  return found;
}

/** The owners whose records count as a pod's. */
interface RecordedPod {
  readonly namespace: string;
  readonly uid: string;
  readonly staticUid: string | null;
  /** Claims of its namespace that it names. */
  readonly claims: readonly string[];
}

/** Recorded addresses of pods on each network, and claims by name: they limit a pod that keeps changing annotations. */
export class OwnerRecords {
  readonly #byOwner = new Map<string, Address[]>();

  /** `address`: the address if it is known, null if it is malformed. */
  add(object: IPAllocation, address: string | null = soundAddress(object)): void {
    if (address === null || object.status?.state !== "Bound") return;
    const { network, owner } = object.spec;
    if (owner.kind === "Container") return;
    for (const one of owner.kind === "Pod" ? [owner.uid] : [owner.uid, `${owner.namespace}/${owner.name}`]) {
      const known = this.#byOwner.get(`${network} ${one}`);
      if (known === undefined) this.#byOwner.set(`${network} ${one}`, [parseAddress(address)]);
      else known.push(parseAddress(address));
    }
  }

  /** The list is read again from the start. */
  forget(): void {
    this.#byOwner.clear();
  }

  /** What a claim has, by its UID. */
  ofClaim(network: string, uid: string): readonly Address[] {
    return this.#byOwner.get(`${network} ${uid}`) ?? [];
  }

  of(network: string, { namespace, uid, staticUid, claims }: RecordedPod): Address[] {
    const owners = [uid, staticUid ?? uid, ...claims.map((name) => `${namespace}/${name}`)];
    return [...new Set(owners)].flatMap((owner) => this.#byOwner.get(`${network} ${owner}`) ?? []);
  }
}
