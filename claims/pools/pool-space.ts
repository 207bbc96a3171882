import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Address, AddressSyntaxError, type Family, familyBits, formatAddress } from "../../ipam/space/address.ts";
import { parseSpan } from "../../ipam/space/address-span.ts";
import { type Interval, IntervalSet } from "../../ipam/space/interval-set.ts";
import { describeRangeSet, type RangeSet } from "../../ipam/space/range-set.ts";
import { type AddressReader, readerFor } from "../../ipam/space/written.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";

/** Why a pool gives no address now: reasons of its condition Ready. */
export type WaitingReason =
  | "NameTaken"
  | "NetworkChanged"
  | "NetworkNotFound"
  | "DefinitionInvalid"
  | "DefinitionConflict"
  | "FamilyUnclear"
  | "RangeOutsideNetwork"
  | "GatewayInvalid"
  | "PreallocationInvalid"
  | "Deleting"
  | "Paused"
  | "NotImported"
  | "Recovering";

export interface PoolProblem {
  readonly reason: WaitingReason;
  /** Key, value and remedy. */
  readonly message: string;
}

export interface PoolSpace {
  readonly family: Family;
  /** All of them, also those that are preallocated. */
  readonly offered: IntervalSet;
  /** Given to claims that request none. */
  readonly usable: IntervalSet;
  /** Given on request: where the pool has no ranges, those in the network's reservedSubnets too. */
  readonly requestable: IntervalSet;
  /** By the name of the claim that gets it. Nobody else does. */
  readonly preallocated: ReadonlyMap<string, Address>;
  /** In place of the subnets' gateways; null: theirs. */
  readonly gateway: Address | null;
}

/** The addresses, and what is wrong with the pool's keys; null: nothing. Without a space it has no addresses at all. */
export interface PoolSpaceReading {
  readonly space: PoolSpace | null;
  readonly problem: PoolProblem | null;
}

/** `avoided`: addresses that others use without holding them; the pool's own preallocations prevail. */
export function readPoolSpace(
  pool: AddressPoolView,
  definition: NetworkDefinition,
  avoided: readonly Address[] = [],
): PoolSpaceReading {
  const family = readFamily(pool, definition);
  if (typeof family === "object") return { space: null, problem: family };
  const sets = definition.rangeSets.filter((set) => set.family === family);
  const network = { name: definition.name, family, sets, usable: union(sets, "usable") };
  const ranges = readRanges(pool, network);
  if ("reason" in ranges) return { space: null, problem: ranges };
  const gateway = readGateway(pool, family);
  if (gateway !== null && "reason" in gateway) return { space: null, problem: gateway };
  const spared = gateway === null ? IntervalSet.EMPTY : IntervalSet.of(gateway.value, gateway.value);
  const requestable = (ranges.all ? network.usable : ranges.set).subtract(spared);
  const automatic = (ranges.all ? union(sets, "automatic") : ranges.set).subtract(spared);
  const { preallocated, problem } = readPreallocations(pool, family, requestable);
  const values = [...preallocated.values()].map(({ value }) => ({ first: value, last: value }));
  const others = IntervalSet.from(values);
  const ofOthers = avoided.filter((one) => one.family === family);
  const used = IntervalSet.from(ofOthers.map(({ value }) => ({ first: value, last: value })));
  const space = {
    family,
    offered: automatic.subtract(used).union(others),
    usable: automatic.subtract(used).subtract(others),
    requestable: requestable.subtract(used).subtract(others),
    preallocated,
    gateway,
  };
  return { space, problem };
}

interface NetworkPart {
  readonly name: string;
  readonly family: Family;
  readonly sets: readonly RangeSet[];
  readonly usable: IntervalSet;
}

function union(sets: readonly RangeSet[], part: "extent" | "usable" | "automatic"): IntervalSet {
  return sets.map((set) => set[part]).reduce((all, one) => all.union(one), IntervalSet.EMPTY);
}

function readFamily({ family }: AddressPoolView, { name, rangeSets }: NetworkDefinition): Family | PoolProblem {
  const families = [...new Set(rangeSets.map((set) => set.family))].sort();
  const [only, second] = families;
  if (family !== null && families.includes(family)) return family;
  if (family === null && only !== undefined && second === undefined) return only;
  const message =
    family === null
      ? `spec.family is missing: network ${name} has IPv4 and IPv6 addresses; set it to 4 or 6`
      : `spec.family is ${family}: network ${name} has IPv${only} addresses only; set it to ${only}, or remove it`;
  return { reason: "FamilyUnclear", message };
}

/** `all`: the pool has no ranges of its own. */
function readRanges(
  { ranges }: AddressPoolView,
  network: NetworkPart,
): { readonly all: boolean; readonly set: IntervalSet } | PoolProblem {
  if (ranges === null || ranges.length === 0) return { all: true, set: network.usable };
  const extent = union(network.sets, "extent");
  const runs: Interval[] = [];
  const reader = readerFor(ranges.length);
  for (const [i, text] of ranges.entries()) {
    const range = parseRange(text, reader);
    const problem = typeof range === "string" ? range : whyOutside(range, extent, network);
    if (problem !== null) return outside(`spec.ranges[${i}]`, text, problem);
    runs.push(range as PoolRange);
  }
  return { all: false, set: IntervalSet.from(runs).intersect(network.usable) };
}

interface PoolRange extends Interval {
  readonly family: Family;
}

function whyOutside({ family, first, last }: PoolRange, extent: IntervalSet, network: NetworkPart): string | null {
  if (family !== network.family)
    return `the pool gives IPv${network.family} addresses; remove it, or set spec.family to ${family}`;
  if (!extent.covers(first, last))
    return `it is not inside ${describeSets(network.sets)} of network ${network.name}; name addresses of it`;
  if (network.usable.holdsAny(first, last)) return null;
  return `network ${network.name} never gives an address of it: network, broadcast and gateway addresses and excludeSubnets; name others`;
}

/** An address, `first-last` or a CIDR; or what is wrong with it. */
function parseRange(text: string, reader: AddressReader): PoolRange | string {
  const span = /\.\.|-\d+$/.test(text) ? parseSpan(text, reader) : null;
  if (span !== null) {
    const [first, last] = [span.first, span.last].map((value) => formatAddress({ family: span.family, value }));
    return `write ${first}-${last}`;
  }
  try {
    if (text.includes("/")) {
      const { cidr, first, last } = reader.subnet(text);
      return { family: cidr.family, first, last };
    }
    const [first, last, more] = text.split("-").map((part) => reader.address(part.trim()));
    if (first === undefined || more !== undefined) return "expected an address, a range a-b, or a CIDR";
    const end = last ?? first;
    if (end.family !== first.family) return "its ends are of two address families; write two ranges";
    if (end.value < first.value) return `it ends before it begins; write ${text.split("-").reverse().join("-")}`;
    return { family: first.family, first: first.value, last: end.value };
  } catch (error) {
    if (error instanceof AddressSyntaxError) return error.message;
    throw error;
  }
}

function outside(key: string, value: string, remedy: string): PoolProblem {
  return { reason: "RangeOutsideNetwork", message: `${key} is ${JSON.stringify(value)}: ${remedy}` };
}

function readGateway({ gateway }: AddressPoolView, family: Family): Address | PoolProblem | null {
  if (gateway === null) return null;
  const address = readAddress(gateway, family, readerFor(1));
  if (typeof address === "object") return address;
  return { reason: "GatewayInvalid", message: `spec.gateway is ${JSON.stringify(gateway)}: ${address}` };
}

function readPreallocations(
  { preallocations }: AddressPoolView,
  family: Family,
  requestable: IntervalSet,
): { readonly preallocated: ReadonlyMap<string, Address>; readonly problem: PoolProblem | null } {
  const claimOf = new Map<bigint, string>();
  const preallocated = new Map<string, Address>();
  const problems: string[] = [];
  const reader = readerFor(preallocations.size);
  for (const [claim, text] of preallocations) {
    const address = readAddress(text, family, reader);
    const problem = typeof address === "string" ? address : whyNotPreallocated(address, claimOf, requestable);
    if (problem !== null) problems.push(`spec.preallocations.${claim} is ${JSON.stringify(text)}: ${problem}`);
    else {
      preallocated.set(claim, address as Address);
      claimOf.set((address as Address).value, claim);
    }
  }
  const [first, ...others] = problems;
  if (first === undefined) return { preallocated, problem: null };
  const message = others.length === 0 ? first : `${first} (and ${others.length} more)`;
  return { preallocated, problem: { reason: "PreallocationInvalid", message } };
}

function whyNotPreallocated(
  address: Address,
  claimOf: ReadonlyMap<bigint, string>,
  requestable: IntervalSet,
): string | null {
  const other = claimOf.get(address.value);
  if (other !== undefined)
    return `${formatAddress(address)} is preallocated to claim ${other} already; give each claim an address of its own`;
  if (requestable.contains(address.value)) return null;
  return "the pool does not give this address: name one of its ranges that is no network, broadcast or gateway address";
}

/** The address; or what is wrong with it. */
function readAddress(text: string, family: Family, reader: AddressReader): Address | string {
  try {
    const address = reader.address(text);
    if (address.family === family) return address;
    return `the pool gives IPv${family} addresses of ${familyBits(family)} bits; name one`;
  } catch (error) {
    if (error instanceof AddressSyntaxError) return error.message;
    throw error;
  }
}

function describeSets(sets: readonly RangeSet[]): string {
  return sets.map(describeRangeSet).join(", ");
}
