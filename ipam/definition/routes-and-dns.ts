import { formatAddress, parseAddress } from "../space/address.ts";
import { formatCidr, parseNetworkAround } from "../space/cidr.ts";
import {
  type ConfigValue,
  invalid,
  isGiven,
  readList,
  readObject,
  readText,
  readTexts,
  readWhole,
  readWith,
} from "./definition-keys.ts";

/** Linux's main table; routes of others belong to rules that a guest is not told of. */
export const MAIN_TABLE = 254;

/** One route of the CNI result, canonical and ready to be written as JSON. The numeric fields exist since CNI 1.1.0. */
export interface Route {
  readonly dst: string;
  readonly gw?: string;
  readonly mtu?: number;
  readonly advmss?: number;
  readonly priority?: number;
  readonly table?: number;
  readonly scope?: number;
}

/** The `dns` of the CNI result, ready to be written as JSON. */
export interface Dns {
  readonly nameservers?: readonly string[];
  readonly domain?: string;
  readonly search?: readonly string[];
  readonly options?: readonly string[];
}

/** Routes of one network, and entries of one DNS list: more than a kernel or resolver is expected to keep. */
const ROUTES_MAX = 1_000;
const DNS_ENTRIES_MAX = 64;

/** Largest values of the numeric fields of a route: what netlink carries. */
const ROUTE_NUMBERS = {
  mtu: 0xffff_ffff,
  advmss: 0xffff_ffff,
  priority: 0xffff_ffff,
  table: 0xffff_ffff,
  scope: 255,
} as const;
const ROUTE_KEYS = ["dst", "gw", ...Object.keys(ROUTE_NUMBERS)];
const DNS_KEYS = ["nameservers", "domain", "search", "options"] as const;

export function readRoutes(found: ConfigValue | null): readonly Route[] {
  return found === null ? [] : readList(found, ROUTES_MAX).map(readRoute);
}

function readRoute(found: ConfigValue): Route {
  const object = readObject(found, ROUTE_KEYS);
  const dstFound = { key: `${found.key}.dst`, value: object.dst };
  if (!isGiven(object.dst)) invalid(dstFound, 'expected a network, such as "0.0.0.0/0"');
  if (object.dst === "default") invalid(dstFound, "write 0.0.0.0/0, or ::/0 for IPv6");
  // The example on host-local's page has host bits; the kernel takes none.
  const dst = readWith(parseNetworkAround, dstFound).cidr;
  const route: { -readonly [Key in keyof Route]: Route[Key] } = { dst: formatCidr(dst) };
  if (isGiven(object.gw)) {
    const gwFound = { key: `${found.key}.gw`, value: object.gw };
    const gw = readWith(parseAddress, gwFound);
    if (gw.family !== dst.family) invalid(gwFound, `the route to ${formatCidr(dst)} needs an IPv${dst.family} gateway`);
    route.gw = formatAddress(gw);
  }
  for (const name of Object.keys(ROUTE_NUMBERS) as (keyof typeof ROUTE_NUMBERS)[]) {
    if (!isGiven(object[name])) continue;
    route[name] = readWhole({ key: `${found.key}.${name}`, value: object[name] }, 0, ROUTE_NUMBERS[name]);
  }
  return route;
}

/** For comparing: which order routes are written in means nothing. */
export function canonicalRoutes(routes: readonly Route[]): string[] {
  return routes.map((route) => JSON.stringify(route)).sort();
}

export function readDns(found: ConfigValue | null): Dns {
  if (found === null) return {};
  const object = readObject(found, DNS_KEYS);
  const dns: { -readonly [Key in keyof Dns]: Dns[Key] } = {};
  const list = (name: (typeof DNS_KEYS)[number]) => {
    const entry = { key: `${found.key}.${name}`, value: object[name] };
    if (!Array.isArray(entry.value)) invalid(entry, "expected a list of strings");
    return readTexts(entry, DNS_ENTRIES_MAX);
  };
  if (isGiven(object.nameservers)) {
    dns.nameservers = list("nameservers").map((item) => formatAddress(readWith(parseAddress, item)));
  }
  if (isGiven(object.domain)) dns.domain = readText({ key: `${found.key}.domain`, value: object.domain });
  if (isGiven(object.search)) dns.search = list("search").map(({ value }) => value);
  if (isGiven(object.options)) dns.options = list("options").map(({ value }) => value);
  return dns;
}
