import { type Address, parseAddress, sameAddress } from "../ipam/address.ts";
import { parseInterfaceAddress } from "../ipam/cidr.ts";
import { isObject, isTooDeep, TOO_DEEP } from "../ipam/definition-keys.ts";
import { isObjectName, type ObjectName } from "./claim-reference.ts";
import type { PodView } from "./pod-view.ts";

/** What Multus reports of a pod's interfaces: a list of `{name, interface, ips, mac}`, addresses without mask. */
export const NETWORK_STATUS_ANNOTATION = "k8s.v1.cni.cncf.io/network-status";
/** What OVN-Kubernetes gave a pod: a map of `{ip_addresses, mac_address}` by NAD, addresses with mask. */
export const POD_NETWORKS_ANNOTATION = "k8s.ovn.org/pod-networks";

/** An address that a living pod has, whoever gave it. */
export interface HeldAddress {
  /** null: the cluster's default network, which no NAD names. */
  readonly nad: ObjectName | null;
  /** "" where only OVN-Kubernetes speaks, which does not say it. */
  readonly interface: string;
  readonly address: Address;
  /** null: not said. */
  readonly prefixLength: number | null;
  readonly mac: string | null;
}

interface Found {
  readonly held: HeldAddress[];
  readonly problems: string[];
}

/** Enough to see what is wrong; an annotation has room for thousands. */
const PROBLEMS_MAX = 20;

/**
 * The addresses that a pod has according to its annotations (projectPod with `addresses`); none for one that has
 * ended. What both annotations tell is one entry. An entry that cannot be read is skipped and named in `problems`.
 */
export function statusAddresses(pod: PodView): { held: HeldAddress[]; problems: string[] } {
  if (pod.terminal) return { held: [], problems: [] };
  const found: Found = { held: [], problems: [] };
  readNetworkStatus(pod.annotations[NETWORK_STATUS_ANNOTATION], found);
  readPodNetworks(pod.annotations[POD_NETWORKS_ANNOTATION], found);
  return { held: found.held, problems: found.problems.slice(0, PROBLEMS_MAX) };
}

function readNetworkStatus(text: string | undefined, found: Found): void {
  const list = parse(text, NETWORK_STATUS_ANNOTATION, found);
  if (list === undefined) return;
  if (!Array.isArray(list)) {
    found.problems.push(`${NETWORK_STATUS_ANNOTATION}: a list is wanted`);
    return;
  }
  for (const [index, entry] of list.entries()) {
    const place = `${NETWORK_STATUS_ANNOTATION}[${index}]`;
    const nad = isObject(entry) ? readNad(entry.name) : undefined;
    if (!isObject(entry) || nad === undefined) {
      found.problems.push(`${place}: an object with name, interface and ips is wanted`);
      continue;
    }
    const interfaceName = typeof entry.interface === "string" ? entry.interface : "";
    addAll(
      entry.ips,
      { place: `${place}.ips`, nad, interface: interfaceName, mac: textOf(entry.mac) },
      found,
    );
  }
}

function readPodNetworks(text: string | undefined, found: Found): void {
  const map = parse(text, POD_NETWORKS_ANNOTATION, found);
  if (map === undefined) return;
  if (!isObject(map)) {
    found.problems.push(`${POD_NETWORKS_ANNOTATION}: an object is wanted`);
    return;
  }
  for (const [key, entry] of Object.entries(map)) {
    const place = `${POD_NETWORKS_ANNOTATION}["${key.slice(0, 520)}"]`;
    const nad = readNad(key);
    if (!isObject(entry) || nad === undefined) {
      found.problems.push(`${place}: "namespace/name" with an object is wanted`);
      continue;
    }
    const ips = entry.ip_addresses ?? (entry.ip_address === undefined ? [] : [entry.ip_address]);
    addAll(
      ips,
      { place: `${place}.ip_addresses`, nad, interface: "", mac: textOf(entry.mac_address) },
      found,
    );
  }
}

type Source = Omit<HeldAddress, "address" | "prefixLength"> & { readonly place: string };

function addAll(ips: unknown, { place, ...source }: Source, found: Found): void {
  if (ips === undefined || ips === null) return;
  if (!Array.isArray(ips)) {
    found.problems.push(`${place}: a list of addresses is wanted`);
    return;
  }
  for (const ip of ips) {
    try {
      add({ ...source, ...readAddress(String(ip)) }, found.held);
    } catch (error) {
      found.problems.push(`${place}: ${(error as Error).message}`);
    }
  }
}

/** The second source knows the mask, the first one the interface: of an address in both, one entry is made. */
function add(entry: HeldAddress, held: HeldAddress[]): void {
  const index = held.findIndex(
    (other) =>
      other.nad?.namespace === entry.nad?.namespace &&
      other.nad?.name === entry.nad?.name &&
      sameAddress(other.address, entry.address),
  );
  const known = held[index];
  if (known === undefined) held.push(entry);
  else {
    const { prefixLength, mac } = entry;
    held[index] = {
      ...known,
      prefixLength: known.prefixLength ?? prefixLength,
      mac: known.mac ?? mac,
    };
  }
}

function readAddress(text: string): { address: Address; prefixLength: number | null } {
  return text.includes("/")
    ? parseInterfaceAddress(text)
    : { address: parseAddress(text), prefixLength: null };
}

/**
 * `namespace/name`, with `/<number>` where a pod has several interfaces on one NAD. A single word is the name of the
 * default network. undefined: neither.
 */
function readNad(text: unknown): ObjectName | null | undefined {
  if (typeof text !== "string" || text.length > 520) return undefined;
  if (!text.includes("/")) return null;
  const [, namespace = "", name = ""] = /^([^/]+)\/([^/]+)(?:\/\d+)?$/.exec(text) ?? [];
  return isObjectName(namespace) && isObjectName(name) ? { namespace, name } : undefined;
}

function parse(text: string | undefined, annotation: string, found: Found): unknown {
  if (text === undefined || text.trim() === "") return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (!isTooDeep(value)) return value ?? undefined;
    found.problems.push(`${annotation}: ${TOO_DEEP}`);
  } catch (error) {
    found.problems.push(`${annotation}: ${(error as Error).message}`);
  }
  return undefined;
}

function textOf(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}
