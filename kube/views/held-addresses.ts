import { ANNOTATION_CHARS_MAX, lengthProblem, parseBoundedJson } from "../../ipam/definition/bounded-json.ts";
import { type ConfigValue, describeValue, isGiven, isObject } from "../../ipam/definition/definition-keys.ts";
import { foldAsGo, type Keys } from "../../ipam/definition/go-json.ts";
import { isInterfaceName } from "../../ipam/definition/interface-name.ts";
import { canonicalMac } from "../../ipam/definition/mac.ts";
import { NETWORK_STATUS_KEYS, POD_NETWORKS_KEYS } from "../../ipam/definition/read-keys.ts";
import { type Address, parseAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { isObjectName, type ObjectName } from "./claim-reference.ts";
import { NETWORK_STATUS_ANNOTATION, POD_NETWORKS_ANNOTATION, type PodView } from "./pod-view.ts";

/** An address that a living pod has, from whatever plugin. */
export interface PodAddress {
  /** null: a network of the nodes' own configuration, which no NAD names. */
  readonly nad: ObjectName | null;
  /** Such a network's name; null: it has a NAD, or the name is not reported. */
  readonly network: string | null;
  /** "" if only OVN-Kubernetes reports it, which does not name the interface. */
  readonly interface: string;
  readonly address: Address;
  /** null: not reported. */
  readonly prefixLength: number | null;
  readonly mac: string | null;
}

export type StatusAddresses = Readonly<Pick<StatusReading, "held" | "problems" | "cut">>;

/** Enough to see the problem; an annotation has room for thousands. */
const PROBLEMS_MAX = 20;
/** Of one pod, from both annotations, which have room for 12,000, for anybody to fill: a pod has two per interface. */
export const POD_ADDRESSES_MAX = 512;

const NO_INTERFACE_NAME = "no name of an interface, which has at most 15 characters, without / and blanks";
/** Of another link than Ethernet, up to the 20 octets of InfiniBand. */
const LINK_ADDRESS = /^[0-9a-f]{2}(?:[:-][0-9a-f]{2}){0,19}$/i;

/** Parses the addresses of each view once: a view is of one version of its pod. */
export class StatusAddressReader {
  readonly #read = new WeakMap<PodView, StatusAddresses>();

  of(pod: PodView): StatusAddresses {
    const read = this.#read.get(pod) ?? statusAddresses(pod);
    this.#read.set(pod, read);
    return read;
  }
}

/** Of a view with `addresses`; none once it has ended. An address in both is one entry; malformed: `problems`. */
export function statusAddresses(pod: PodView): StatusAddresses {
  if (pod.terminal) return { held: [], problems: [], cut: false };
  const found = new StatusReading();
  readNetworkStatus(pod.annotations[NETWORK_STATUS_ANNOTATION], found);
  readPodNetworks(pod.annotations[POD_NETWORKS_ANNOTATION], found);
  const { held, problems, cut } = found;
  return { held, problems, cut };
}

class StatusReading {
  readonly held: PodAddress[] = [];
  /** What could not be read, a sentence each. */
  readonly problems: string[] = [];
  /** The pod has more addresses than are read: it may have any other one. */
  cut = false;
  /** Positions in `held`, by NAD and address. */
  readonly #places = new Map<string, number>();
  #readCount = 0;

  problem(text: string): void {
    if (this.problems.length < PROBLEMS_MAX) this.problems.push(text);
  }

  mayReadAnother(): boolean {
    this.#readCount += 1;
    if (this.#readCount <= POD_ADDRESSES_MAX) return true;
    if (!this.cut) this.problem(`more than ${POD_ADDRESSES_MAX} addresses of one pod; the others are not read`);
    this.cut = true;
    return false;
  }

  /** The second source knows the mask, the first one the interface: of an address in both, one entry is made. */
  add(entry: PodAddress): void {
    const { nad, network, address, prefixLength, mac } = entry;
    const key = `${nad === null ? network : `${nad.namespace}/${nad.name}`} ${address.family} ${address.value}`;
    const place = this.#places.get(key);
    const known = place === undefined ? undefined : this.held[place];
    if (place === undefined || known === undefined) {
      this.#places.set(key, this.held.length);
      this.held.push(entry);
    } else {
      this.held[place] = {
        ...known,
        prefixLength: known.prefixLength ?? prefixLength,
        mac: known.mac ?? mac,
      };
    }
  }
}

function readNetworkStatus(text: string | undefined, found: StatusReading): void {
  const list = parse(text, NETWORK_STATUS_ANNOTATION, NETWORK_STATUS_KEYS, found);
  if (list === undefined) return;
  if (!Array.isArray(list)) {
    found.problem(`${NETWORK_STATUS_ANNOTATION}: expected a list`);
    return;
  }
  for (const [index, entry] of list.entries()) {
    const place = `${NETWORK_STATUS_ANNOTATION}[${index}]`;
    const nad = isObject(entry) ? readNad(entry.name) : undefined;
    if (!isObject(entry) || nad === undefined) {
      found.problem(`${place}: expected an object with name, interface and ips`);
      continue;
    }
    const interfaceName = textOf(entry.interface) ?? "";
    if (interfaceName !== "" && !isInterfaceName(interfaceName))
      found.problem(`${place}.interface: ${NO_INTERFACE_NAME}`);
    const network = nad === null ? textOf(entry.name) : null;
    const source = {
      place: `${place}.ips`,
      nad,
      network,
      interface: nameOf(interfaceName),
      mac: macOf({ key: `${place}.mac`, value: entry.mac }, found),
    };
    addAll(entry.ips, source, found);
  }
}

function readPodNetworks(text: string | undefined, found: StatusReading): void {
  const map = parse(text, POD_NETWORKS_ANNOTATION, POD_NETWORKS_KEYS, found);
  if (map === undefined) return;
  if (!isObject(map)) {
    found.problem(`${POD_NETWORKS_ANNOTATION}: expected an object`);
    return;
  }
  for (const [key, entry] of Object.entries(map)) {
    const place = `${POD_NETWORKS_ANNOTATION}["${key.slice(0, 520)}"]`;
    const nad = readNad(key);
    if (!isObject(entry) || nad === undefined) {
      found.problem(`${place}: expected "namespace/name" with an object`);
      continue;
    }
    const ips = entry.ip_addresses ?? (entry.ip_address === undefined ? [] : [entry.ip_address]);
    addAll(
      ips,
      {
        place: `${place}.ip_addresses`,
        nad,
        network: null,
        interface: "",
        mac: macOf({ key: `${place}.mac_address`, value: entry.mac_address }, found),
      },
      found,
    );
  }
}

type Source = Omit<PodAddress, "address" | "prefixLength"> & { readonly place: string };

function addAll(ips: unknown, { place, ...source }: Source, found: StatusReading): void {
  if (ips === undefined || ips === null) return;
  if (!Array.isArray(ips)) {
    found.problem(`${place}: expected a list of addresses`);
    return;
  }
  for (const ip of ips) {
    if (!found.mayReadAnother()) return;
    try {
      found.add({ ...source, ...readAddress(String(ip)) });
    } catch (error) {
      found.problem(`${place}: ${(error as Error).message}`);
    }
  }
}

function readAddress(text: string): { address: Address; prefixLength: number | null } {
  return text.includes("/") ? parseInterfaceAddress(text) : { address: parseAddress(text), prefixLength: null };
}

/** `namespace/name`, `/<number>` for several interfaces on it; null: a word, the default one; undefined: neither. */
function readNad(text: unknown): ObjectName | null | undefined {
  if (typeof text !== "string" || text.length > 520) return undefined;
  if (!text.includes("/")) return null;
  const [, namespace = "", name = ""] = /^([^/]+)\/([^/]+)(?:\/\d+)?$/.exec(text) ?? [];
  return isObjectName(namespace) && isObjectName(name) ? { namespace, name } : undefined;
}

function parse(
  text: string | undefined,
  annotation: string,
  keys: Keys | readonly [Keys],
  found: StatusReading,
): unknown {
  if (text === undefined || text.trim() === "") return undefined;
  // Whatever it lists, the pod may have it.
  found.cut ||= lengthProblem(text, ANNOTATION_CHARS_MAX) !== null;
  try {
    return foldAsGo(parseBoundedJson(text, ANNOTATION_CHARS_MAX), keys) ?? undefined;
  } catch (error) {
    found.problem(`${annotation}: ${(error as Error).message}`);
  }
  return undefined;
}

/** "": not a name that a record can keep. */
function nameOf(text: string): string {
  return isInterfaceName(text) ? text : "";
}

/** A malformed MAC is a problem, and left out; the address still counts. */
function macOf({ key, value }: ConfigValue, found: StatusReading): string | null {
  if (!isGiven(value)) return null;
  const text = typeof value === "string" ? value : "";
  const mac = canonicalMac(text) ?? (LINK_ADDRESS.test(text) ? text : null);
  if (mac === null) found.problem(`${key} is ${describeValue(value)}: no MAC address`);
  return mac;
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
