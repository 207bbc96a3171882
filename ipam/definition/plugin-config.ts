import { type Address, formatAddress } from "../space/address.ts";
import { type Cidr, cidrContains, formatCidr } from "../space/cidr.ts";
import { COOLDOWN_SECONDS_DEFAULT } from "../space/cooldown.ts";
import { hashOf, type RangeSet } from "../space/range-set.ts";
import { type AddressReader, readerFor } from "../space/written.ts";
import {
  type ConfigValue,
  endsWithComma,
  IPAM_KEYS,
  invalid,
  isGiven,
  isObject,
  type JsonObject,
  keyPicker,
  type PickKey,
  PLUGIN_TYPE,
  readBoolean,
  readList,
  readObject,
  readText,
  readWhole,
  readWith,
  refuseUnknownKeys,
  tooMany,
} from "./definition-keys.ts";
import { readMetadata } from "./metadata-key.ts";
import type { NetworkDefinition } from "./network-definition.ts";
import { RANGE_SETS_MAX, readOwnSubnets, refuseUnfitGateway } from "./own-keys.ts";
import type { Configuration } from "./read-keys.ts";
import { addressCount, readReservations, withReserved } from "./reservations.ts";
import { canonicalRoutes, type Dns, readDns, readRoutes } from "./routes-and-dns.ts";
import { isLinkLocal } from "./special-networks.ts";
import { type BuiltRangeSets, buildRangeSets, impliedGateway, readSubnet, type SubnetRange } from "./subnet-ranges.ts";

/** Longest cool-down, one week: for longer, use a reservation. */
const COOLDOWN_SECONDS_MAX = 604_800;
/** 30 days, longer than a VM that is restored or created again is missing; for longer, its claim is kept. */
const RETAIN_SECONDS_MAX = 2_592_000;
/** Longest network name, characters: what a Kubernetes object name can hold. */
const NETWORK_NAME_CHARS_MAX = 253;

/** Entries of the lists of addresses together: each takes microseconds, and an event loop is kept for 50 ms at most. */
const LISTED_MAX = 12_000;

/** Throws RefusalError CONFIG_INVALID with the key, the value and the expected form. */
export function parsePluginConfig(conf: Configuration): NetworkDefinition {
  const name = readNetworkName({ key: "name", value: conf.name });
  const ipam = readIpamBlock(conf);
  const pick = keyPicker(conf, ipam);
  refuseTooManyListed(pick);
  const { rangeSets: all, notes } = readRangeSets(conf, pick);
  const reservations = readOr(pick("reservations"), null, (found) => readReservations(found, all));
  const rangeSets = reservations === null ? all : withReserved(all, reservations);
  const metadata = readOr(pick("metadata"), null, readMetadata);
  const means = {
    name,
    rangeSets,
    ...(reservations === null ? {} : { reservations }),
    // Without ranges there is nobody who could ask.
    metadata: rangeSets.length === 0 ? null : metadata,
    routes: readRoutes(pick("routes")),
    ...readResolver(pick),
    cooldownSeconds: readOr(pick("cooldownSeconds"), COOLDOWN_SECONDS_DEFAULT, (found) =>
      readWhole(found, 0, COOLDOWN_SECONDS_MAX),
    ),
    retainSeconds: readOr(pick("retainSeconds"), 0, (found) => readWhole(found, 0, RETAIN_SECONDS_MAX)),
    allowPersistentIPs: readOr(pick("allowPersistentIPs"), false, readBoolean),
    statusWhenFull: readOr(pick("statusWhenFull"), "ok" as const, readStatusWhenFull),
  };
  return {
    ...means,
    ...(pick("metadata") !== null || rangeSets.length === 0 ? {} : { isMetadataUnset: true }),
    ...readDataDir(pick),
    fingerprint: fingerprintOf(means),
    notes: [...notes, ...notesOn(conf, rangeSets), ...notesOnLists(pick)],
  };
}

function refuseTooManyListed(pick: PickKey): void {
  const lists = [pick("excludeSubnets"), pick("reservedSubnets")].map((found) => found?.value);
  const subnets = lists.map((value) => (typeof value === "string" ? value.split(",") : value));
  const counts = subnets.map((value) => (Array.isArray(value) ? value.length : 0));
  const count = [...counts, addressCount(pick("reservations")?.value)].reduce((sum, one) => sum + one, 0);
  if (count > LISTED_MAX) tooMany("excludeSubnets, reservedSubnets and reservations together", count, LISTED_MAX);
}

/** Whether a plugin configuration has ranges. Without, its network may be defined elsewhere (`holdfast apply`). */
export function hasRanges(conf: Configuration): boolean {
  const ipam = isObject(conf.ipam) ? conf.ipam : {};
  const given = [ipam.subnets, conf.subnets, ipam.subnet, ipam.ranges, runtimeRangesOf(conf)?.value];
  return given.some((value) => isGiven(value) && !(Array.isArray(value) && value.length === 0));
}

/** The rule of the CNI specification, section 1. */
export function isNetworkName(text: string): boolean {
  return /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/.test(text) && text.length <= NETWORK_NAME_CHARS_MAX;
}

function readNetworkName(found: ConfigValue): string {
  if (!isGiven(found.value)) invalid({ key: found.key, value: undefined }, "every network needs a name");
  const name = readText(found);
  if (!isNetworkName(name)) {
    invalid(
      found,
      `a network name begins with a letter or digit, goes on with letters, digits, "_", "." and "-", and has at most ${NETWORK_NAME_CHARS_MAX} characters`,
    );
  }
  return name;
}

function readIpamBlock(conf: Configuration): JsonObject {
  const { ipam } = conf;
  if (!isObject(ipam)) invalid({ key: "ipam", value: ipam }, `expected an object: {"type": "${PLUGIN_TYPE}", …}`);
  if (ipam.type !== PLUGIN_TYPE) invalid({ key: "ipam.type", value: ipam.type }, `expected "${PLUGIN_TYPE}"`);
  refuseUnknownKeys(ipam, "ipam", IPAM_KEYS);
  return ipam;
}

function readRangeSets(conf: Configuration, pick: PickKey): BuiltRangeSets {
  const runtimeRanges = runtimeRangesOf(conf);
  const own = pick("subnets");
  const hostLocal = pick("subnet") ?? pick("ranges") ?? pick("rangeStart") ?? pick("rangeEnd") ?? runtimeRanges;
  if (own !== null && hostLocal !== null) {
    invalid(own, `${hostLocal.key} gives ranges too; keep one of the two ways`);
  }
  const sets = own !== null ? readOwnSubnets(pick, nodeIsGateway(conf)) : readHostLocalRanges(pick, runtimeRanges);
  const without = conf.type === "ptp" ? sets.flat().find(({ gateway }) => gateway === null) : undefined;
  if (without !== undefined) {
    invalid(without.found, "ptp needs a gateway, and there is no room for one; write gateway, inside or outside of it");
  }
  return buildRangeSets(sets, pick);
}

/** Does the plugin put the gateway's address on the node: bridge on its bridge, ptp on the node's end? */
export function nodeIsGateway(conf: Configuration): boolean {
  return conf.isGateway === true || conf.isDefaultGateway === true || conf.type === "ptp";
}

/** The `ipRanges` capability, through which a runtime adds ranges: part of what host-local means. */
function runtimeRangesOf(conf: Configuration): ConfigValue | null {
  const value = isObject(conf.runtimeConfig) ? conf.runtimeConfig.ipRanges : undefined;
  return isGiven(value) ? { key: "runtimeConfig.ipRanges", value } : null;
}

function readResolver(pick: PickKey): { readonly dns: Dns; readonly resolvConf?: string } {
  const dns = readDns(pick("dns"));
  const found = pick("resolvConf");
  if (found === null) return { dns };
  const resolvConf = readText(found);
  if (!resolvConf.startsWith("/")) invalid(found, "expected an absolute path");
  if (Object.keys(dns).length > 0) invalid(found, "ipam.dns gives the DNS too; keep one of the two");
  return { dns, resolvConf };
}

/** Where host-local kept its addresses. A relative path would mean another directory for every process. */
function readDataDir(pick: PickKey): { readonly dataDir?: string } {
  const found = pick("dataDir");
  if (found === null) return {};
  const path = readText(found);
  if (!path.startsWith("/") || path.includes("\0")) invalid(found, "an absolute path is required");
  return { dataDir: path.length > 1 ? path.replace(/\/+$/, "") : path };
}

function readStatusWhenFull(found: ConfigValue): "ok" | "fail" {
  if (found.value !== "ok" && found.value !== "fail") invalid(found, 'expected "ok" or "fail"');
  return found.value;
}

function readOr<T>(found: ConfigValue | null, otherwise: T, read: (found: ConfigValue) => T): T {
  return found === null ? otherwise : read(found);
}

export function redefined(definition: NetworkDefinition, rangeSets: readonly RangeSet[]): NetworkDefinition {
  const { fingerprint: _, notes, ...means } = definition;
  const changed = { ...means, rangeSets };
  return { ...changed, fingerprint: fingerprintOf(changed), notes };
}

function fingerprintOf(means: Omit<NetworkDefinition, "fingerprint" | "notes">): string {
  const { rangeSets, routes, dns, resolvConf = null, metadata, reservations, ...plain } = means;
  return hashOf([
    plain.name,
    rangeSets.map((set) => set.fingerprint),
    canonicalRoutes(routes),
    dns,
    resolvConf,
    plain.cooldownSeconds,
    plain.retainSeconds,
    plain.allowPersistentIPs,
    plain.statusWhenFull,
    metadata && [metadata.tokens],
    // A definition without them has the fingerprint of one that knows no such key.
    ...(reservations === undefined ? [] : [reservations.canonical]),
  ]);
}

/** Parts of lists that are empty, which other programs write too. */
function notesOnLists(pick: PickKey): readonly string[] {
  const notes = (["subnets", "excludeSubnets", "reservedSubnets", "gateway"] as const).flatMap((name) => {
    const found = pick(name);
    return endsWithComma(found?.value) ? [`${found?.key} ends with a comma, which counts for nothing`] : [];
  });
  const ranges = pick("ranges");
  const isSome = Array.isArray(ranges?.value) && ranges.value.some(isEmptyList);
  return isSome ? [...notes, `${ranges?.key} has a range set without ranges, which counts for nothing`] : notes;
}

function notesOn(conf: Configuration, rangeSets: readonly RangeSet[]): readonly string[] {
  const notes: string[] = [];
  if (isGiven(conf.routes)) notes.push("routes at the plugin's top level is not read: write it inside ipam");
  if (rangeSets.some((set) => set.automatic.size === 0n)) {
    notes.push("a subnet is reserved as a whole: its addresses are given only when asked for");
  }
  for (const { cidr, gateway } of rangeSets.flatMap(({ subnets }) => subnets)) {
    if (gateway === null || cidrContains(cidr, gateway) || isLinkLocal(gateway)) continue;
    notes.push(`gateway ${formatAddress(gateway)} is outside of its subnet ${formatCidr(cidr)}`);
  }
  return notes;
}

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
function readHostLocalRanges(pick: PickKey, runtimeRanges: ConfigValue | null): readonly (readonly SubnetRange[])[] {
  const sets: SubnetRange[][] = [];
  if (runtimeRanges !== null) sets.push(...readHostLocalSets(runtimeRanges));
  const lone = pick("subnet");
  if (lone !== null) sets.push([readLoneRange(pick, lone)]);
  else refuseWithoutSubnet(pick);
  const ranges = pick("ranges");
  if (ranges !== null) sets.push(...readHostLocalSets(ranges));
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

function readHostLocalSets(found: ConfigValue): SubnetRange[][] {
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
function isEmptyList(value: unknown): boolean {
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
