import { hash } from "node:crypto";
import { type Address, addressBytes } from "../ipam/space/address.ts";
import { NODE_LABELS } from "./objects.ts";

const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/;
/** RFC 1123 subdomain: every part between dots begins and ends with a letter or digit. */
const OBJECT_NAME = /^(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
/** RFC 1123 label, as names of namespaces are. */
const NAMESPACE_NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
/** Ends like a shortened name: used as it is, it could equal the shortened name of another network. */
const LOOKS_SHORTENED = /-[0-9a-f]{16}$/;
const READABLE_CHARS = 40;
const HASH_CHARS = 16;
const ALLOCATION_NAME = /^([0-9a-f]{16})-([0-9a-f]+)$/;

/** `namespace/name` of any object, or the name alone. */
export function fullNameOf(object: {
  readonly metadata?: { readonly namespace?: string; readonly name?: string };
}): string {
  const { namespace, name } = object?.metadata ?? {};
  return namespace === undefined ? `${name}` : `${namespace}/${name}`;
}

export function isNamespaceName(text: string): boolean {
  return NAMESPACE_NAME.test(text);
}

/** The first to create it has the address. The network is hashed: its name may be any; the address in hex, no mask. */
export function allocationName(network: string, address: Address): string {
  return `${sha256(network)}-${addressBytes(address).subarray(1).toString("hex")}`;
}

/** The common prefix of the names of a network's allocations. Two networks never share it, whatever their labels. */
export function allocationNamePrefix(network: string): string {
  return sha256(network);
}

/** The prefix of an allocation's name; null when it is not a name of ours. */
export function prefixOfAllocationName(name: string): string | null {
  return ALLOCATION_NAME.exec(name)?.[1] ?? null;
}

/** Whether two names of allocations are those of one address in two networks. */
export function nameSameAddress(one: string, other: string): boolean {
  const address = hexOf(one);
  return address !== null && address === hexOf(other) && one !== other;
}

/** The address of an allocation's name; null when it is not a name of ours. */
export function addressOfAllocationName(name: string): Address | null {
  const hex = hexOf(name);
  const family = hex?.length === 8 ? 4 : 6;
  if (hex === null || (family === 6 && hex.length !== 32)) return null;
  return { family, value: BigInt(`0x${hex}`) };
}

function hexOf(name: string): string | null {
  return ALLOCATION_NAME.exec(name)?.[2] ?? null;
}

/** The name of a network's IPNetwork: its own name if Kubernetes allows it and no other network's can be equal. */
export function networkObjectName(network: string): string {
  return OBJECT_NAME.test(network) && !LOOKS_SHORTENED.test(network)
    ? network
    : shortened(network.toLowerCase(), network, /[^a-z0-9]+/g);
}

/** Itself, or its beginning and a hash where it is too long, not allowed (422 otherwise) or looks like one with it. */
export function labelValue(text: string): string {
  return LABEL_VALUE.test(text) && !LOOKS_SHORTENED.test(text) ? text : shortened(text, text, /[^A-Za-z0-9]+/g);
}

/** Selects objects by a label that stands for a text. Check `spec` of what it finds: anybody may edit labels. */
export function labelSelector(label: string, text: string): string {
  return `${label}=${labelValue(text)}`;
}

/** The key of the label of what a node uses, by which the node finds it; its value is empty. */
export function nodeLabel(node: string): string {
  return NODE_LABELS + sha256(node);
}

function shortened(readable: string, text: string, notAllowed: RegExp): string {
  const start = readable
    .slice(0, READABLE_CHARS)
    .replaceAll(notAllowed, "-")
    .replace(/^-+|-+$/g, "");
  return `${start === "" ? "x" : start}-${sha256(text)}`;
}

function sha256(text: string): string {
  return hash("sha256", text).slice(0, HASH_CHARS);
}

/** Of an object's name, which is a DNS subdomain (RFC 1123). */
export const NAME_CHARS_MAX = 253;
