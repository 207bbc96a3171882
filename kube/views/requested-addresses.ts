import { ANNOTATION_CHARS_MAX, parseBoundedJson } from "../../ipam/definition/bounded-json.ts";
import { invalid, isObject } from "../../ipam/definition/definition-keys.ts";
import { parseRequestedAddress, type RequestedAddress } from "../../ipam/definition/requested-address.ts";
import { ADDRESSES_MAX } from "../../ipam/definition/reservations.ts";
import { hashedInterface } from "./vmi-view.ts";

/** What a VM asks for, by its names of networks, as people and Forklift write it; KubeVirt copies it to the pod. */
export const ADDRESSES_ANNOTATION = "network.kubevirt.io/addresses";

/** KubeVirt's limit for networks of a VM, with room to spare. */
const NETWORKS_MAX = 256;
/** A secondary interface of a launcher pod by KubeVirt's hashed scheme. */
const HASHED_INTERFACE = /^pod[0-9a-f]{11}$/;

/** By the name of the network in the VM; in the order of the annotation. */
export type RequestedByNetwork = ReadonlyMap<string, readonly RequestedAddress[]>;

/** `{"blue": ["192.168.10.50", "fd10::50"]}`; undefined, "": nothing. Throws RefusalError CONFIG_INVALID. */
export function readRequestedAddresses(text: string | undefined): RequestedByNetwork {
  const key = `annotation ${ADDRESSES_ANNOTATION}`;
  const requested = new Map<string, readonly RequestedAddress[]>();
  if (text === undefined || text.trim() === "") return requested;
  const networks = Object.entries(parse(text, key));
  if (networks.length > NETWORKS_MAX)
    invalid({ key, value: `${networks.length} networks` }, `expected at most ${NETWORKS_MAX}`);
  for (const [network, list] of networks) {
    const place = `${key}, ${network}`;
    if (!Array.isArray(list) || list.length > ADDRESSES_MAX)
      invalid({ key: place, value: list }, `expected a list of at most ${ADDRESSES_MAX} addresses`);
    requested.set(
      network,
      list.map((one) => readAddress(one, place)),
    );
  }
  return requested;
}

function parse(text: string, key: string): Readonly<Record<string, unknown>> {
  const wanted = 'expected the addresses of each network in JSON, as {"blue": ["192.168.10.50"]}';
  let value: unknown;
  try {
    value = parseBoundedJson(text, ANNOTATION_CHARS_MAX);
  } catch (error) {
    invalid({ key, value: text }, `${wanted}: ${(error as Error).message}`);
  }
  if (!isObject(value)) invalid({ key, value: text }, wanted);
  return value;
}

function readAddress(text: unknown, key: string): RequestedAddress {
  const one = parseRequestedAddress(text, key);
  if (one.prefixLength !== null)
    invalid({ key, value: text }, "expected an address without prefix length: the network's subnet has it");
  return one;
}

/**
 * Which network of the VM an interface of its launcher pod is for, by the name alone: null where that is none of these,
 * or the interface is numbered (`net1`) or the primary one, which the VMI tells (interfaceBehind).
 */
export function networkOfHashed(names: Iterable<string>, podInterface: string): string | null {
  for (const name of names) if (hashedInterface(name) === podInterface) return name;
  return null;
}

/** Whether the name of an interface says that its launcher pod has hashed ones. */
export function isHashedInterface(podInterface: string): boolean {
  return HASHED_INTERFACE.test(podInterface);
}
