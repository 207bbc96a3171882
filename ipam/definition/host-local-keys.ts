import { type Address, formatAddress } from "../space/address.ts";
import { type Cidr, cidrContains, formatCidr } from "../space/cidr.ts";
import { type AddressReader, readerFor } from "../space/written.ts";
import {
  type ConfigValue,
  invalid,
  isGiven,
  type JsonObject,
  type PickKey,
  readList,
  readObject,
  readWith,
  tooMany,
} from "./definition-keys.ts";
import { RANGE_SETS_MAX, refuseUnfitGateway } from "./own-keys.ts";
import { impliedGateway, readSubnet, type SubnetRange } from "./subnet-ranges.ts";

/** Ranges of one configuration, each of which takes time to read. host-local has no limit; few are known to be used. */
const RANGES_MAX = 512;

const RANGE_KEYS = ["subnet", "rangeStart", "rangeEnd", "gateway"] as const;
/** nerdctl writes it beside rangeStart and rangeEnd, which say the same (nerdctl#5068). */
const NERDCTL_KEY = "ipRange";

/**
 * Reads host-local's keys with host-local's meaning: `runtimeConfig.ipRanges`, then `subnet` with its companions, then
 * `ranges` make up the range sets in that order. A range without a gateway gets its first address as one. Without
 * rangeStart or rangeEnd the range extends to that end of its subnet.
 */
export function readHostLocalRanges(
  pick: PickKey,
  runtimeRanges: ConfigValue | null,
): readonly (readonly SubnetRange[])[] {
  const sets: SubnetRange[][] = [];
  if (runtimeRanges !== null) sets.push(...readRangeSets(runtimeRanges));
  const lone = pick("subnet");
  if (lone !== null) sets.push([readLoneRange(pick, lone)]);
  else refuseWithoutSubnet(pick);
  const ranges = pick("ranges");
  if (ranges !== null) sets.push(...readRangeSets(ranges));
  if (sets.length > RANGE_SETS_MAX) tooMany(ranges?.key ?? "runtimeConfig.ipRanges", sets.length, RANGE_SETS_MAX);
  const count = sets.flat().length;
  if (count > RANGES_MAX) tooMany(`${ranges?.key ?? "runtimeConfig.ipRanges"}[]`, count, RANGES_MAX);
  return sets;
}

function readLoneRange(pick: PickKey, lone: ConfigValue): SubnetRange {
  const object: Record<string, unknown> = {};
  for (const name of RANGE_KEYS) object[name] = pick(name)?.value;
  return readRange(object, lone.key.slice(0, -".subnet".length), readerFor(1));
}

/** host-local ignores these beside `ranges`; an ignored gateway address would be allocated to a pod. */
function refuseWithoutSubnet(pick: PickKey): void {
  for (const name of ["rangeStart", "rangeEnd", "gateway"] as const) {
    const found = pick(name);
    if (found !== null) invalid(found, `there is no subnet beside it; write ${name} into the range it belongs to`);
  }
}

function readRangeSets(found: ConfigValue): SubnetRange[][] {
  const sets = readList(found, RANGE_SETS_MAX);
  const filled = sets.filter(({ value }) => !isEmptyList(value));
  const count = sets.flatMap(({ value }) => value).length;
  if (count > RANGES_MAX) tooMany(`${found.key}[]`, count, RANGES_MAX);
  const reader = readerFor(count);
  return (filled.length > 0 ? filled : sets).map((set) => {
    if (!Array.isArray(set.value)) invalid(set, 'each range set is a list itself: [[{"subnet": "10.0.0.0/24"}]]');
    const ranges = readList(set, RANGES_MAX).map((range) =>
      readRange(readObject(range, [...RANGE_KEYS, NERDCTL_KEY]), range.key, reader),
    );
    const [first] = ranges;
    if (first === undefined) invalid(set, "a range set needs at least one range");
    const stranger = ranges.find(({ cidr }) => cidr.family !== first.cidr.family);
    if (stranger !== undefined) {
      invalid(stranger.found, `${formatCidr(first.cidr)} of the same set is IPv${first.cidr.family}; use a set each`);
    }
    return ranges;
  });
}

/** A range set that a program left empty beside others: a remark, and no ranges. */
export function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function readRange(object: JsonObject, path: string, reader: AddressReader): SubnetRange {
  const found: ConfigValue = { key: `${path}.subnet`, value: object.subnet };
  if (!isGiven(found.value)) invalid(found, 'expected a network, such as "10.0.0.0/24"');
  const network = readSubnet(found, reader);
  const { cidr } = network;
  const inSubnet = (name: "rangeStart" | "rangeEnd") =>
    readInSubnet({ key: `${path}.${name}`, value: object[name] }, cidr, reader);
  const start = inSubnet("rangeStart");
  const end = inSubnet("rangeEnd");
  const first = start?.value ?? network.first;
  const last = end?.value ?? network.last;
  if (first > last) {
    const startText = formatAddress({ family: cidr.family, value: first });
    invalid({ key: `${path}.rangeEnd`, value: object.rangeEnd }, `it comes before rangeStart ${startText}; swap them`);
  }
  readNerdctlRange({ key: `${path}.${NERDCTL_KEY}`, value: object[NERDCTL_KEY] }, [start, end], reader);
  const gateway = readGateway({ key: `${path}.gateway`, value: object.gateway }, cidr, reader);
  return { found, cidr, gateway: gateway ?? impliedGateway(cidr), first, last };
}

function readNerdctlRange(found: ConfigValue, ends: readonly (Address | null)[], reader: AddressReader): void {
  if (!isGiven(found.value)) return;
  const { cidr } = readWith(reader.subnet, found);
  if (ends.every((end) => end !== null && cidrContains(cidr, end))) return;
  invalid(found, "rangeStart and rangeEnd count; write both, inside of it, or remove it");
}

function readGateway(found: ConfigValue, cidr: Cidr, reader: AddressReader): Address | null {
  if (!isGiven(found.value)) return null;
  const gateway = readWith(reader.address, found);
  refuseUnfitGateway(found, gateway, { cidr });
  return gateway;
}

function readInSubnet(found: ConfigValue, cidr: Cidr, reader: AddressReader): Address | null {
  if (!isGiven(found.value)) return null;
  const address = readWith(reader.address, found);
  if (!cidrContains(cidr, address)) invalid(found, `it is not inside ${formatCidr(cidr)}`);
  return address;
}
