import { expect, test } from "vitest";
import { readUdn } from "../../claims/udn/read-udn.ts";
import { projectUdn, type UdnView } from "../../claims/udn/udn-object.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { formatCidr } from "../../ipam/space/cidr.ts";
import { cudn, layer2, layer3, localnet, PRIMARY, udn } from "./udn-objects.ts";

test("a network has the name of the configuration that OVN-Kubernetes renders from it", () => {
  expect(udn(layer2(PRIMARY)).network).toBe("shop_blue");
  expect(cudn(layer2(PRIMARY)).network).toBe("cluster_udn_blue");
});

test("a layer2 network is read with every field", () => {
  const reading = readUdn(
    udn(
      layer2({
        role: "Primary",
        mtu: 1400,
        subnets: ["192.168.100.0/24", "fd10::/64"],
        reservedSubnets: ["192.168.100.200/29"],
        infrastructureSubnets: ["192.168.100.0/30", "fd10::/126"],
        defaultGatewayIPs: ["192.168.100.2", "fd10::1"],
        joinSubnets: ["100.65.0.0/16"],
        ipam: { lifecycle: "Persistent" },
      }),
    ),
  );
  if (reading.kind !== "read") throw new Error(JSON.stringify(reading));
  const { facts } = reading;
  expect(facts).toMatchObject({
    topology: "Layer2",
    role: "Primary",
    mtu: 1400,
    ipamMode: "Enabled",
    allowPersistentIPs: true,
    physicalNetworkName: null,
    vlan: null,
  });
  expect(facts.subnets.map(({ cidr }) => formatCidr(cidr))).toEqual(["192.168.100.0/24", "fd10::/64"]);
  expect(facts.reservedSubnets.map(formatCidr)).toEqual(["192.168.100.200/29"]);
  expect(facts.infrastructureSubnets.map(formatCidr)).toEqual(["192.168.100.0/30", "fd10::/126"]);
  expect(facts.defaultGatewayIPs.map(formatAddress)).toEqual(["192.168.100.2", "fd10::1"]);
});

test("a layer3 network is read with each subnet and its part per node", () => {
  const reading = readUdn(
    cudn(
      layer3({
        role: "Primary",
        subnets: [
          { cidr: "10.128.0.0/14", hostSubnet: 24 },
          { cidr: "10.8.0.0/16", hostSubnet: 24 },
          { cidr: "fd00::/48" },
        ],
      }),
    ),
  );
  if (reading.kind !== "read") throw new Error(JSON.stringify(reading));
  expect(reading.facts.subnets.map(({ cidr, hostSubnet }) => [formatCidr(cidr), hostSubnet])).toEqual([
    ["10.128.0.0/14", 24],
    ["10.8.0.0/16", 24],
    ["fd00::/48", null],
  ]);
  expect(reading.facts.allowPersistentIPs).toBe(false);
});

test("a localnet is read", () => {
  const reading = readUdn(
    cudn(
      localnet({
        subnets: ["10.9.0.0/24"],
        excludeSubnets: ["10.9.0.0/29"],
        mtu: 9000,
        vlan: { mode: "Access", access: { id: 200 } },
        ipam: { lifecycle: "Persistent" },
      }),
    ),
  );
  if (reading.kind !== "read") throw new Error(JSON.stringify(reading));
  expect(reading.facts).toMatchObject({
    role: "Secondary",
    physicalNetworkName: "physnet",
    vlan: 200,
    mtu: 9000,
    allowPersistentIPs: true,
  });
  expect(reading.facts.excludeSubnets.map(formatCidr)).toEqual(["10.9.0.0/29"]);
});

test("host bits of a subnet are dropped, as OVN-Kubernetes does; empty lists are absent", () => {
  const reading = readUdn(udn(layer2({ role: "Primary", subnets: ["10.20.3.4/16"], reservedSubnets: [] })));
  if (reading.kind !== "read") throw new Error(JSON.stringify(reading));
  expect(reading.facts.subnets.map(({ cidr }) => formatCidr(cidr))).toEqual(["10.20.0.0/16"]);
});

test("networks without IPAM are read without addresses", () => {
  for (const view of [
    udn(layer2({ role: "Secondary", ipam: { mode: "Disabled" } })),
    cudn(localnet({ ipam: { mode: "Disabled" } })),
    cudn(localnet({ ipam: { mode: "DHCP" } })),
  ])
    expect(readUdn(view)).toMatchObject({ kind: "read", facts: { subnets: [] } });
});

interface Row {
  readonly why: string;
  readonly view: UdnView;
  readonly path: string;
  readonly message: string;
}

const l2 = (section: object) => udn(layer2({ ...PRIMARY, ...section }));
const l2s = (section: object) => udn(layer2({ role: "Secondary", subnets: ["10.20.0.0/16"], ...section }));
const l3 = (section: object) =>
  udn(layer3({ role: "Primary", subnets: [{ cidr: "10.128.0.0/14" }], ...section }));
const l3s = (...cidrs: string[]) =>
  udn(layer3({ role: "Secondary", subnets: cidrs.map((cidr) => ({ cidr })) }));
const ln = (section: object) => cudn(localnet({ subnets: ["10.9.0.0/24"], ...section }));
const L2 = "spec.layer2";
const L3 = "spec.layer3";
const LN = "spec.network.localnet";

const ROWS: readonly Row[] = [
  // The object as a whole.
  {
    why: "no topology",
    view: udn({ layer2: PRIMARY }),
    path: "spec.topology",
    message: "expected one of Layer2, Layer3",
  },
  {
    why: "a localnet in a namespace",
    view: udn(localnet({})),
    path: "spec.topology",
    message: 'expected one of Layer2, Layer3, not "Localnet"',
  },
  {
    why: "no section",
    view: udn({ topology: "Layer2" }),
    path: "spec.layer2",
    message: "spec.layer2 is required when topology is Layer2 and forbidden otherwise",
  },
  {
    why: "another section",
    view: udn({ ...layer2(PRIMARY), layer3: { role: "Primary" } }),
    path: "spec.layer3",
    message: "spec.layer3 is required when topology is Layer3 and forbidden otherwise",
  },
  {
    why: "a localnet section of another topology",
    view: cudn({ ...layer2(PRIMARY), localnet: {} }),
    path: "spec.network.localnet",
    message: "spec.localnet is required when topology is Localnet and forbidden otherwise",
  },
  {
    why: "a section that is no object",
    view: udn({ topology: "Layer2", layer2: "x" }),
    path: L2,
    message: "expected an object",
  },
  // ipam
  {
    why: "persistent without ipam",
    view: udn(layer2({ role: "Secondary", ipam: { mode: "Disabled", lifecycle: "Persistent" } })),
    path: `${L2}.ipam`,
    message: "lifecycle Persistent is only supported when ipam.mode is Enabled",
  },
  {
    why: "an empty ipam",
    view: l2({ ipam: {} }),
    path: `${L2}.ipam`,
    message: "expected at least one of mode and lifecycle",
  },
  {
    why: "an unknown mode",
    view: l2({ ipam: { mode: "Off" } }),
    path: `${L2}.ipam.mode`,
    message: 'expected one of Enabled, Disabled, DHCP, not "Off"',
  },
  // layer3
  {
    why: "no role",
    view: l3({ role: undefined }),
    path: `${L3}.role`,
    message: "expected one of Primary, Secondary",
  },
  {
    why: "no subnets",
    view: l3({ subnets: [] }),
    path: `${L3}.subnets`,
    message: "expected at least one subnet",
  },
  {
    why: "a small MTU",
    view: l3({ mtu: 500 }),
    path: `${L3}.mtu`,
    message: "expected a whole number from 576 to 65536, not 500",
  },
  {
    why: "401 subnets",
    view: l3({ subnets: Array.from({ length: 401 }, () => ({ cidr: "10.0.0.0/8" })) }),
    path: `${L3}.subnets`,
    message: "at most 400 items are taken",
  },
  {
    why: "no CIDR",
    view: l3({ subnets: [{ cidr: "10.0.0.0" }] }),
    path: `${L3}.subnets[0].cidr`,
    message: "CIDR is invalid",
  },
  {
    why: "three secondary",
    view: l3s("10.0.0.0/16", "10.1.0.0/16", "fd00::/48"),
    path: L3,
    message: "Secondary networks may define at most 2 subnets",
  },
  {
    why: "two secondary of a family",
    view: l3s("10.0.0.0/16", "10.1.0.0/16"),
    path: L3,
    message: "When 2 CIDRs are set for Secondary networks, they must be from different IP families",
  },
  {
    why: "one in the other",
    view: l3({ subnets: [{ cidr: "10.0.0.0/8" }, { cidr: "10.1.0.0/16" }] }),
    path: L3,
    message: "Subnets must not overlap or contain each other",
  },
  {
    why: "one twice",
    view: l3({ subnets: [{ cidr: "10.0.0.0/16" }, { cidr: "10.0.0.0/16" }] }),
    path: L3,
    message: "Subnets with same CIDR are not allowed",
  },
  {
    why: "different parts",
    view: l3({
      subnets: [
        { cidr: "10.0.0.0/16", hostSubnet: 24 },
        { cidr: "10.1.0.0/16", hostSubnet: 25 },
      ],
    }),
    path: L3,
    message: "Subnets from the same IP family must use the same hostSubnet value",
  },
  {
    why: "a part as large as all",
    view: l3({ subnets: [{ cidr: "10.0.0.0/16", hostSubnet: 16 }] }),
    path: `${L3}.subnets[0]`,
    message: "HostSubnet must be smaller than CIDR subnet",
  },
  {
    why: "a part of one address",
    view: l3({ subnets: [{ cidr: "10.0.0.0/16", hostSubnet: 32 }] }),
    path: `${L3}.subnets[0]`,
    message: "HostSubnet must < 32 for ipv4 CIDR",
  },
  {
    why: "a part out of range",
    view: l3({ subnets: [{ cidr: "fd00::/48", hostSubnet: 128 }] }),
    path: `${L3}.subnets[0].hostSubnet`,
    message: "expected a whole number from 1 to 127",
  },
  {
    why: "secondary with join subnets",
    view: udn(
      layer3({ role: "Secondary", subnets: [{ cidr: "10.0.0.0/16" }], joinSubnets: ["100.65.0.0/16"] }),
    ),
    path: L3,
    message: "JoinSubnets is only supported for Primary network",
  },
  {
    why: "IPv6 with a small MTU",
    view: l3({ mtu: 1279, subnets: [{ cidr: "fd00::/48" }] }),
    path: L3,
    message: "MTU should be greater than or equal to 1280 when IPv6 subnet is used",
  },
  // layer2
  {
    why: "no subnets",
    view: l2({ subnets: undefined }),
    path: L2,
    message: "Subnets is required with ipam.mode is Enabled or unset",
  },
  {
    why: "subnets of nobody",
    view: l2s({ ipam: { mode: "Disabled" } }),
    path: L2,
    message: "Subnets must be unset when ipam.mode is Disabled",
  },
  {
    why: "primary without ipam",
    view: udn(layer2({ role: "Primary", ipam: { mode: "Disabled" } })),
    path: L2,
    message: "Disabled ipam.mode is only supported for Secondary network",
  },
  {
    why: "DHCP",
    view: udn(layer2({ role: "Secondary", ipam: { mode: "DHCP" } })),
    path: L2,
    message: "DHCP ipam.mode is not supported for Layer2 topology, use Localnet topology instead",
  },
  {
    why: "secondary with join subnets",
    view: l2s({ joinSubnets: ["100.65.0.0/16"] }),
    path: L2,
    message: "JoinSubnets is only supported for Primary network",
  },
  {
    why: "IPv6 with a small MTU",
    view: l2({ mtu: 1000, subnets: ["fd00::/64"] }),
    path: L2,
    message: "MTU should be greater than or equal to 1280 when IPv6 subnet is used",
  },
  {
    why: "two of a family",
    view: l2({ subnets: ["10.0.0.0/16", "10.1.0.0/16"] }),
    path: `${L2}.subnets`,
    message: "When 2 CIDRs are set, they must be from different IP families",
  },
  {
    why: "three subnets",
    view: l2({ subnets: ["10.0.0.0/16", "10.1.0.0/16", "fd00::/64"] }),
    path: `${L2}.subnets`,
    message: "at most 2 items are taken",
  },
  {
    why: "an endless CIDR",
    view: l2({ subnets: [`10.0.0.0/${"0".repeat(40)}8`] }),
    path: `${L2}.subnets[0]`,
    message: "CIDR is invalid",
  },
  {
    why: "secondary with a gateway",
    view: l2s({ defaultGatewayIPs: ["10.20.0.1"] }),
    path: L2,
    message: "defaultGatewayIPs is only supported for Primary network",
  },
  {
    why: "a foreign gateway",
    view: l2({ defaultGatewayIPs: ["10.21.0.1"] }),
    path: L2,
    message: "defaultGatewayIPs must belong to one of the subnets specified in the subnets field",
  },
  {
    why: "a gateway missing",
    view: l2({ subnets: ["10.20.0.0/16", "fd00::/64"], defaultGatewayIPs: ["10.20.0.1"] }),
    path: L2,
    message: "defaultGatewayIPs must be specified for all IP families",
  },
  {
    why: "two gateways of a family",
    view: l2({ defaultGatewayIPs: ["10.20.0.1", "10.20.0.2"] }),
    path: `${L2}.defaultGatewayIPs`,
    message: "When 2 IPs are set, they must be from different IP families",
  },
  {
    why: "no IP",
    view: l2({ defaultGatewayIPs: ["10.20.0.1/16"] }),
    path: `${L2}.defaultGatewayIPs[0]`,
    message: "IP is invalid",
  },
  {
    why: "a gateway outside the infrastructure",
    view: l2({ infrastructureSubnets: ["10.20.0.0/30"], defaultGatewayIPs: ["10.20.0.9"] }),
    path: L2,
    message: "defaultGatewayIPs have to belong to infrastructureSubnets",
  },
  ...(["reservedSubnets", "infrastructureSubnets"] as const).flatMap((key): Row[] => [
    {
      why: `${key} of nothing`,
      view: udn(layer2({ role: "Primary", [key]: ["10.20.0.0/30"] })),
      path: L2,
      message: `${key} must be unset when subnets is unset`,
    },
    {
      why: `${key} of a secondary`,
      view: l2s({ [key]: ["10.20.0.0/30"] }),
      path: L2,
      message: `${key} is only supported for Primary network`,
    },
    {
      why: `${key} outside`,
      view: l2({ [key]: ["10.21.0.0/30"] }),
      path: `${L2}.${key}`,
      message: `${key} must be subnetworks of the networks specified in the subnets field`,
    },
    {
      why: `${key} with host bits`,
      view: l2({ [key]: ["10.20.0.10/30"] }),
      path: L2,
      message: `${key} must be a masked network address (no host bits set)`,
    },
  ]),
  {
    why: "too many reserved",
    view: l2({ reservedSubnets: Array.from({ length: 26 }, (_, i) => `10.20.${i}.0/24`) }),
    path: `${L2}.reservedSubnets`,
    message: "at most 25 items are taken",
  },
  {
    why: "too much infrastructure",
    view: l2({ infrastructureSubnets: Array.from({ length: 5 }, (_, i) => `10.20.${i}.0/24`) }),
    path: `${L2}.infrastructureSubnets`,
    message: "at most 4 items are taken",
  },
  {
    why: "both",
    view: l2({ reservedSubnets: ["10.20.0.0/29"], infrastructureSubnets: ["10.20.0.0/30"] }),
    path: L2,
    message: "infrastructureSubnets and reservedSubnets must not overlap",
  },
  // localnet
  {
    why: "primary",
    view: ln({ role: "Primary" }),
    path: `${LN}.role`,
    message: 'expected one of Secondary, not "Primary"',
  },
  {
    why: "no subnets",
    view: ln({ subnets: [] }),
    path: LN,
    message: "Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise",
  },
  {
    why: "subnets of nobody",
    view: ln({ ipam: { mode: "Disabled" } }),
    path: LN,
    message: "Subnets is required with ipam.mode is Enabled or unset, and forbidden otherwise",
  },
  {
    why: "excluded of nothing",
    view: cudn(localnet({ ipam: { mode: "Disabled" }, excludeSubnets: ["10.0.0.0/8"] })),
    path: LN,
    message: "excludeSubnets must be unset when subnets is unset",
  },
  {
    why: "a name with a colon",
    view: ln({ physicalNetworkName: "a:b" }),
    path: `${LN}.physicalNetworkName`,
    message: 'expected a name of 1 to 253 characters without "," and ":"',
  },
  {
    why: "a trunk",
    view: ln({ vlan: { mode: "Trunk" } }),
    path: `${LN}.vlan.mode`,
    message: 'expected one of Access, not "Trunk"',
  },
  {
    why: "no VLAN",
    view: ln({ vlan: { mode: "Access" } }),
    path: `${LN}.vlan.access.id`,
    message: "expected a VLAN from 1 to 4094",
  },
  {
    why: "VLAN 4095",
    view: ln({ vlan: { mode: "Access", access: { id: 4095 } } }),
    path: `${LN}.vlan.access.id`,
    message: "expected a whole number from 1 to 4094, not 4095",
  },
  {
    why: "IPv6 with a small MTU",
    view: ln({ mtu: 1000, subnets: ["fd00::/64"] }),
    path: LN,
    message: "MTU should be greater than or equal to 1280 when IPv6 subnet is used",
  },
];

test.each(ROWS)("a network is refused: $why: $message", ({ view, path, message }) => {
  const reading = readUdn(view);
  expect(reading.kind === "wrong" ? reading.problems : []).toContainEqual({ path, message });
});

test("a ClusterUserDefinedNetwork without selector or network is refused", () => {
  const metadata = {
    name: "blue",
    uid: "u",
    resourceVersion: "1",
    creationTimestamp: "2026-11-20T10:00:00Z",
  };
  const reading = readUdn(projectUdn({ metadata, spec: {} }, "ClusterUserDefinedNetwork"));
  expect(reading).toMatchObject({
    kind: "wrong",
    problems: expect.arrayContaining([
      { path: "spec.namespaceSelector", message: "namespaceSelector is required" },
      { path: "spec.network", message: "network is required" },
    ]),
  });
});

test("an object without metadata is refused with its kind", () => {
  expect(() => projectUdn({ metadata: { name: "blue" } }, "UserDefinedNetwork")).toThrow(
    "UserDefinedNetwork blue: its metadata is not complete",
  );
});
