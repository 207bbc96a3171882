import { type Address, parseAddress } from "../../ipam/space/address.ts";
import { cidrContains } from "../../ipam/space/cidr.ts";
import type { MachineTemplateSpec } from "../../metadata/documents/machine-template.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";

/** Holdfast's networks in which a template computes addresses: nobody allocates those. */
export function computedNetworks(
  { metaData, networkData }: MachineTemplateSpec,
  catalog: Pick<DefinitionCatalog, "networks" | "definitionOf">,
): string[] {
  const { ipv4 = [], ipv6 = [] } = networkData?.networks ?? {};
  const ranges = [...(metaData?.ipAddresses ?? []), ...[...ipv4, ...ipv6].flatMap((one) => one.ipAddress ?? [])];
  const firsts = ranges.flatMap(({ start, subnet = "" }) => addressOf(start ?? subnet.replace(/\/.*$/, "")));
  if (firsts.length === 0) return [];
  return catalog.networks().filter((network) => {
    const sets = catalog.definitionOf(network)?.definition.rangeSets ?? [];
    const subnets = sets.flatMap((set) => set.subnets);
    return subnets.some(({ cidr }) => firsts.some((first) => cidrContains(cidr, first)));
  });
}

/** Empty for what is no address: rendering says so. */
function addressOf(text: string): Address[] {
  try {
    return [parseAddress(text)];
  } catch {
    return [];
  }
}
