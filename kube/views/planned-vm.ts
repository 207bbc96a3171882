import { isObject } from "../../ipam/definition/definition-keys.ts";
import { readMac } from "../../ipam/definition/mac.ts";
import { MalformedObjectError, objectAt, readTexts } from "./object-metadata.ts";
import { ADDRESSES_ANNOTATION, readRequestedAddresses } from "./requested-addresses.ts";
import { objectsIn, textIn } from "./tenant-objects.ts";

/** What a VM that may not exist yet asks for. */
export type PlannedVm = Readonly<NonNullable<ReturnType<typeof projectPlannedVm>>>;

export type PlannedNetwork = Readonly<PlannedVm["networks"][number]>;

const KINDS = ["VirtualMachine", "VirtualMachineInstance"];

/**
 * What a VirtualMachine asks for in its template, or an instance itself; null: it is of another kind. `namespace`: of
 * an object without one. Throws MalformedObjectError, and RefusalError CONFIG_INVALID of the annotation.
 */
export function projectPlannedVm(object: unknown, namespace: string) {
  if (!isObject(object) || !KINDS.includes(String(object.kind))) return null;
  const kind = String(object.kind);
  const metadata = isObject(object.metadata) ? object.metadata : {};
  if (typeof metadata.name !== "string" || metadata.name === "")
    throw new MalformedObjectError(`${kind} has no metadata.name`);
  const own = textIn(metadata, "namespace") ?? namespace;
  const of = kind === "VirtualMachine" ? objectAt(objectAt(object, "spec", kind), "template", kind) : object;
  const spec = objectAt(of, "spec", kind);
  const interfaces = objectsIn(objectAt(objectAt(spec, "domain", kind), "devices", kind), "interfaces");
  const requested = readRequestedAddresses(readTexts(of, "annotations").get(ADDRESSES_ANNOTATION));
  const networks = objectsIn(spec, "networks");
  return {
    namespace: own,
    name: metadata.name,
    networks: [...requested].map(([name, addresses]) => {
      const network = networks.find((one) => one.name === name);
      const multus = network !== undefined && isObject(network.multus) ? network.multus : {};
      const nad = textIn(multus, "networkName");
      const written = textIn(interfaces.find((one) => one.name === name) ?? {}, "macAddress");
      const mac = written === null ? undefined : readMac({ key: `macAddress of interface ${name}`, value: written });
      return {
        name,
        /** `namespace/name`; null: the VM has no such network, or it is its pod's own. */
        nad: nad === null ? null : nad.includes("/") ? nad : `${own}/${nad}`,
        isThere: network !== undefined,
        mac,
        requested: addresses,
      };
    }),
  };
}
