import { formatAddress } from "../../../ipam/space/address.ts";
import { computedAddress } from "./computed-address.ts";
import { type MachineObjects, macOfInterface, objectNamed, valueIn } from "./objects.ts";
import type { PoolResult, PoolResults } from "./pools.ts";
import type { TemplateHostInterface, TemplateIndex, TemplateMetaData, TemplatePoolItem } from "./template.ts";
import { inPart, TemplateProblem } from "./template.ts";

export interface MetaDataInputs extends MachineObjects {
  readonly index: number;
  /** Of the data object. */
  readonly namespace: string;
  readonly pools: PoolResults;
}

interface Item {
  readonly key?: string;
}

/** A later list overwrites an earlier one, and `providerid` every user's. Throws TemplateProblem that names the key. */
export function machineMetaData(template: TemplateMetaData, inputs: MetaDataInputs): Record<string, string> {
  const { index, namespace, pools } = inputs;
  const values = new Map<string, string>();
  function add<T extends Item>(items: readonly T[] | undefined, show: (item: T) => string): void {
    for (const item of items ?? []) {
      const { key = "" } = item;
      values.set(
        key,
        inPart(`metadata key ${JSON.stringify(key)}`, () => show(item)),
      );
    }
  }
  const fromPool = (show: (result: PoolResult) => string) => (item: TemplatePoolItem) => show(poolResult(item, pools));

  add(template.fromHostInterfaces, (item) => hostMac(item, inputs));
  add(template.ipAddresses, (range) => formatAddress(computedAddress(range, index).address));
  add(
    template.ipAddressesFromPool,
    fromPool(({ address }) => address),
  );
  add(
    template.prefixesFromPool,
    fromPool(({ prefix }) => String(prefix ?? "")),
  );
  add(
    template.gatewaysFromPool,
    fromPool(({ gateway }) => gateway ?? ""),
  );
  add(
    template.dnsServersFromPool,
    fromPool(({ dnsServers }) => dnsServers.join(",")),
  );
  add(template.indexes, (item) => indexText(item, index));
  add(template.namespaces, () => namespace);
  add(template.objectNames, ({ object }) => objectNamed(object, inputs).name);
  add(template.fromLabels, ({ object, label }) => valueIn(objectNamed(object, inputs).labels, label));
  add(template.fromAnnotations, ({ object, annotation }) =>
    valueIn(objectNamed(object, inputs).annotations, annotation),
  );
  add(template.strings, ({ value }) => value ?? "");
  values.set("providerid", providerId(inputs));
  return Object.fromEntries(values);
}

function hostMac({ interface: name, fromBootMAC }: TemplateHostInterface, inputs: MetaDataInputs): string {
  if (!fromBootMAC) return macOfInterface(name ?? "", inputs);
  const { host } = inputs;
  if (host === null) throw new TemplateProblem("baremetalhost is nil but referenced");
  if (host.bootMACAddress) return host.bootMACAddress;
  throw new TemplateProblem(`BareMetalHost ${host.namespace}/${host.name} spec.bootMACAddress is empty`);
}

function poolResult({ name = "" }: TemplatePoolItem, pools: PoolResults): PoolResult {
  const result = pools.get(name);
  if (result === undefined) throw new TemplateProblem(`pool not found in cache: ${name}`);
  return result;
}

/** In 32 bits, as upstream counts. */
function indexText({ offset = 0, step, prefix = "", suffix = "" }: TemplateIndex, index: number): string {
  return `${prefix}${(offset + Math.imul(index, step || 1)) | 0}${suffix}`;
}

function providerId({ metal3Machine, host }: MachineObjects): string {
  if (metal3Machine === null) throw new TemplateProblem("metal3machine is nil but referenced");
  if (host === null) throw new TemplateProblem("baremetalhost is nil but referenced");
  return `${metal3Machine.namespace}/${host.name}/${metal3Machine.name}`;
}
