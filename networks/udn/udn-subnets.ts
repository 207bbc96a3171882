import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { AddressSyntaxError } from "../../ipam/space/address.ts";
import { type Cidr, parseNetworkAround } from "../../ipam/space/cidr.ts";

/** Of either topology that can be primary; what cannot be read is left out. */
export function udnSubnets(spec: JsonObject): Cidr[] {
  return [spec.layer2, spec.layer3]
    .filter(isObject)
    .flatMap((section) => listOf(section.subnets).flatMap((one) => readCidr(isObject(one) ? one.cidr : one) ?? []));
}

/** A list of CIDRs in a section of a specification; what cannot be read is left out. */
export function cidrsAt(section: JsonObject, key: string): Cidr[] {
  return listOf(section[key]).flatMap((one) => readCidr(one) ?? []);
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Host bits are dropped, as OVN-Kubernetes does. */
function readCidr(value: unknown): Cidr | null {
  if (typeof value !== "string" || !value.includes("/")) return null;
  try {
    return parseNetworkAround(value).cidr;
  } catch (error) {
    if (error instanceof AddressSyntaxError) return null;
    throw error;
  }
}
