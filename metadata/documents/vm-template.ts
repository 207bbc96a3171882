import { Buffer } from "node:buffer";
import { type Family, formatAddress } from "../../ipam/space/address.ts";
import type { InstanceAddress, InstanceNetwork } from "./instance.ts";
import {
  type MachineObjects,
  type MachineTemplateSpec,
  type NamedObject,
  type NetworkDocument,
  type PoolResult,
  renderMachineValues,
} from "./machine-template.ts";

/** A VM, which stands for machine, Metal3Machine and host alike. */
export interface TemplatedVm extends NamedObject {
  /** Its interfaces by their names in its specification. `mac`: "" where it is not known yet. */
  readonly nics: readonly { readonly name: string; readonly mac: string }[];
  readonly networks: readonly InstanceNetwork[];
}

export interface VmTemplateInputs {
  /** Of its data object, from 0. */
  readonly index: number;
  readonly vm: TemplatedVm;
  /** By the names that the template uses. */
  readonly pools: ReadonlyMap<string, PoolResult>;
}

export interface VmDocuments {
  /** For `meta`; `{}`: the template has no metaData. */
  readonly meta: Readonly<Record<string, string>>;
  /** null: the template has no networkData. */
  readonly networkDocument: NetworkDocument | null;
}

/** Of each part, as JSON: far above any that a guest needs, and a node keeps those of all its VMs. */
export const VM_DOCUMENT_BYTES_MAX = 64 << 10;

/** What a template says of one VM, or a text of why it says nothing. The same inputs give the same. */
export function renderVmTemplate(
  spec: MachineTemplateSpec,
  { index, vm, pools }: VmTemplateInputs,
): VmDocuments | { readonly problem: string } {
  const values = renderMachineValues(spec, { ...objectsOfVm(vm), index, namespace: vm.namespace, pools });
  if (values.kind === "failed") return { problem: values.problem };
  const { metaData, networkData } = values;
  for (const [part, value] of Object.entries({ metaData, networkData })) {
    const bytes = Buffer.byteLength(JSON.stringify(value));
    if (bytes > VM_DOCUMENT_BYTES_MAX)
      return { problem: `${part} has ${bytes} bytes, and a VM is given ${VM_DOCUMENT_BYTES_MAX} at most` };
  }
  return { meta: metaData ?? {}, networkDocument: networkData };
}

export function objectsOfVm({ nics, networks, ...vm }: TemplatedVm): MachineObjects {
  const boot = networks.find(({ primary }) => primary) ?? networks[0];
  const bootMACAddress = boot?.mac ?? nics[0]?.mac ?? "";
  return { machine: vm, metal3Machine: vm, host: { ...vm, bootMACAddress, nics } };
}

/** A VM's addresses on a network as a pool's result, of `family` or (null) of both, IPv4 first. null: it has none. */
export function poolResultOf({ addresses, dns }: InstanceNetwork, family: Family | null = null): PoolResult | null {
  const dnsServers = dns.nameservers ?? [];
  const families = new Map<Family, PoolResult>();
  for (const { address, gateway } of addresses) {
    const own = address.address.family;
    if (families.has(own) || (family !== null && own !== family)) continue;
    families.set(own, {
      address: formatAddress(address.address),
      prefix: address.prefixLength,
      gateway: gateway === null ? gatewayOf(addresses, own) : formatAddress(gateway),
      dnsServers,
    });
  }
  const first = families.get(4) ?? families.get(6);
  return first === undefined ? null : { ...first, families };
}

function gatewayOf(addresses: readonly InstanceAddress[], family: Family): string | null {
  const found = addresses.find(({ gateway }) => gateway?.family === family)?.gateway;
  return found == null ? null : formatAddress(found);
}
