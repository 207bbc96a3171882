/** Random templates, and what they are rendered from. */
import fc from "fast-check";
import type { MachineTemplateSpec, TemplateInputs } from "../../../metadata/documents/machine-template.ts";
import { anyText, anyValue } from "./arbitraries.ts";
import { inputs } from "./inputs.ts";

const POOLS = {
  v4: { address: "10.0.0.7", prefix: 24, gateway: "10.0.0.1", dnsServers: ["10.0.0.2", "fd00::2"] },
  v6: { address: "fd00::7", prefix: 64, gateway: "fd00::1", dnsServers: ["fd00::3"] },
};
/** MAC by name of the interfaces that the guest has. */
export const NICS: Readonly<Record<string, string>> = {
  eth0: "52:54:00:00:00:01",
  eth1: "52:54:00:00:00:02",
  eth2: "52:54:00:00:00:03",
};

function maybe<T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<Partial<T>> {
  return fc.record(fields, { requiredKeys: [] }) as fc.Arbitrary<Partial<T>>;
}

const list = <T>(item: fc.Arbitrary<T>) => fc.array(item, { maxLength: 3 });
const object = fc.constantFrom("machine", "metal3machine", "baremetalhost", "Machine");
const int32 = fc.integer({ min: 0, max: 2 ** 31 - 1 });
const poolItem = maybe({ key: anyText, name: fc.constantFrom("v4", "v6") });
const annotation = fc.record({ object, annotation: fc.constant("v4") });

export const anyInputs: fc.Arbitrary<TemplateInputs> = fc
  .record({ index: int32, label: anyText, annotation: anyText, name: anyText })
  .map(({ index, label, annotation, name }) => {
    const named = {
      labels: { l: label },
      annotations: { a: annotation, v4: "v4", mac: NICS.eth1 as string },
    };
    return inputs({
      index,
      machine: named,
      metal3Machine: { name, ...named },
      host: {
        bootMACAddress: "52:54:00:00:00:09",
        nics: Object.entries(NICS).map(([nic, mac]) => ({ name: nic, mac })),
        ...named,
      },
      pools: POOLS,
    });
  });

export const anyMetaData: fc.Arbitrary<MachineTemplateSpec["metaData"]> = maybe({
  strings: list(maybe({ key: anyText, value: anyText })),
  objectNames: list(fc.record({ key: anyText, object })),
  indexes: list(maybe({ key: anyText, offset: int32, step: int32, prefix: anyText, suffix: anyText })),
  namespaces: list(fc.record({ key: anyText })),
  ipAddresses: list(fc.record({ key: anyText, subnet: fc.constantFrom("fd00::/64", "fd00::7/32") })),
  ipAddressesFromPool: list(poolItem.filter(({ name }) => name !== undefined)),
  prefixesFromPool: list(poolItem.filter(({ name }) => name !== undefined)),
  gatewaysFromPool: list(poolItem.filter(({ name }) => name !== undefined)),
  dnsServersFromPool: list(poolItem.filter(({ name }) => name !== undefined)),
  fromHostInterfaces: list(
    fc.oneof(
      fc.record({ key: anyText, interface: fc.constantFrom(...Object.keys(NICS)) }),
      fc.record({ key: anyText, fromBootMAC: fc.constant(true) }),
    ),
  ),
  fromLabels: list(fc.record({ key: anyText, object, label: fc.constantFrom("l", "none") })),
  fromAnnotations: list(fc.record({ key: anyText, object, annotation: fc.constantFrom("a", "none") })),
});

/** Where a guest may find an interface's MAC; `null`: it goes by its name. */
function mac(nic: string) {
  return fc.constantFrom(
    { macAddress: { string: NICS[nic] as string } },
    { macAddress: { string: (NICS[nic] as string).toUpperCase() } },
    { macAddress: { fromHostInterface: nic } },
    { name: nic },
  );
}

const mtu = fc.integer({ min: 1280, max: 9000 });
const links = fc
  .record({
    macs: fc.tuple(mac("eth0"), mac("eth1"), mac("eth2")),
    mtu,
    bond: fc.boolean(),
    bondMode: fc.constantFrom("802.3ad", "active-backup", "balance-rr"),
    vlans: fc.uniqueArray(fc.integer({ min: 1, max: 4094 }), { maxLength: 2 }),
  })
  .map(({ macs, mtu, bond, bondMode, vlans }) => ({
    ethernets: macs.map((given, at) => ({ type: "phy", id: `eth${at}`, mtu, ...given })),
    bonds: bond
      ? [
          {
            id: "bond0",
            bondMode,
            bondXmitHashPolicy: "layer3+4",
            bondLinks: ["eth0", "eth1"],
            mtu,
            parameters: [{ name: "miimon", value: 100 }],
          },
        ]
      : [],
    vlans: vlans.map((vlanID, at) => ({
      id: `vlan${at}`,
      vlanID,
      vlanLink: "eth2",
      mtu,
      macAddress: { string: `52:54:00:00:01:0${at}` },
    })),
  }));

const dns = fc.subarray(["192.0.2.53", "2001:db8::53"]);
const services = fc.oneof(fc.constant({}), fc.record({ dns }), fc.record({ dns, dnsFromIPPool: fc.constant("v6") }));

function routesOf(family: 4 | 6) {
  const [network, gateway, pool] = family === 4 ? ["192.0.2.0", "10.0.0.1", "v4"] : ["2001:db8::", "fd00::1", "v6"];
  return list(
    fc.record({
      network: fc.constant(network),
      prefix: fc.integer({ min: 24, max: family === 4 ? 31 : 127 }),
      gateway: fc.constantFrom<object>(
        { string: gateway },
        { fromIPPool: pool },
        { fromPoolRef: { name: pool } },
        ...(family === 4 ? [{ fromPoolAnnotation: { object: "machine", annotation: "v4" } }] : []),
      ),
      services,
    }),
  );
}

const link = fc.constantFrom("eth2", "eth2", "eth1");
const dynamic = (family: 4 | 6) =>
  fc.array(fc.record({ id: anyText, link, routes: routesOf(family) }), { maxLength: 1 });

/** What a guest with `NICS` can configure. */
export const anyNetworkData: fc.Arbitrary<MachineTemplateSpec["networkData"]> = fc.record({
  links,
  networks: fc.record({
    ipv4: list(
      fc
        .tuple(
          fc.record({ id: anyText, link, routes: routesOf(4) }),
          fc.oneof<fc.Arbitrary<object>[]>(
            fc.constant({ ipAddressFromIPPool: "v4" }),
            annotation.map((fromPoolAnnotation) => ({ fromPoolAnnotation })),
            fc.constant({ ipAddress: { start: "10.0.0.3", step: 0 }, netmask: 24 }),
          ),
        )
        .map(([network, source]) => ({ ...network, ...source })),
    ),
    ipv6: list(fc.record({ id: anyText, link, fromPoolRef: fc.constant({ name: "v6" }), routes: routesOf(6) })),
    ipv4DHCP: dynamic(4),
    ipv6DHCP: dynamic(6),
    ipv6SLAAC: dynamic(6),
  }),
  services,
});

/** Any text at every place: nothing that a guest has to understand, and much that is a problem. */
export const anyTemplate: fc.Arbitrary<unknown> = fc.record({
  metaData: anyMetaData,
  networkData: maybe({
    links: maybe({
      ethernets: list(maybe({ id: anyText, type: anyText, name: anyText, macAddress: maybe({ string: anyText }) })),
      bonds: list(
        maybe({
          id: anyText,
          bondLinks: list(anyText),
          parameters: list(maybe({ name: anyText, value: anyValue })),
        }),
      ),
      vlans: list(maybe({ id: anyText, vlanID: anyValue, vlanLink: anyText })),
    }),
    networks: maybe({
      ipv4: list(maybe({ id: anyText, ipAddress: maybe({ start: anyText, subnet: anyText }), netmask: anyValue })),
      ipv6DHCP: list(maybe({ id: anyText, routes: list(maybe({ network: anyText, gateway: anyValue })) })),
    }),
    services: maybe({ dns: list(anyText) }),
  }),
});
