import { type MachineObjects, macOfInterface, objectNamed, valueIn } from "./objects.ts";
import type { TemplateBond, TemplateEthernet, TemplateLinks, TemplateMac, TemplateVlan } from "./template.ts";
import { inPart, TemplateProblem } from "./template.ts";
import type { YamlValue } from "./yaml-text.ts";

export type MachineLink = Readonly<Record<string, YamlValue>>;

/** Bytes; what the schema of the API fills in. */
const MTU_DEFAULT = 1500;
const MAC = /^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$/;

/** Bonds, Ethernet interfaces, VLANs. Throws TemplateProblem that names the link. */
export function machineLinks(template: TemplateLinks | undefined, objects: MachineObjects): MachineLink[] {
  const { bonds = [], ethernets = [], vlans = [] } = template ?? {};
  return [
    ...bonds.map((bond) => inPart(linkName(bond), () => bondLink(bond, objects))),
    ...ethernets.map((ethernet) => inPart(linkName(ethernet), () => ethernetLink(ethernet, objects))),
    ...vlans.map((vlan) => inPart(linkName(vlan), () => vlanLink(vlan, objects))),
  ];
}

function bondLink(bond: TemplateBond, objects: MachineObjects): MachineLink {
  const link = {
    ...commonFields("bond", bond),
    bond_mode: bond.bondMode ?? "",
    bond_xmit_hash_policy: bond.bondXmitHashPolicy ?? "",
    bond_links: bond.bondLinks ?? null,
    ...macField("ethernet_mac_address", bond.macAddress, objects),
  };
  return { ...link, ...bondParameters(bond, new Set(Object.keys(link))) };
}

/** Parameters are free text and must not replace what the template says in fields of its own. */
function bondParameters({ id = "", parameters = [] }: TemplateBond, fields: ReadonlySet<string>): MachineLink {
  const entries = parameters.map(({ name = "", value = null }) => [`bond_${name}` as string, value] as const);
  const keys = entries.map(([key]) => key);
  const illegal = parameters
    .filter((_parameter, at) => fields.has(keys[at] as string) || keys.indexOf(keys[at] as string) < at)
    .map(({ name = "" }) => JSON.stringify(name));
  if (illegal.length > 0) {
    const names = [...new Set(illegal)].join(", ");
    throw new TemplateProblem(`illegal params ${names} into bond params blob into link id=${id}`);
  }
  return Object.fromEntries(entries);
}

function ethernetLink(ethernet: TemplateEthernet, objects: MachineObjects): MachineLink {
  return {
    ...commonFields(ethernet.type ?? "", ethernet),
    ...macField("ethernet_mac_address", ethernet.macAddress, objects),
  };
}

function vlanLink(vlan: TemplateVlan, objects: MachineObjects): MachineLink {
  if (vlan.vlanID === undefined) {
    throw new TemplateProblem(`VLAN link ${JSON.stringify(vlan.id ?? "")} is missing required VlanID`);
  }
  return {
    ...commonFields("vlan", vlan),
    vlan_id: vlan.vlanID,
    vlan_link: vlan.vlanLink ?? "",
    ...macField("vlan_mac_address", vlan.macAddress, objects),
  };
}

function commonFields(type: string, link: TemplateBond | TemplateEthernet | TemplateVlan): MachineLink {
  const { id = "", mtu = MTU_DEFAULT, name } = link;
  return { type, id, mtu, ...(name ? { name } : {}) };
}

function macField(field: string, template: TemplateMac | undefined, objects: MachineObjects): MachineLink {
  return template === undefined ? {} : { [field]: macOf(template, objects) };
}

/** In the spelling of its source. */
function macOf(template: TemplateMac, objects: MachineObjects): string {
  const mac = givenMac(template, objects);
  if (!MAC.test(mac)) throw new TemplateProblem(`bad MAC address: ${mac}`);
  return mac;
}

function givenMac({ string, fromHostInterface, fromAnnotation }: TemplateMac, objects: MachineObjects): string {
  if (string) return string;
  if (fromHostInterface) return macOfInterface(fromHostInterface, objects);
  if (fromAnnotation === undefined) return "";
  return valueIn(objectNamed(fromAnnotation.object, objects).annotations, fromAnnotation.annotation);
}

function linkName({ id = "" }: { readonly id?: string }): string {
  return `networkData link ${JSON.stringify(id)}`;
}
