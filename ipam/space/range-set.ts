import { createHash } from "node:crypto";
import { type Address, type Family, formatAddress } from "./address.ts";
import { type Cidr, cidrContains, cidrFirst, cidrLast, formatCidr } from "./cidr.ts";
import { IntervalSet, lastAtMost } from "./interval-set.ts";

/** Runs of a set of addresses that a message lists. */
const DESCRIBED_RUNS_MAX = 10;

export interface SubnetDefinition {
  readonly cidr: Cidr;
  /** Returned with every address of the subnet, and never allocated itself. */
  readonly gateway: Address | null;
  /** The addresses that count towards the size: the whole CIDR, or host-local's rangeStart..rangeEnd within it. */
  readonly extent: IntervalSet;
  /** Addresses that may be allocated at all, reserved subnets included. */
  readonly usable: IntervalSet;
  /** Addresses allocated without a request for them: `usable` without the reserved subnets. */
  readonly automatic: IntervalSet;
}

/**
 * A set of subnets of one family from which each interface gets one address. A set has one subnet, except where
 * host-local's `ranges` puts several into a set. Subnets are sorted by their first address.
 */
export interface RangeSet {
  readonly family: Family;
  readonly subnets: readonly SubnetDefinition[];
  readonly extent: IntervalSet;
  readonly usable: IntervalSet;
  readonly automatic: IntervalSet;
  /** Number of addresses in `extent`: what free + allocated + retained + cooling + excluded add up to. */
  readonly size: bigint;
  /** Equal for two sets exactly if they give the same addresses with the same masks and gateways. */
  readonly fingerprint: string;
}

export function makeRangeSet(subnets: readonly SubnetDefinition[]): RangeSet {
  const [first] = subnets;
  if (first === undefined) throw new Error("a range set needs a subnet");
  const ordered = [...subnets].sort((a, b) => ((a.extent.first ?? 0n) < (b.extent.first ?? 0n) ? -1 : 1));
  const join = (part: (subnet: SubnetDefinition) => IntervalSet) => IntervalSet.join(ordered.map(part));
  const extent = join((subnet) => subnet.extent);
  let fingerprint: string | null = null;
  return {
    family: first.cidr.family,
    subnets: ordered,
    extent,
    usable: join((subnet) => subnet.usable),
    automatic: join((subnet) => subnet.automatic),
    size: extent.size,
    // Of the sets before what is reserved is set aside, nobody asks for it.
    get fingerprint() {
      fingerprint ??= hashOf(ordered.map(canonicalSubnet));
      return fingerprint;
    },
  };
}

/**
 * The position of an address: the subnet that counts it, else the first whose CIDR contains it. Two sets may share a
 * subnet, each with a range and a gateway of its own.
 */
export function placeOf(
  rangeSets: readonly RangeSet[],
  address: Address,
): { readonly index: number; readonly subnet: SubnetDefinition } | null {
  const find = (holds: (subnet: SubnetDefinition) => boolean) => {
    for (const [index, set] of rangeSets.entries()) {
      const subnet = set.family === address.family ? set.subnets.find(holds) : undefined;
      if (subnet !== undefined) return { index, subnet };
    }
    return null;
  };
  return find(({ extent }) => extent.contains(address.value)) ?? find(({ cidr }) => cidrContains(cidr, address));
}

/** Of each range set the first of them that lies in it; of those whose index is `taken` none. */
export function firstOfEachSet<T extends { readonly address: Address }>(
  rangeSets: readonly RangeSet[],
  all: readonly T[],
  taken: ReadonlySet<number> = new Set(),
): T[] {
  const seen = new Set(taken);
  return all.filter(({ address }) => {
    const index = placeOf(rangeSets, address)?.index;
    if (index === undefined || seen.has(index)) return false;
    seen.add(index);
    return true;
  });
}

/** Finds the subnets that count thousands of addresses; no address is counted by two. O(log subnets). */
export function countingSubnets(
  rangeSets: readonly RangeSet[],
): (address: Address) => { readonly index: number; readonly subnet: SubnetDefinition } | null {
  const ordered = (family: Family) => {
    const places = rangeSets.flatMap((set, index) =>
      set.family === family ? set.subnets.map((subnet) => ({ index, subnet, first: subnet.extent.first ?? 0n })) : [],
    );
    places.sort((a, b) => (a.first < b.first ? -1 : 1));
    return { places, firsts: places.map(({ first }) => first) };
  };
  const all = { 4: ordered(4), 6: ordered(6) };
  return ({ family, value }) => {
    const place = all[family].places[lastAtMost(all[family].firsts, value)];
    return place?.subnet.extent.contains(value) ? place : null;
  };
}

/**
 * The set from which one address of a part of a network is given: all subnets of a family, without what is outside.
 * What the network reserves may be given automatically there. null: no subnet has the family.
 */
export function narrowedRangeSet(
  rangeSets: readonly RangeSet[],
  family: Family,
  { within, automatic }: { readonly within: IntervalSet; readonly automatic: IntervalSet },
): RangeSet | null {
  const subnets = rangeSets.filter((set) => set.family === family).flatMap((set) => set.subnets);
  if (subnets.length === 0) return null;
  return makeRangeSet(
    subnets.map((subnet) => {
      const usable = subnet.usable.intersect(within);
      return { ...subnet, usable, automatic: usable.intersect(automatic) };
    }),
  );
}

function canonicalSubnet(subnet: SubnetDefinition): readonly string[] {
  return [
    formatCidr(subnet.cidr),
    subnet.gateway === null ? "" : formatAddress(subnet.gateway),
    canonicalIntervals(subnet.extent),
    canonicalIntervals(subnet.usable),
    canonicalIntervals(subnet.automatic),
  ];
}

function canonicalIntervals(set: IntervalSet): string {
  const runs: string[] = [];
  for (const { first, last } of set.intervals()) runs.push(`${first.toString(16)}-${last.toString(16)}`);
  return runs.join(",");
}

/** SHA-256 of plain JSON data, hexadecimal. The caller gives keys in a fixed order. */
export function hashOf(data: unknown): string {
  return createHash("sha256").update(JSON.stringify(data)).digest("hex");
}

/** A range set for messages: its subnets, with the range where it is not the whole subnet. */
export function describeRangeSet({ subnets }: RangeSet): string {
  const shown = subnets.slice(0, DESCRIBED_RUNS_MAX).map(describeSubnet).join(", ");
  return subnets.length > DESCRIBED_RUNS_MAX ? `${shown} and ${subnets.length - DESCRIBED_RUNS_MAX} more` : shown;
}

/** Runs of addresses for messages, such as `10.0.0.10-10.0.0.19, 10.0.0.40`; of very many the first ones. */
export function describeIntervals(set: IntervalSet, family: Family): string {
  const text = (value: bigint) => formatAddress({ family, value });
  const runs: string[] = [];
  for (const { first, last } of set.intervals()) {
    if (runs.length === DESCRIBED_RUNS_MAX) return `${runs.join(", ")}, …`;
    runs.push(first === last ? text(first) : `${text(first)}-${text(last)}`);
  }
  return runs.length === 0 ? "no address" : runs.join(", ");
}

function describeSubnet({ cidr, extent }: SubnetDefinition): string {
  const { first, last } = extent;
  if (first === null || last === null || (first === cidrFirst(cidr) && last === cidrLast(cidr))) {
    return formatCidr(cidr);
  }
  const text = (value: bigint) => formatAddress({ family: cidr.family, value });
  return `${formatCidr(cidr)} (${text(first)} to ${text(last)})`;
}
