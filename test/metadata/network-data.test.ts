import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { formatCidr, netmask, networkOf } from "../../ipam/space/cidr.ts";
import type { InstanceNetwork } from "../../metadata/documents/instance.ts";
import { networkConfig } from "../../metadata/documents/network-config.ts";
import { networkData } from "../../metadata/documents/network-data.ts";
import { address, BARE, instance, MAC, network } from "./instances.ts";
import { violations } from "./json-schema.ts";

const SCHEMA = JSON.parse(readFileSync(join(import.meta.dirname, "network-data-schema.json"), "utf8"));

test("a VM with two interfaces has the whole document", () => {
  expect(networkData(instance())).toEqual({
    links: [
      { id: "blue", type: "phy", ethernet_mac_address: MAC, mtu: 1450 },
      { id: "storage", type: "phy", ethernet_mac_address: "52:54:00:00:00:02", mtu: 9000 },
    ],
    networks: [
      {
        id: "network0",
        type: "ipv4",
        link: "blue",
        network_id: "tenantblue",
        ip_address: "192.168.10.5",
        netmask: "255.255.255.0",
        routes: [
          { network: "0.0.0.0", netmask: "0.0.0.0", gateway: "192.168.10.1" },
          { network: "10.0.0.0", netmask: "255.0.0.0", gateway: "192.168.10.1" },
          { network: "169.254.169.254", netmask: "255.255.255.254", gateway: "192.168.10.2" },
        ],
        services: [
          { type: "dns", address: "192.168.10.1" },
          { type: "dns", address: "fd10::53" },
        ],
        dns_search: ["example.net"],
        dns_nameservers: ["192.168.10.1", "fd10::53"],
      },
      {
        id: "network1",
        type: "ipv6",
        link: "blue",
        network_id: "tenantblue",
        ip_address: "fd10::5",
        netmask: "ffff:ffff:ffff:ffff::",
        routes: [
          { network: "::", netmask: "::", gateway: "fd10::1" },
          { network: "fd99::", netmask: "ffff:ffff:ffff::", gateway: "fd10::2" },
        ],
      },
      {
        id: "network2",
        type: "ipv4",
        link: "storage",
        network_id: "storage",
        ip_address: "10.9.0.7",
        netmask: "255.255.0.0",
        routes: [],
      },
    ],
    services: [
      { type: "dns", address: "192.168.10.1" },
      { type: "dns", address: "fd10::53" },
    ],
  });
});

test("the same VM has cloud-init's network configuration version 2", () => {
  expect(networkConfig(instance())).toEqual({
    version: 2,
    ethernets: {
      blue: {
        match: { macaddress: MAC },
        mtu: 1450,
        addresses: ["192.168.10.5/24", "fd10::5/64"],
        routes: [
          { to: "0.0.0.0/0", via: "192.168.10.1" },
          { to: "::/0", via: "fd10::1" },
          { to: "10.0.0.0/8", via: "192.168.10.1" },
          { to: "169.254.169.254/32", via: "192.168.10.2" },
          { to: "fd99::/48", via: "fd10::2" },
        ],
        nameservers: { addresses: ["192.168.10.1", "fd10::53"], search: ["example.net"] },
      },
      storage: { match: { macaddress: "52:54:00:00:00:02" }, mtu: 9000, addresses: ["10.9.0.7/16"] },
    },
  });
  expect(networkConfig(BARE)).toBeNull();
});

describe("the links of the document", () => {
  const second = network({ linkId: "red", network: "red", mac: "52:54:00:00:00:09" });
  test.each<[string, InstanceNetwork[], string[]]>([
    ["one without MAC makes cloud-init drop the rest", [network({ mac: null }), second], ["red"]],
    ["nor one whose MAC is none", [network({ mac: "not a MAC" }), second], ["red"]],
    [
      "the same MAC twice would name one interface twice",
      [network(), network({ linkId: "b", mac: MAC.toUpperCase() })],
      ["blue"],
    ],
    ["ids are what networks refer to", [network(), network({ mac: "52:54:00:00:00:09" })], ["blue"]],
    ["a link without address is still a link", [network({ addresses: [] })], ["blue"]],
    ["a VM without interfaces", [], []],
  ])("%s", (_why, networks, ids) => {
    const data = networkData(instance({ networks }));
    expect(data.links.map(({ id }) => id)).toEqual(ids);
    expect(data.networks.every(({ link }) => ids.includes(link))).toBe(true);
  });

  test.each([
    [0, null, "the schema begins at 1"],
    [65_536, null, "and ends there"],
    [null, null, "not known"],
    [1_500, 1_500, "as it is"],
  ])("MTU %s becomes %s: %s", (mtu, told, _why) => {
    expect(networkData(instance({ networks: [network({ mtu })] })).links[0]?.mtu).toBe(told);
  });
});

describe("routes", () => {
  const v4 = address("192.168.10.5/24", "192.168.10.1");
  test.each<[string, Partial<InstanceNetwork>, string[]]>([
    [
      "no default route from the gateway of an interface that is not the primary",
      { primary: false, addresses: [v4] },
      [],
    ],
    ["but on the primary", { primary: true, addresses: [v4] }, ["0.0.0.0/0.0.0.0 192.168.10.1"]],
    [
      "unless a route says otherwise",
      { primary: true, addresses: [v4], routes: [{ dst: "0.0.0.0/0", gw: "192.168.10.9" }] },
      ["0.0.0.0/0.0.0.0 192.168.10.9"],
    ],
    [
      "a route of the definition holds on any interface",
      { routes: [{ dst: "0.0.0.0/0" }] },
      ["0.0.0.0/0.0.0.0 192.168.10.1"],
    ],
    [
      "the first of two to one place",
      { routes: [{ dst: "10.0.0.0/8" }, { dst: "10.0.0.0/8", gw: "192.168.10.9" }] },
      ["10.0.0.0/255.0.0.0 192.168.10.1"],
    ],
    [
      "without any gateway it is on link",
      { addresses: [address("192.168.10.5/24")], routes: [{ dst: "10.0.0.0/8" }] },
      ["10.0.0.0/255.0.0.0 0.0.0.0"],
    ],
    [
      "by a gateway outside of the subnet, after the route to that",
      { routes: [{ dst: "10.0.0.0/8", gw: "203.0.113.1" }] },
      ["203.0.113.1/255.255.255.255 0.0.0.0", "10.0.0.0/255.0.0.0 203.0.113.1"],
    ],
    [
      "unless the network has that route itself",
      {
        routes: [
          { dst: "10.0.0.0/8", gw: "203.0.113.1" },
          { dst: "203.0.113.1/32", gw: "0.0.0.0" },
        ],
      },
      ["10.0.0.0/255.0.0.0 203.0.113.1", "203.0.113.1/255.255.255.255 0.0.0.0"],
    ],
    [
      "by a router's link-local address, which needs none",
      { addresses: [address("fd09::5/128")], routes: [{ dst: "::/0", gw: "fe80::1" }] },
      ["::/:: fe80::1"],
    ],
    ["of a family that the interface has no address in", { routes: [{ dst: "fd99::/48", gw: "fd10::2" }] }, []],
    ["of another table", { routes: [{ dst: "10.0.0.0/8", table: 100 }] }, []],
    ["of the main table", { routes: [{ dst: "10.0.0.0/8", table: 254 }] }, ["10.0.0.0/255.0.0.0 192.168.10.1"]],
    [
      "a host route, though Nova's schema has no mask for it",
      { routes: [{ dst: "10.1.1.1/32" }] },
      ["10.1.1.1/255.255.255.255 192.168.10.1"],
    ],
  ])("%s", (_why, given, expected) => {
    const { networks } = networkData(instance({ networks: [network(given)] }));
    const routes = networks.flatMap((item) => item.routes ?? []);
    expect(routes.map((route) => `${route.network}/${route.netmask} ${route.gateway}`)).toEqual(expected);
  });

  test("are listed once, with the first address of their family", () => {
    const networks = [network({ addresses: [v4, address("192.168.11.5/24")], routes: [{ dst: "10.0.0.0/8" }] })];
    expect(networkData(instance({ networks })).networks.map(({ routes }) => routes?.length)).toEqual([1, 0]);
  });
});

test.each([
  [4, 0, "0.0.0.0"],
  [4, 17, "255.255.128.0"],
  [4, 32, "255.255.255.255"],
  [6, 0, "::"],
  [6, 48, "ffff:ffff:ffff::"],
  [6, 64, "ffff:ffff:ffff:ffff::"],
  [6, 112, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:0"],
  [6, 128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
] as const)("the mask of an IPv%s /%s is %s", (family, length, mask) => {
  expect(netmask(family, length)).toBe(mask);
});

describe("the document and Nova's schema", () => {
  test("the validator finds errors", () => {
    const { links, networks, services } = networkData(instance());
    expect(violations({ links, networks }, SCHEMA)).toEqual(["it has no services"]);
    const [link] = links;
    expect(violations({ links: [{ ...link, type: "x" }], networks, services }, SCHEMA)).toHaveLength(1);
    const [first] = networks;
    for (const wrong of [{ netmask: "255.0.255.0" }, { ip_address: "1.2.3.4/24" }, { type: "static" }]) {
      expect(violations({ links, networks: [{ ...first, ...wrong }], services }, SCHEMA)).toHaveLength(1);
    }
  });

  const v4Value = fc.bigInt(1n, 0xffff_ffffn).map((value) => ({ family: 4, value }) as const);
  const v6Value = fc.bigInt(1n << 120n, (1n << 128n) - 1n).map((value) => ({ family: 6, value }) as const);
  const anAddress = fc.oneof(v4Value, v6Value);
  const held = fc.tuple(anAddress, fc.nat(128), fc.option(anAddress)).map(([value, length, gateway]) => ({
    address: { address: value, prefixLength: Math.min(length, value.family === 4 ? 31 : 128) },
    gateway: gateway?.family === value.family ? gateway : null,
  }));
  const route = fc.tuple(anAddress, fc.nat(128), fc.option(anAddress)).map(([value, length, gateway]) => ({
    dst: formatCidr(networkOf(value, Math.min(length, value.family === 4 ? 31 : 128))),
    ...(gateway === null ? {} : { gw: formatAddress(gateway) }),
  }));
  const anyNetwork: fc.Arbitrary<InstanceNetwork> = fc.record({
    network: fc.string(),
    linkId: fc.string(),
    mac: fc.option(fc.oneof(fc.constant(MAC), fc.string())),
    mtu: fc.option(fc.integer()),
    addressing: fc.constantFrom("allocated", "dhcp", "unknown"),
    addresses: fc.array(held, { maxLength: 4 }),
    routes: fc.array(route, { maxLength: 6 }),
    dns: fc.record({
      nameservers: fc.array(fc.oneof(anAddress.map(formatAddress), fc.string()), { maxLength: 3 }),
      search: fc.array(fc.string(), { maxLength: 2 }),
    }),
    primary: fc.boolean(),
  });

  /** A gateway outside of the subnet has a host route. */
  const withoutHostMask = (one: { readonly netmask: string }) => ({
    ...one,
    netmask: one.netmask === "255.255.255.255" ? "255.255.255.254" : one.netmask,
  });

  test("any VM's document is valid, except for the mask of a single IPv4 host", () => {
    fc.assert(
      fc.property(fc.array(anyNetwork, { maxLength: 4 }), (networks) => {
        const data = networkData(instance({ networks }));
        const widened = data.networks.map((one) =>
          one.routes === undefined ? one : { ...one, routes: one.routes.map(withoutHostMask) },
        );
        expect(violations({ ...data, networks: widened }, SCHEMA)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test("the gateway of a route is in its family", () => {
    fc.assert(
      fc.property(anyNetwork, (given) => {
        for (const { type, routes = [] } of networkData(instance({ networks: [given] })).networks) {
          for (const { gateway } of routes) {
            expect(parseAddress(gateway).family).toBe(type === "ipv4" ? 4 : 6);
          }
        }
      }),
    );
  });
});
