import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import type { Cidr } from "../../ipam/space/cidr.ts";
import { readUdnCidr } from "./udn-fields.ts";

/** The subnets of a network's specification, of either topology that can be primary; what cannot be read is left out. */
export function udnSubnets(spec: JsonObject): Cidr[] {
  const subnets = [spec.layer2, spec.layer3]
    .filter(isObject)
    .flatMap((section): unknown[] => (Array.isArray(section.subnets) ? section.subnets : []));
  return subnets.flatMap((one) => readUdnCidr(isObject(one) ? one.cidr : one)?.cidr ?? []);
}
