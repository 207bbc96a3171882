import { type Address, formatAddress } from "../ipam/space/address.ts";
import { cidrFirst } from "../ipam/space/cidr.ts";
import { placeOf, type RangeSet } from "../ipam/space/range-set.ts";
import type { HeldAddress } from "../kube/views/held-addresses.ts";

/**
 * Addresses of one subnet that one pod is believed to have by its annotations, all that were recorded of it before
 * included: more interfaces on one network than pods have, and too few to empty a subnet with.
 */
export const POD_INTERFACES_MAX = 8;

export interface PodBounds {
  readonly rangeSets: readonly RangeSet[];
  /** Interfaces that the pod selects on the network. */
  readonly interfaceCount: number;
  /** What its records on the network hold already. */
  readonly recorded: readonly Address[];
  /** Whether the kubelet says so too, in a field that a tenant cannot write. */
  isKubelets(one: HeldAddress): boolean;
}

export interface BoundAddresses {
  readonly kept: readonly HeldAddress[];
  /** More than its interfaces can have. */
  readonly surplus: readonly HeldAddress[];
  /** Gateways, excluded addresses and those outside of the subnets: never given, so nobody has to be kept from them. */
  readonly neverGiven: readonly HeldAddress[];
}

/**
 * What of a pod's addresses on a network is recorded. An annotation is the tenant's own word: an interface has one address
 * of each range set and no more, and none that the network would never give.
 */
export function withinBounds(
  held: readonly HeldAddress[],
  { rangeSets, interfaceCount, recorded, isKubelets }: PodBounds,
): BoundAddresses {
  const bucketOf = (address: Address) => {
    const place = placeOf(rangeSets, address);
    return place === null ? `outside, IPv${address.family}` : `${place.index}`;
  };
  const known = new Map<string, Set<string>>();
  for (const one of recorded) setAt(known, bucketOf(one)).add(formatAddress(one));
  const taken = new Map<string, Set<string>>();
  const kept: HeldAddress[] = [];
  const surplus: HeldAddress[] = [];
  const neverGiven: HeldAddress[] = [];
  for (const one of held) {
    const byKubelet = isKubelets(one);
    if (!byKubelet && isNeverGiven(rangeSets, one)) {
      neverGiven.push(one);
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
  return { kept, surplus, neverGiven };
}

function isNeverGiven(rangeSets: readonly RangeSet[], { nad, address }: HeldAddress): boolean {
  // Without ranges nobody can tell.
  if (rangeSets.length === 0) return false;
  const place = placeOf(rangeSets, address);
  if (place === null || !place.subnet.usable.contains(address.value)) return true;
  // Of what a file on the nodes defines only the subnets are known here: a bridge has the first address by default.
  const { cidr, gateway } = place.subnet;
  return nad === null && gateway === null && address.value === cidrFirst(cidr) + 1n;
}

function setAt(sets: Map<string, Set<string>>, key: string): Set<string> {
  const found = sets.get(key) ?? new Set();
  sets.set(key, found);
  return found;
}
