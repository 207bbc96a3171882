import { createHash } from "node:crypto";
import { type Address, addressBytes } from "../../ipam/address.ts";

/** What the API server takes as the value of a label. */
const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/;
/** RFC 1123 subdomain: every part between dots begins and ends with a letter or digit. */
const OBJECT_NAME = /^(?=.{1,63}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;
const READABLE_CHARS = 40;
const HASH_CHARS = 16;

/**
 * The name of the object that stands for (network, address): whoever creates it first has the address. The network's
 * part is a hash, so that any network name will do; the address is in hex without its mask. Never parsed back.
 */
export function allocationName(network: string, address: Address): string {
  return `${sha256(network)}-${addressBytes(address).subarray(1).toString("hex")}`;
}

/** The name of a network's IPNetwork object: its own name where Kubernetes takes it. */
export function networkObjectName(network: string): string {
  return OBJECT_NAME.test(network) ? network : shortened(network.toLowerCase(), network, /[^a-z0-9]+/g);
}

/** A label value that stands for a text: itself, or its beginning and a hash where it is too long or not allowed (422 otherwise). */
export function labelValue(text: string): string {
  return LABEL_VALUE.test(text) ? text : shortened(text, text, /[^A-Za-z0-9]+/g);
}

function shortened(readable: string, text: string, notAllowed: RegExp): string {
  const start = readable
    .slice(0, READABLE_CHARS)
    .replaceAll(notAllowed, "-")
    .replace(/^-+|-+$/g, "");
  return `${start === "" ? "x" : start}-${sha256(text)}`;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, HASH_CHARS);
}
