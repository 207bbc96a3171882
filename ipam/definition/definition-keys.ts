import { excerpt } from "../copied-text.ts";
import { RefusalError, refuse } from "../refusals.ts";
import { AddressSyntaxError } from "../space/address.ts";
import { type AddressSpan, parseSpan } from "../space/address-span.ts";
import { isTooDeep, parseBoundedJson, TOO_DEEP } from "./bounded-json.ts";
import { declaredKey, foldAsGo, parseAsGo } from "./go-json.ts";
import { CONFIGURATION_KEYS, type Configuration, LIST_KEYS } from "./read-keys.ts";

/** `ipam.type` of Holdfast's networks, and the name of the plugin's executable. */
export const PLUGIN_TYPE = "holdfast-ipam";

/** Our own keys that are also read at the plugin's top level, where OVN-Kubernetes writes them. */
export const TOP_LEVEL_KEYS = [
  "subnets",
  "excludeSubnets",
  "reservedSubnets",
  "reservations",
  "gateway",
  "allowPersistentIPs",
  "cooldownSeconds",
  "retainSeconds",
  "statusWhenFull",
] as const;

/** Read only at the plugin's top level: KubeVirt's controller looks for it there, and makes no claim without it. */
export const PERSISTENCE_KEY = "allowPersistentIPs";

/** Every key allowed in the `ipam` block: ours, then host-local's. */
export const IPAM_KEYS = [
  "type",
  "subnets",
  "excludeSubnets",
  "reservedSubnets",
  "reservations",
  "gateway",
  "cooldownSeconds",
  "retainSeconds",
  "statusWhenFull",
  "routes",
  "dns",
  "metadata",
  "subnet",
  "rangeStart",
  "rangeEnd",
  "ranges",
  "resolvConf",
  "dataDir",
] as const;

type IpamKey = (typeof IPAM_KEYS)[number] | (typeof TOP_LEVEL_KEYS)[number];

/** A value of the configuration with its position, for messages: `ipam.ranges[0][1].subnet`. */
export interface ConfigValue {
  readonly key: string;
  readonly value: unknown;
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** Longest excerpt of a wrong value in a message, characters. */
const SHOWN_CHARS_MAX = 120;

/** Ends the parsing with CONFIG_INVALID. */
export function invalid(found: ConfigValue, remedy: string): never {
  throw new RefusalError(refuse("CONFIG_INVALID", { key: found.key, value: describeValue(found.value), remedy }));
}

/** The beginning of a value, as JSON. Of a long text no more is read, and what is nested too deeply is not shown. */
export function describeValue(value: unknown): string {
  if (value === undefined) return "missing";
  // Twice as much is enough to see that it goes on.
  const shown = typeof value === "string" ? value.slice(0, 2 * SHOWN_CHARS_MAX) : value;
  return isTooDeep(shown) ? TOO_DEEP : excerpt(JSON.stringify(shown) ?? String(shown), SHOWN_CHARS_MAX);
}

/** Go programs write unset values as null, and OVN-Kubernetes as an empty string: both mean the same as no key. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Longest configuration that is read, in characters: a body of the CNI's has no more. */
const CONF_CHARS_MAX = 4 << 20;

/**
 * Parses a configuration, single or a list, of a file or a definition: libcni reads it into a map and passes that on.
 * Throws RefusalError CONFIG_UNREADABLE.
 */
export function parseConfiguration(text: string): Configuration {
  return parsedObject(text, () => foldAsGo(parseBoundedJson(text, CONF_CHARS_MAX), LIST_KEYS));
}

/** Parses what a plugin gets on stdin, as the plugin does that passes it on. Throws RefusalError CONFIG_UNREADABLE. */
export function parsePassed(text: string): Configuration {
  return parsedObject(text, () => parseAsGo(text, CONF_CHARS_MAX, CONFIGURATION_KEYS));
}

function parsedObject(text: string, parse: () => unknown): JsonObject {
  let conf: unknown;
  try {
    conf = parse();
  } catch (error) {
    const mark = text.startsWith("\ufeff") ? "it begins with a byte order mark, which is invisible; remove it: " : "";
    throw new RefusalError(refuse("CONFIG_UNREADABLE", { problem: `${mark}${(error as Error).message}` }));
  }
  if (!isObject(conf)) {
    throw new RefusalError(refuse("CONFIG_UNREADABLE", { problem: "expected an object at its top level" }));
  }
  return conf;
}

export function readObject(found: ConfigValue, keys: readonly string[]): JsonObject {
  if (!isObject(found.value)) invalid(found, "expected an object");
  refuseUnknownKeys(found.value, found.key, keys);
  return found.value;
}

/** Refuses keys that are not in the list, and suggests the right spelling where only the case differs. */
export function refuseUnknownKeys(object: JsonObject, path: string, known: readonly string[]): void {
  for (const name of Object.keys(object)) {
    if (known.includes(name)) continue;
    const value = object[name];
    if (name === PERSISTENCE_KEY) {
      invalid(
        { key: `${path}.${name}`, value },
        `write ${name} at the plugin's top level, beside "type": KubeVirt's controller reads it only there`,
      );
    }
    const meant = declaredKey(known, name);
    const foreign = path === "ipam" ? foreignKeyRemedy(name) : null;
    const unknown = foreign ?? `no such key; known are ${known.join(", ")}`;
    invalid({ key: `${path}.${name}`, value }, meant === null ? unknown : `write ${meant}`);
  }
}

const RANGES = "write subnets, or subnet with rangeStart and rangeEnd";
const NOTHING = "it has no counterpart; remove it";

/** Keys of other IPAM plugins in the `ipam` block, whose they are, and what to do. */
const FOREIGN: readonly (readonly [plugin: string, remedy: string, ...keys: string[]])[] = [
  ["whereabouts", RANGES, "range", "ipRanges"],
  ["whereabouts", "write excludeSubnets", "exclude"],
  ["whereabouts", "write rangeStart", "range_start"],
  ["whereabouts", "write rangeEnd", "range_end"],
  [
    "whereabouts",
    NOTHING,
    ...["configuration_path", "kubernetes", "datastore", "log_file", "log_level", "network_name"],
    ...["enable_overlapping_ranges", "sleep_for_race", "node_slice_size", "leader_lease_duration"],
    ...["leader_renew_deadline", "leader_retry_period", "reconciler_cron_expression"],
    ...["etcd_host", "etcd_username", "etcd_password", "etcd_key_file", "etcd_cert_file", "etcd_ca_cert_file"],
  ],
  ["static", "write subnets, and ask for the address: args.cni.ips, or ips of a pod's annotation", "addresses"],
  ["Spiderpool", "write the subnets of the pools", "default_ipv4_ippool", "default_ipv6_ippool"],
  ["Spiderpool", NOTHING, "log_file_path", "log_file_max_size", "log_file_max_age", "log_file_max_count"],
  ["kube-ovn", "write the subnets: cidrBlock of its Subnet", "provider"],
  ["kube-ovn", NOTHING, "server_socket"],
  ["calico-ipam", "write the subnets of the pools", "ipv4_pools", "ipv6_pools"],
  ["calico-ipam", NOTHING, "assign_ipv4", "assign_ipv6"],
  ["dhcp", NOTHING, "daemonSocketPath", "request", "provide"],
];

const REMEDIES: ReadonlyMap<string, string> = new Map(
  FOREIGN.flatMap(([plugin, remedy, ...keys]) =>
    keys.map((key) => [key, `no such key; it is a key of ${plugin}: ${remedy}`]),
  ),
);

/** What a key of another IPAM plugin is called here, for a refusal; null: no plugin known here has it. */
function foreignKeyRemedy(key: string): string | null {
  const remedy = REMEDIES.get(key);
  if (remedy === undefined) return null;
  return remedy.endsWith(NOTHING) ? remedy : `${remedy}; holdfast convert -f FILE does so`;
}

export function readBoolean(found: ConfigValue): boolean {
  if (typeof found.value !== "boolean") invalid(found, "expected true or false, without quotes");
  return found.value;
}

export function readText(found: ConfigValue): string {
  if (typeof found.value !== "string") invalid(found, "expected a string");
  return found.value;
}

export function readWhole(found: ConfigValue, min: number, max: number): number {
  const { value } = found;
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max) {
    invalid(found, `expected a whole number from ${min} to ${max}`);
  }
  return value;
}

export function readList(found: ConfigValue, countMax: number): readonly ConfigValue[] {
  if (!Array.isArray(found.value)) invalid(found, "expected a list");
  if (found.value.length > countMax) tooMany(found.key, found.value.length, countMax);
  return found.value.map((value: unknown, i) => ({ key: `${found.key}[${i}]`, value }));
}

/** A list of strings: separated by commas as OVN-Kubernetes writes them, or a JSON list. */
export function readTexts(found: ConfigValue, countMax: number): readonly { key: string; value: string }[] {
  const items =
    typeof found.value === "string"
      ? partsOf(found.value).map((part) => ({ key: found.key, value: part }))
      : Array.isArray(found.value)
        ? readList(found, countMax)
        : invalid(found, "expected a string with commas between its parts, or a list of strings");
  if (items.length > countMax) tooMany(found.key, items.length, countMax);
  return items.map((item) => {
    const text = readText(item);
    if (text === "") invalid(found, "it has an empty part; remove the comma too many");
    return { key: item.key, value: text };
  });
}

/** A comma at the end is a separator that nothing follows, as in Go's lists. */
function partsOf(text: string): readonly string[] {
  const parts = text.split(",").map((part) => part.trim());
  return endsWithComma(text) ? parts.slice(0, -1) : parts;
}

export function endsWithComma(value: unknown): value is string {
  return typeof value === "string" && /[^,\s]\s*,\s*$/.test(value);
}

export function tooMany(key: string, count: number, countMax: number): never {
  const value = `a list of ${count} entries`;
  throw new RefusalError(refuse("CONFIG_INVALID", { key, value, remedy: `at most ${countMax} entries are taken` }));
}

/** Runs an address parser and turns its error into a refusal. */
export function readWith<T>(parse: (text: string) => T, found: ConfigValue): T {
  const text = readText(found);
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof AddressSyntaxError) invalid(found, error.message);
    throw error;
  }
}

/** A range of addresses where a network is expected; `describe` makes of it what to write. */
export function refuseSpan(found: ConfigValue, describe: (span: AddressSpan) => string): void {
  const span = typeof found.value === "string" ? parseSpan(found.value) : null;
  if (span !== null) invalid(found, describe(span));
}

/** Looks a key up in all places where it may be; null: it is in none. */
export type PickKey = (name: IpamKey) => ConfigValue | null;

/** Reads keys from the `ipam` block and from the plugin's top level. A key in both must have the same value. */
export function keyPicker(plugin: Configuration, ipam: JsonObject): PickKey {
  return (name) => {
    const inside = isGiven(ipam[name]) ? { key: `ipam.${name}`, value: ipam[name] } : null;
    const outside = isTopLevel(name) && isGiven(plugin[name]) ? { key: name, value: plugin[name] } : null;
    if (inside !== null && outside !== null && !requireEqual(inside.value, outside.value)) {
      invalid(inside, `the plugin's top level says ${name} ${describeValue(outside.value)}; keep one of the two`);
    }
    return inside ?? outside;
  };
}

function isTopLevel(name: string): name is (typeof TOP_LEVEL_KEYS)[number] {
  return (TOP_LEVEL_KEYS as readonly string[]).includes(name);
}

/** Whether two values of a key are equal. A string with commas equals the same list. */
export function requireEqual(a: unknown, b: unknown): boolean {
  const plain = (value: unknown) => JSON.stringify(typeof value === "string" ? partsOf(value) : value);
  return plain(a) === plain(b);
}
