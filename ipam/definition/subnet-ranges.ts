import { type Address, type Family, formatAddress } from "../space/address.ts";
import { type AddressSpan, networksOf } from "../space/address-span.ts";
import { type Cidr, cidrFirst, cidrLast, formatCidr } from "../space/cidr.ts";
import { IntervalSet } from "../space/interval-set.ts";
import { makeRangeSet, type RangeSet, type SubnetDefinition } from "../space/range-set.ts";
import { type AddressReader, readerFor, type WrittenNetwork } from "../space/written.ts";
import { type ConfigValue, invalid, type PickKey, readTexts, readWith, refuseSpan } from "./definition-keys.ts";
import { whyNoNetwork } from "./special-networks.ts";

/** A subnet as configured, by our keys or by host-local's, before exclusions. */
export interface SubnetRange {
  /** Its position in the configuration, for messages. */
  readonly found: ConfigValue;
  readonly cidr: Cidr;
  readonly gateway: Address | null;
  /** First and last address of the range: the whole CIDR, or host-local's rangeStart and rangeEnd. */
  readonly first: bigint;
  readonly last: bigint;
}

/** Excluded and reserved subnets of one network. Ten thousand are known to be in use; each daemon reads each change. */
const CUTOUTS_MAX = 10_000;

/** Longest prefix with special end addresses: in /31, /32, /127 and /128 every address is a host (RFC 3021, 6164). */
const PREFIX_WITH_ENDS_MAX = { 4: 30, 6: 126 } as const;

/** The addresses of a subnet that a host may have: not IPv4 network and broadcast, not IPv6 subnet-router anycast. */
export function hostAddresses(cidr: Cidr): { readonly first: bigint; readonly last: bigint } {
  const first = cidrFirst(cidr);
  const last = cidrLast(cidr);
  if (cidr.prefixLength > PREFIX_WITH_ENDS_MAX[cidr.family]) return { first, last };
  return { first: first + 1n, last: cidr.family === 4 ? last - 1n : last };
}

/** The gateway of a subnet that has one but names none: its first address, unless that is its only one. */
export function impliedGateway(cidr: Cidr): Address | null {
  const { first, last } = hostAddresses(cidr);
  return first === last ? null : { family: cidr.family, value: first };
}

export interface BuiltRangeSets {
  readonly rangeSets: readonly RangeSet[];
  readonly notes: readonly string[];
}

/**
 * Turns configured subnets into range sets: removes the addresses excluded by default, every gateway and
 * `excludeSubnets`, and sets `reservedSubnets` aside. Where exclusion and reservation overlap, the exclusion wins.
 */
export function buildRangeSets(sets: readonly (readonly SubnetRange[])[], pick: PickKey): BuiltRangeSets {
  const ranges = sets.flat();
  for (const { found, cidr } of ranges) {
    const why = whyNoNetwork(cidr);
    if (why !== null) invalid(found, why);
  }
  refuseOverlaps(ranges);
  const excluded = readCutouts(pick("excludeSubnets"), ranges, { mayBeOutside: ranges.length > 0 });
  const reserved = readCutouts(pick("reservedSubnets"), ranges, { mayBeOutside: false });
  const out = {
    4: joined(excluded, 4).union(gatewaysOf(ranges, 4)),
    6: joined(excluded, 6).union(gatewaysOf(ranges, 6)),
  };
  const aside = { 4: joined(reserved, 4), 6: joined(reserved, 6) };
  const rangeSets = sets.map((set) => {
    const subnets = set.map((range) => defineSubnet(range, out, aside));
    if (subnets.every((subnet) => subnet.usable.size === 0n)) {
      const [range] = set as [SubnetRange];
      invalid(range.found, "every address of it is excluded; exclude less or give a larger subnet");
    }
    return makeRangeSet(subnets);
  });
  refuseEmptyReservations(reserved, rangeSets);
  const notes = [...excluded, ...reserved].flatMap(({ notes: own }) => own);
  return { rangeSets, notes };
}

function refuseEmptyReservations(reserved: readonly Cutout[], rangeSets: readonly RangeSet[]): void {
  const usableOf = (family: Family) =>
    IntervalSet.join(rangeSets.filter((set) => set.family === family).map(({ usable }) => usable));
  const usable = { 4: usableOf(4), 6: usableOf(6) };
  for (const { found, cidr, first, last } of reserved) {
    if (usable[cidr.family].holdsAny(first, last)) continue;
    invalid(found, `no address of ${formatCidr(cidr)} can be given, so nothing of it can be reserved`);
  }
}

type PerFamily = Readonly<Record<Family, IntervalSet>>;

function defineSubnet(range: SubnetRange, excluded: PerFamily, reserved: PerFamily): SubnetDefinition {
  const { cidr, gateway } = range;
  const extent = IntervalSet.of(range.first, range.last);
  const hosts = hostAddresses(cidr);
  const usable = extent.intersect(IntervalSet.of(hosts.first, hosts.last)).subtract(excluded[cidr.family]);
  return { cidr, gateway, extent, usable, automatic: usable.subtract(reserved[cidr.family]) };
}

interface Cutout extends WrittenNetwork {
  readonly found: ConfigValue;
  /** With host bits, which are dropped; outside of the subnets, where it excludes nothing: both as in whereabouts. */
  readonly notes: readonly string[];
}

function readCutouts(
  found: ConfigValue | null,
  ranges: readonly SubnetRange[],
  { mayBeOutside }: { readonly mayBeOutside: boolean },
): readonly Cutout[] {
  if (found === null) return [];
  const subnets = ranges.map(({ cidr }) => ({ cidr, first: cidrFirst(cidr), last: cidrLast(cidr) }));
  const within = { 4: joined(subnets, 4), 6: joined(subnets, 6) };
  const items = readTexts(found, CUTOUTS_MAX);
  const reader = readerFor(items.length);
  const named = listSubnets(ranges);
  return items.map((item) => {
    refuseSpan(item, (span) => `write networks: ${listNetworks(span)}`);
    const network = readWith(reader.around, item);
    const { cidr, hasHostBits, first, last } = network;
    const notes = hasHostBits ? [`${item.key}: ${item.value} is read as ${formatCidr(cidr)}`] : [];
    if (!within[cidr.family].covers(first, last)) {
      if (!mayBeOutside) invalid(item, `it is not inside the subnets of the network (${named})`);
      notes.push(
        `${item.key}: ${item.value} is not inside the subnets of the network (${named}), and excludes nothing elsewhere`,
      );
    }
    return { ...network, found: item, notes };
  });
}

function refuseOverlaps(ranges: readonly SubnetRange[]): void {
  const ordered = [...ranges].sort(
    (a, b) => a.cidr.family - b.cidr.family || (a.first < b.first ? -1 : a.first > b.first ? 1 : 0),
  );
  for (const [i, range] of ordered.entries()) {
    const next = ordered[i + 1];
    if (next === undefined || next.cidr.family !== range.cidr.family || next.first > range.last) continue;
    const text = (value: bigint) => formatAddress({ family: next.cidr.family, value });
    const shared = text(next.first);
    invalid(next.found, `it overlaps ${formatCidr(range.cidr)} (${range.found.key}): both hold ${shared}`);
  }
}

function gatewaysOf(ranges: readonly SubnetRange[], family: Family): IntervalSet {
  const gateways = ranges.flatMap(({ gateway }) => (gateway?.family === family ? [gateway.value] : []));
  return IntervalSet.from(gateways.map((value) => ({ first: value, last: value })));
}

function joined(parts: readonly Pick<WrittenNetwork, "cidr" | "first" | "last">[], family: Family): IntervalSet {
  return IntervalSet.from(parts.filter(({ cidr }) => cidr.family === family));
}

/** The networks of a range for a message; of very many the first ones. */
function listNetworks(span: AddressSpan): string {
  const texts = networksOf(span).map(formatCidr);
  return texts.length > 16 ? `${texts.slice(0, 16).join(",")},…` : texts.join(",");
}

/** Reads a subnet. A range of addresses is refused with the keys for one. */
export function readSubnet(found: ConfigValue, reader: AddressReader): WrittenNetwork {
  refuseSpan(found, ({ family, first, last }) => {
    const [start, end] = [first, last].map((value) => formatAddress({ family, value }));
    return `write a range as ipam.subnet with "rangeStart": "${start}" and "rangeEnd": "${end}"`;
  });
  return readWith(reader.subnet, found);
}

/** Subnets for a message; only the first few are named. */
export function listSubnets(ranges: readonly SubnetRange[]): string {
  if (ranges.length === 0) return "none are given";
  const texts = ranges.slice(0, 8).map(({ cidr }) => formatCidr(cidr));
  return ranges.length > 8 ? `${texts.join(", ")}, …` : texts.join(", ");
}
