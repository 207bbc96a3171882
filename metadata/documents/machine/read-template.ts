import type { ComputedRange, MachineTemplateSpec, TemplateHostInterface, TemplateStaticNetwork } from "./template.ts";
import { TemplateProblem } from "./template.ts";

export const MTU_MAX = 65_535;
/** Longest value that a message repeats. */
const SHOWN_CHARS_MAX = 80;

/**
 * Fields unknown here are left out: an API server may know other rules. null counts as absent. Throws TemplateProblem
 * that names the field: another type than expected, or what Metal3's own admission refuses.
 */
export function readTemplate(spec: unknown): MachineTemplateSpec {
  const template = readShape(spec ?? {}, TEMPLATE_FIELDS, "spec") as MachineTemplateSpec;
  for (const [at, item] of (template.metaData?.fromHostInterfaces ?? []).entries()) {
    checkHostInterface(item, `spec.metaData.fromHostInterfaces[${at}]`);
  }
  for (const [at, range] of (template.metaData?.ipAddresses ?? []).entries()) {
    checkRange(range, `spec.metaData.ipAddresses[${at}]`);
  }
  for (const family of ["ipv4", "ipv6"] as const) {
    for (const [at, network] of (template.networkData?.networks?.[family] ?? []).entries()) {
      checkNetwork(network, `spec.networkData.networks.${family}[${at}]`);
    }
  }
  return template;
}

function readShape(value: unknown, shape: Shape, path: string): unknown {
  if (typeof shape === "function") {
    const problem = shape(value);
    if (problem === null) return value;
    throw new TemplateProblem(`${path}: ${problem}, not ${shown(value)}`);
  }
  if (isList(shape)) {
    if (!Array.isArray(value)) throw new TemplateProblem(`${path}: expected a list, not ${shown(value)}`);
    return value.map((item, at) => readShape(item, shape[0], `${path}[${at}]`));
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TemplateProblem(`${path}: expected an object, not ${shown(value)}`);
  }
  const fields = Object.keys(shape).flatMap((field) => {
    const given = Object.hasOwn(value, field) ? (value as Record<string, unknown>)[field] : undefined;
    if (given === undefined || given === null) return [];
    return [[field, readShape(given, shape[field] as Shape, `${path}.${field}`)]];
  });
  return Object.fromEntries(fields);
}

function isList(shape: Shape): shape is readonly [Shape] {
  return Array.isArray(shape);
}

function checkHostInterface({ interface: name, fromBootMAC }: TemplateHostInterface, path: string): void {
  if (fromBootMAC && name) {
    throw new TemplateProblem(`${path}: interface must be empty when fromBootMAC is true`);
  }
  if (!fromBootMAC && !name) {
    throw new TemplateProblem(`${path}: interface must be specified when fromBootMAC is false`);
  }
}

function checkNetwork(network: TemplateStaticNetwork, path: string): void {
  const { ipAddress, netmask, fromPoolRef, fromPoolAnnotation, ipAddressFromIPPool } = network;
  const hasPool = Boolean(
    fromPoolRef?.name || ipAddressFromIPPool || fromPoolAnnotation?.object || fromPoolAnnotation?.annotation,
  );
  if (ipAddress === undefined) {
    if (hasPool) return;
    throw new TemplateProblem(
      `${path}: fromPoolRef needs to contain a reference to an IPPool, where neither ipAddressFromIPPool, ` +
        "fromPoolAnnotation nor ipAddress stands",
    );
  }
  if (hasPool) throw new TemplateProblem(`${path}: ipAddress and a pool are both named; omit one`);
  checkRange(ipAddress, `${path}.ipAddress`);
  if (netmask === undefined && ipAddress.subnet === undefined) {
    throw new TemplateProblem(`${path}: ipAddress needs netmask, a prefix length, or a subnet`);
  }
}

function checkRange({ start, subnet }: ComputedRange, path: string): void {
  if (start === undefined && subnet === undefined) {
    throw new TemplateProblem(`${path}: a computed address needs start or subnet`);
  }
}

function shown(value: unknown): string {
  const text = jsonOf(value);
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return "a value of that many levels";
  }
}

/** What is wrong with a value, beginning with what is expected; null: nothing. */
type Leaf = (value: unknown) => string | null;

/** Fields of an object, a list of one shape, or what checks a single value. Fields are never required. */
type Shape = Leaf | readonly [Shape] | { readonly [field: string]: Shape };

/** Far beyond what a bond's parameters need, and far below what the stack holds. */
const PARAMETER_LEVELS_MAX = 64;
const INT32_MAX = 2 ** 31 - 1;
const PREFIX_MAX = 128;
const VLAN_ID_MAX = 4096;
const ETHERNET_TYPES = ["bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif", "phy"];
const BOND_MODES = ["balance-rr", "active-backup", "balance-xor", "broadcast", "balance-tlb", "balance-alb", "802.3ad"];
const HASH_POLICIES = ["", "layer2", "layer3+4", "layer2+3"];

const text: Leaf = (value) => (typeof value === "string" ? null : "expected a string");
const flag: Leaf = (value) => (typeof value === "boolean" ? null : "expected true or false");
const parameter: Leaf = (value) =>
  isWithin(value, PARAMETER_LEVELS_MAX) ? null : `expected at most ${PARAMETER_LEVELS_MAX} levels of lists and objects`;

function integer(min: number, max: number): Leaf {
  return (value) =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max
      ? null
      : `expected an integer from ${min} to ${max}`;
}

function oneOf(values: readonly string[]): Leaf {
  return (value) => (values.includes(value as string) ? null : `expected one of ${values.filter(Boolean).join(", ")}`);
}

/** 802.1ad stacks VLANs; it is often written where the protocol for bonds is meant. */
const bondMode: Leaf = (value) =>
  value === "802.1ad" ? "expected 802.3ad, which is the mode that was meant" : oneOf(BOND_MODES)(value);

function isWithin(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((one) => isWithin(one, levels - 1));
}

const poolReference = { name: text, kind: text, apiGroup: text };
const annotationReference = { object: text, annotation: text };
const poolItem = { key: text, ...poolReference };
const computedRange = { start: text, end: text, subnet: text, step: integer(0, INT32_MAX) };

const link = {
  id: text,
  name: text,
  mtu: integer(0, MTU_MAX),
  macAddress: { string: text, fromHostInterface: text, fromAnnotation: annotationReference },
};

const services = { dns: [text], dnsFromIPPool: text } as const;

const network = {
  id: text,
  link: text,
  routes: [
    {
      network: text,
      prefix: integer(0, PREFIX_MAX),
      gateway: {
        string: text,
        fromIPPool: text,
        fromPoolRef: poolReference,
        fromPoolAnnotation: annotationReference,
      },
      services,
    },
  ],
} as const;

const staticNetwork = {
  ...network,
  ipAddressFromIPPool: text,
  fromPoolRef: poolReference,
  fromPoolAnnotation: annotationReference,
  ipAddress: computedRange,
  netmask: integer(0, PREFIX_MAX),
};

const metaData: Shape = {
  strings: [{ key: text, value: text }],
  objectNames: [{ key: text, object: text }],
  indexes: [{ key: text, offset: integer(0, INT32_MAX), step: integer(0, INT32_MAX), prefix: text, suffix: text }],
  namespaces: [{ key: text }],
  ipAddresses: [{ key: text, ...computedRange }],
  ipAddressesFromPool: [poolItem],
  prefixesFromPool: [poolItem],
  gatewaysFromPool: [poolItem],
  dnsServersFromPool: [poolItem],
  fromHostInterfaces: [{ key: text, interface: text, fromBootMAC: flag }],
  fromLabels: [{ key: text, object: text, label: text }],
  fromAnnotations: [{ key: text, ...annotationReference }],
};

const networkData: Shape = {
  links: {
    ethernets: [{ ...link, type: oneOf(ETHERNET_TYPES) }],
    bonds: [
      {
        ...link,
        bondMode,
        bondXmitHashPolicy: oneOf(HASH_POLICIES),
        bondLinks: [text],
        parameters: [{ name: text, value: parameter }],
      },
    ],
    vlans: [{ ...link, vlanID: integer(0, VLAN_ID_MAX), vlanLink: text }],
  },
  networks: {
    ipv4: [staticNetwork],
    ipv6: [staticNetwork],
    ipv4DHCP: [network],
    ipv6DHCP: [network],
    ipv6SLAAC: [network],
  },
  services,
};

const TEMPLATE_FIELDS: Shape = { metaData, networkData };
