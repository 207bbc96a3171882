import { AddressSyntaxError, familyBits, formatAddress } from "../space/address.ts";
import { parseSpan } from "../space/address-span.ts";
import { cidrContains, formatCidr, networkOf } from "../space/cidr.ts";
import { type AddressReader, readerFor, WRITTEN } from "../space/written.ts";
import { isGiven, isObject, type JsonObject, PLUGIN_TYPE } from "./definition-keys.ts";

/** A CNI configuration with Holdfast's keys, and remarks for the operator about what is not the same. */
export interface Converted {
  readonly conf: JsonObject;
  readonly notes: readonly string[];
}

type Range = Partial<Record<"subnet" | "rangeStart" | "rangeEnd" | "gateway", unknown>>;
interface ConvertedIpam {
  readonly ipam: JsonObject;
  /** Keys beside the `ipam` block. */
  readonly plugin?: JsonObject;
}
type Convert = (ipam: JsonObject, note: (text: string) => void) => ConvertedIpam;

const CONVERTERS: Readonly<Record<string, Convert>> = {
  "host-local": (ipam) => ({ ipam }),
  whereabouts: convertWhereabouts,
  static: convertStatic,
};

export const CONVERTED_TYPES = Object.keys(CONVERTERS).join(", ");

/**
 * A single plugin or a list whose IPAM is host-local, whereabouts or static, with Holdfast's keys; null: it has none
 * of them. What cannot be read is left as it is: reading the result as a definition shows why.
 */
export function convertConfig(conf: JsonObject): Converted | null {
  const notes: string[] = [];
  const convert = (plugin: unknown): unknown => {
    if (!isObject(plugin) || !isObject(plugin.ipam)) return plugin;
    const { type, ...ipam } = plugin.ipam;
    const converter = typeof type === "string" && Object.hasOwn(CONVERTERS, type) ? CONVERTERS[type] : undefined;
    if (converter === undefined) return plugin;
    const note = (text: string) => notes.push(`${type}: ${text}`);
    const converted = converter(ipam, note);
    return { ...plugin, ...converted.plugin, ipam: { type: PLUGIN_TYPE, ...converted.ipam } };
  };
  const changed = Array.isArray(conf.plugins)
    ? { ...conf, plugins: conf.plugins.map(convert) }
    : (convert(conf) as JsonObject);
  return JSON.stringify(changed) === JSON.stringify(conf) ? null : { conf: changed, notes };
}

/** Keys that mean the same in all of them. */
const COMMON = ["routes", "dns"];

function convertWhereabouts(ipam: JsonObject, note: (text: string) => void): ConvertedIpam {
  const { range, range_start, range_end, exclude, ipRanges, gateway, ...rest } = ipam;
  const first = isGiven(range) ? [{ range, range_start, range_end, exclude }] : [];
  const entries = [...first, ...(Array.isArray(ipRanges) ? ipRanges.filter(isObject) : [])];
  const ranges = entries.map(rangeOf);
  const excluded = entries.flatMap((entry, i) => {
    const texts: readonly unknown[] = Array.isArray(entry.exclude) ? entry.exclude : [];
    const reader = readerFor(texts.length);
    return texts.flatMap((text) => {
      const network = networkText(text, reader);
      if (isInside(network, ranges[i]?.subnet, reader)) return network;
      note(`exclude ${JSON.stringify(text)} is left out: it is not inside ${String(ranges[i]?.subnet)}`);
      return [];
    });
  });
  const excludeSubnets = excluded.length === 0 ? {} : { excludeSubnets: [...new Set(excluded)] };
  const common = keepCommon(rest, note);
  if (ranges.every(({ rangeStart, rangeEnd }) => rangeStart === undefined && rangeEnd === undefined)) {
    const gateways = isGiven(gateway) ? { gateway } : {};
    return {
      ipam: {
        subnets: ranges.map(({ subnet }) => subnet).join(","),
        ...excludeSubnets,
        ...gateways,
        ...common,
      },
    };
  }
  const at = isGiven(gateway) ? ranges.findIndex(({ subnet }) => isOfFamily(gateway, subnet)) : -1;
  const sets = ranges.map((one, i) => [i === at ? { ...one, gateway } : one]);
  for (const [one] of sets) {
    if (one?.gateway !== undefined) continue;
    note(
      `no gateway is named for ${String(one?.subnet)}: with rangeStart and rangeEnd its first address is answered as one, and not given`,
    );
  }
  return { ipam: { ranges: sets, ...excludeSubnets, ...common } };
}

/** whereabouts drops host bits, and takes `a-b/24` for rangeStart, rangeEnd and their network. */
function rangeOf({ range, range_start, range_end }: JsonObject): Range {
  const span = typeof range === "string" ? parseSpan(range) : null;
  const ends: Range = {
    ...(isGiven(range_start) ? { rangeStart: range_start } : {}),
    ...(isGiven(range_end) ? { rangeEnd: range_end } : {}),
  };
  if (span === null || span.prefixLength === null) return { subnet: networkText(range), ...ends };
  const { family, first, last, prefixLength } = span;
  return {
    subnet: formatCidr(networkOf({ family, value: last }, prefixLength)),
    rangeStart: formatAddress({ family, value: first }),
    rangeEnd: formatAddress({ family, value: last }),
    ...ends,
  };
}

/** static gives every container the same addresses: here they are asked for, and given to one container at a time. */
function convertStatic(ipam: JsonObject, note: (text: string) => void): ConvertedIpam {
  const { addresses, ...rest } = ipam;
  const common = keepCommon(rest, note);
  const entries = Array.isArray(addresses) ? addresses.filter(isObject) : [];
  if (entries.length === 0) {
    note('it names no addresses: write subnets, such as "192.0.2.0/24"; what a pod asks for is inside of them');
    return { ipam: common };
  }
  const ips = entries.map(({ address }) => address);
  const gateways = entries.flatMap(({ gateway }) => (isGiven(gateway) ? [gateway] : []));
  note(
    "each address is given to one container at a time; the others of its subnet, to nobody who does not ask for one",
  );
  const subnets = [...new Set(ips.map((ip) => networkText(ip)))].join(",");
  const gateway = gateways.length === 0 ? {} : { gateway: gateways.join(",") };
  return {
    plugin: { args: { cni: { ips } } },
    ipam: { subnets, reservedSubnets: subnets, ...gateway, ...common },
  };
}

function keepCommon(rest: JsonObject, note: (text: string) => void): JsonObject {
  const kept: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(rest)) {
    if (COMMON.includes(key)) kept[key] = value;
    else note(`${key} has no counterpart and is left out`);
  }
  return kept;
}

/** The network around what is written, an address alone as /32 or /128; what cannot be read stays as it is. */
function networkText(text: unknown, reader: AddressReader = WRITTEN): string {
  const written = String(text);
  return readOr(written, () => {
    if (written.includes("/")) return formatCidr(reader.around(written).cidr);
    const address = reader.address(written);
    return formatCidr(networkOf(address, familyBits(address.family)));
  });
}

function isInside(network: string, subnet: unknown, reader: AddressReader): boolean {
  return readOr(true, () => {
    const { cidr, first } = reader.around(network);
    return cidrContains(reader.around(String(subnet)).cidr, { family: cidr.family, value: first });
  });
}

function isOfFamily(gateway: unknown, subnet: unknown): boolean {
  return readOr(false, () => WRITTEN.address(String(gateway)).family === WRITTEN.around(String(subnet)).cidr.family);
}

function readOr<T>(otherwise: T, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof AddressSyntaxError) return otherwise;
    throw error;
  }
}
