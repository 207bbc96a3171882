import { ANNOTATION_CHARS_MAX, parseBoundedJson } from "../../../ipam/definition/bounded-json.ts";
import { isObject } from "../../../ipam/definition/definition-keys.ts";
import { foldAsGo } from "../../../ipam/definition/go-json.ts";
import { POD_NETWORKS_KEYS } from "../../../ipam/definition/read-keys.ts";
import { parseAddress } from "../../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";

/** A pod's addresses on one network, from OVN-Kubernetes. */
export type PodNetwork = Readonly<NonNullable<ReturnType<typeof readEntry>>>;

/** Addresses and gateways of one network of a pod: more than any pod has. */
const TEXTS_MAX = 64;
/** The key of the cluster's default network. */
const DEFAULT = "default";

/** `k8s.ovn.org/pod-networks` without the default network. Half of an entry would be a guess: it is skipped. */
export function readPodNetworks(text: string | undefined): PodNetwork[] {
  const map = parse(text);
  return Object.entries(map).flatMap(([key, entry]) => {
    if (key === DEFAULT || !isObject(entry)) return [];
    const network = readEntry(key, entry);
    return network === null ? [] : [network];
  });
}

function readEntry(key: string, entry: Readonly<Record<string, unknown>>) {
  // A pod with several interfaces on one NAD has a number after the name.
  const [, nad] = /^([^/]+\/[^/]+)(?:\/\d+)?$/.exec(key) ?? [];
  if (nad === undefined) return null;
  try {
    return {
      /** Of a NAD, `namespace/name`: networks in several namespaces may have NADs of one name. */
      nad,
      addresses: textsOf(entry.ip_addresses ?? entry.ip_address).map(parseInterfaceAddress),
      gateways: textsOf(entry.gateway_ips ?? entry.gateway_ip).map(parseAddress),
      mac: typeof entry.mac_address === "string" && entry.mac_address !== "" ? entry.mac_address : null,
      primary: entry.role === "primary",
    };
  } catch {
    return null;
  }
}

function parse(text: string | undefined): Readonly<Record<string, unknown>> {
  if (text === undefined) return {};
  try {
    const value = foldAsGo(parseBoundedJson(text, ANNOTATION_CHARS_MAX), POD_NETWORKS_KEYS);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function textsOf(value: unknown): string[] {
  if (value === undefined || value === null || value === "") return [];
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (list.length > TEXTS_MAX) throw new RangeError(`more than ${TEXTS_MAX} addresses`);
  return list.map(String);
}
