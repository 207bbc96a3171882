import { describe, expect, test } from "vitest";
import { parsePassed } from "../../ipam/definition/definition-keys.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { hasRanges, parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { formatCidr } from "../../ipam/space/cidr.ts";
import { COOLDOWN_SECONDS_DEFAULT } from "../../ipam/space/cooldown.ts";
import { define, firstRangeSet, pluginConfig, refusalOf, runs } from "./definitions.ts";

function shapeOf(definition: NetworkDefinition): string[] {
  return definition.rangeSets.map((set) =>
    set.subnets
      .map(({ cidr, gateway }) => `${formatCidr(cidr)}${gateway ? ` via ${formatAddress(gateway)}` : ""}`)
      .join(" + "),
  );
}

describe("excluded by default", () => {
  test.each<[string, object, string, string]>([
    ["10.0.0.0/24", {}, "10.0.0.1-10.0.0.254", "IPv4 network and broadcast; .1 is not special"],
    ["10.0.0.0/30", {}, "10.0.0.1-10.0.0.2", "the longest prefix with network and broadcast"],
    ["10.0.0.0/31", {}, "10.0.0.0-10.0.0.1", "RFC 3021: both ends are hosts"],
    ["10.0.0.7/32", {}, "10.0.0.7-10.0.0.7", "a single address"],
    ["fd00::/64", {}, "fd00::1-fd00::ffff:ffff:ffff:ffff", "IPv6 subnet-router anycast, no broadcast"],
    ["fd00::/126", {}, "fd00::1-fd00::3", "the longest prefix with anycast"],
    ["fd00::/127", {}, "fd00::-fd00::1", "RFC 6164: both ends are hosts"],
    ["fd00::7/128", {}, "fd00::7-fd00::7", "a single address"],
    ["10.0.0.0/29", { gateway: "10.0.0.3" }, "10.0.0.1-10.0.0.2 10.0.0.4-10.0.0.6", "the gateway, in the middle"],
    ["10.0.0.0/31", { gateway: "10.0.0.1" }, "10.0.0.0-10.0.0.0", "the gateway of a point-to-point link"],
  ])("%s: %s", (subnets, more, usable) => {
    const set = firstRangeSet({ subnets, ...more });
    expect(runs(set, set.usable)).toBe(usable);
    expect(runs(set, set.automatic)).toBe(usable);
  });

  test.each<[object, string, string, string]>([
    [{ isGateway: true }, "10.0.0.0/29 via 10.0.0.1", "10.0.0.2-10.0.0.6", "the bridge will take .1"],
    [{ isDefaultGateway: true }, "10.0.0.0/29 via 10.0.0.1", "10.0.0.2-10.0.0.6", "implies isGateway"],
    [{ isGateway: false }, "10.0.0.0/29", "10.0.0.1-10.0.0.6", "said to be none"],
    [{ isGateway: "yes" }, "10.0.0.0/29", "10.0.0.1-10.0.0.6", "the key is the other plugin's to judge"],
  ])("with %o: %s", (topLevel, shape, usable) => {
    const definition = define({ subnets: "10.0.0.0/29" }, topLevel);
    const [set] = definition.rangeSets;
    expect(shapeOf(definition)).toEqual([shape]);
    expect(set && runs(set, set.usable)).toBe(usable);
  });

  test.each([
    ["fd00::/64", "fd00::/64 via fd00::1"],
    ["10.0.0.0/31", "10.0.0.0/31 via 10.0.0.0"],
    ["fd00::/127", "fd00::/127 via fd00::"],
    ["10.0.0.7/32", "10.0.0.7/32"],
    ["fd00::7/128", "fd00::7/128"],
  ])("an implied gateway of %s: %s", (subnets, shape) => {
    expect(shapeOf(define({ subnets }, { isGateway: true }))).toEqual([shape]);
  });

  test("an implied gateway is used only where none is named", () => {
    const definition = define({ subnets: "10.0.0.0/24,fd00::/64", gateway: "10.0.0.9" }, { isGateway: true });
    expect(shapeOf(definition)).toEqual(["10.0.0.0/24 via 10.0.0.9", "fd00::/64 via fd00::1"]);
  });
});

describe("our own keys", () => {
  test("are read as in the example of docs/cni.md", () => {
    const definition = define(
      {
        subnets: "192.168.10.0/24,fd10::/64",
        excludeSubnets: "192.168.10.0/29",
        reservedSubnets: "192.168.10.240/28",
        gateway: "192.168.10.1",
        routes: [{ dst: "0.0.0.0/0" }],
        dns: {},
        cooldownSeconds: 30,
      },
      { name: "tenantblue-network", allowPersistentIPs: true },
    );
    expect(definition).toMatchObject({
      name: "tenantblue-network",
      routes: [{ dst: "0.0.0.0/0" }],
      dns: {},
      cooldownSeconds: 30,
      allowPersistentIPs: true,
      statusWhenFull: "ok",
      notes: [],
    });
    expect(definition).not.toHaveProperty("resolvConf");
    expect(shapeOf(definition)).toEqual(["192.168.10.0/24 via 192.168.10.1", "fd10::/64"]);
    const [v4, v6] = definition.rangeSets;
    expect(v4 && runs(v4, v4.usable)).toBe("192.168.10.8-192.168.10.254");
    expect(v4 && runs(v4, v4.automatic)).toBe("192.168.10.8-192.168.10.239");
    expect(v4?.size).toBe(256n);
    expect(v6?.size).toBe(1n << 64n);
  });

  test("have defaults", () => {
    expect(define({ subnets: "10.0.0.0/24" })).toMatchObject({
      cooldownSeconds: COOLDOWN_SECONDS_DEFAULT,
      retainSeconds: 0,
      allowPersistentIPs: false,
      statusWhenFull: "ok",
      routes: [],
      dns: {},
    });
    expect(define({ subnets: "10.0.0.0/24", cooldownSeconds: 0 }).cooldownSeconds).toBe(0);
    expect(define({ subnets: "10.0.0.0/24", retainSeconds: 2_592_000 }).retainSeconds).toBe(2_592_000);
  });

  test("make three range sets of three subnets, in the given order", () => {
    expect(shapeOf(define({ subnets: "fd00::/64, 10.1.0.0/24,10.0.0.0/24" }))).toEqual([
      "fd00::/64",
      "10.1.0.0/24",
      "10.0.0.0/24",
    ]);
  });

  test.each<[object, object, string]>([
    [{ subnets: ["10.0.0.0/24", "fd00::/64"] }, {}, "a list instead of a text"],
    [{ subnets: " 10.0.0.0/24 , fd00::/64 " }, {}, "spaces around the commas"],
    [{}, { subnets: "10.0.0.0/24,fd00::/64" }, "at the top level, as OVN-Kubernetes writes it"],
    [{ subnets: "10.0.0.0/24,fd00::/64" }, { subnets: ["10.0.0.0/24", "fd00::/64"] }, "in both, the same"],
    [{ subnets: "10.0.0.0/24,FD00:0::/64", excludeSubnets: "", reservedSubnets: null }, {}, "empty and null are unset"],
    [{ subnets: "10.0.0.0/24,fd00::/64" }, { topology: "localnet", vlanID: 7, mtu: 1400 }, "keys of others"],
    [{ subnets: "10.0.0.0/24,fd00::/64" }, { type: "macvlan", cniVersion: "1.1.0" }, "another plugin, another version"],
    [{ subnets: "10.0.0.0/24,fd00::/64", cooldownSeconds: 60 }, { statusWhenFull: "ok" }, "defaults said aloud"],
    [{ ranges: [[{ subnet: "10.0.0.0/24" }], [{ subnet: "fd00::/64" }]] }, {}, "host-local's, but with gateways"],
  ])("mean the same in %o and %o", (ipam, topLevel) => {
    const plain = define({ subnets: "10.0.0.0/24,fd00::/64" });
    const gateways = define({ subnets: "10.0.0.0/24,fd00::/64" }, { isGateway: true });
    const { fingerprint } = define(ipam, topLevel);
    expect(fingerprint).toBe("ranges" in ipam ? gateways.fingerprint : plain.fingerprint);
  });

  test("exclude an address that is also reserved", () => {
    const set = firstRangeSet({
      subnets: "10.0.0.0/24",
      excludeSubnets: "10.0.0.0/25,10.0.0.128/32",
      reservedSubnets: "10.0.0.128/26,10.0.0.250/32",
    });
    expect(runs(set, set.usable)).toBe("10.0.0.129-10.0.0.254");
    expect(runs(set, set.automatic)).toBe("10.0.0.192-10.0.0.249 10.0.0.251-10.0.0.254");
  });

  test("may have exclusions that repeat or contain each other", () => {
    const set = firstRangeSet({
      subnets: "10.0.0.0/28",
      excludeSubnets: ["10.0.0.4/30", "10.0.0.5/32", "10.0.0.4/30", "10.0.0.0/32"],
    });
    expect(runs(set, set.usable)).toBe("10.0.0.1-10.0.0.3 10.0.0.8-10.0.0.14");
    expect(set.size).toBe(16n);
  });

  test("may have a gateway in an exclusion, or IPv6's subnet-router anycast address", () => {
    expect(shapeOf(define({ subnets: "10.0.0.0/24", excludeSubnets: "10.0.0.0/30", gateway: "10.0.0.1" }))).toEqual([
      "10.0.0.0/24 via 10.0.0.1",
    ]);
    expect(shapeOf(define({ subnets: "fd00::/64", gateway: "fd00::" }))).toEqual(["fd00::/64 via fd00::"]);
  });

  test("may have several gateways, one for each subnet", () => {
    expect(shapeOf(define({ subnets: "10.0.0.0/24,10.1.0.0/24,fd00::/64", gateway: "fd00::1,10.1.0.1" }))).toEqual([
      "10.0.0.0/24",
      "10.1.0.0/24 via 10.1.0.1",
      "fd00::/64 via fd00::1",
    ]);
  });
});

describe("routes and dns", () => {
  test("become canonical, with the numbers of CNI 1.1.0", () => {
    const { routes, dns } = define({
      subnets: "10.0.0.0/24",
      routes: [
        { dst: "0.0.0.0/0", gw: "10.0.0.1" },
        { dst: "FD00:0::/48", gw: "FD00::1", mtu: 1400, advmss: 1360, priority: 100, table: 254, scope: 253 },
      ],
      dns: {
        nameservers: ["10.0.0.53", "FD00::53"],
        domain: "blue.example",
        search: ["a", "b"],
        options: ["ndots:2"],
      },
    });
    expect(routes).toEqual([
      { dst: "0.0.0.0/0", gw: "10.0.0.1" },
      { dst: "fd00::/48", gw: "fd00::1", mtu: 1400, advmss: 1360, priority: 100, table: 254, scope: 253 },
    ]);
    expect(dns).toEqual({
      nameservers: ["10.0.0.53", "fd00::53"],
      domain: "blue.example",
      search: ["a", "b"],
      options: ["ndots:2"],
    });
  });
});

describe("notes", () => {
  test.each([
    [{}, { routes: [] }, "top level"],
    [{ reservedSubnets: "10.0.0.0/24" }, {}, "reserved as a whole"],
  ])("%o %o", (ipam, topLevel, text) => {
    const { notes } = define({ subnets: "10.0.0.0/24", ...ipam }, topLevel);
    expect(notes).toHaveLength(1);
    expect(notes[0]).toContain(text);
  });
});

describe("without ranges", () => {
  test.each([[{}], [{ subnets: "" }], [{ subnets: null }], [{ ranges: [] }], [{ subnets: [] }]])("%o", (ipam) => {
    expect(hasRanges(pluginConfig(ipam))).toBe(false);
    expect(define({ ...ipam, cooldownSeconds: 5 })).toMatchObject({ rangeSets: [], cooldownSeconds: 5 });
  });

  test("the other keys are still checked", () => {
    expect(refusalOf(() => define({ rangestart: 1 })).message).toContain("ipam.rangestart");
    expect(refusalOf(() => define({ excludeSubnets: "10.0.0.0/30" })).message).toContain("none are given");
    expect(refusalOf(() => define({ gateway: "10.0.0.1" })).message).toContain("ipam.gateway");
  });

  test.each([
    [pluginConfig({ subnets: "10.0.0.0/24" })],
    [pluginConfig({}, { subnets: "10.0.0.0/24" })],
    [pluginConfig({ subnet: "10.0.0.0/24" })],
    [pluginConfig({ ranges: [[{ subnet: "10.0.0.0/24" }]] })],
    [pluginConfig({}, { runtimeConfig: { ipRanges: [[{ subnet: "10.0.0.0/24" }]] } })],
  ])("hasRanges is true of %o", (conf) => {
    expect(hasRanges(conf)).toBe(true);
    expect(parsePluginConfig(conf).rangeSets).toHaveLength(1);
  });

  test.each([[{}], [{ ipam: [] }]])("hasRanges is false of %o, and does not throw", (conf) => {
    expect(hasRanges(conf)).toBe(false);
  });
});

test("a configuration is read from the runtime's text on stdin", () => {
  const text = JSON.stringify(pluginConfig({ subnets: "10.0.0.0/24" }));
  expect(parsePluginConfig(parsePassed(text)).fingerprint).toBe(define({ subnets: "10.0.0.0/24" }).fingerprint);
  expect(refusalOf(() => parsePassed("{")).code).toBe("CONFIG_UNREADABLE");
});

describe("the fingerprint differs when", () => {
  const plain = { subnets: "10.0.0.0/24,fd00::/64" };
  test.each<[object, object, string]>([
    [plain, { name: "green" }, "the network is another"],
    [{ subnets: "fd00::/64,10.0.0.0/24" }, {}, "the order of the answer differs"],
    [{ subnets: "10.0.0.0/23,fd00::/64" }, {}, "a mask differs"],
    [{ ...plain, gateway: "10.0.0.1" }, {}, "there is a gateway"],
    [{ ...plain, excludeSubnets: "10.0.0.9/32" }, {}, "something is excluded"],
    [{ ...plain, reservedSubnets: "10.0.0.9/32" }, {}, "something is reserved"],
    [{ ...plain, cooldownSeconds: 61 }, {}, "the rest differs"],
    [{ ...plain, statusWhenFull: "fail" }, {}, "STATUS answers otherwise"],
    [plain, { allowPersistentIPs: true }, "claims are served"],
    [{ ...plain, routes: [{ dst: "0.0.0.0/0" }] }, {}, "there is a route"],
    [{ ...plain, dns: { domain: "a" } }, {}, "there is DNS"],
    [{ ...plain, resolvConf: "/etc/resolv.conf" }, {}, "DNS comes from a file"],
  ])("%o %o: %s", (ipam, topLevel) => {
    expect(define(ipam, topLevel).fingerprint).not.toBe(define(plain).fingerprint);
  });

  test("addresses are excluded in one and reserved in the other", () => {
    const excluded = define({ ...plain, excludeSubnets: "10.0.0.9/32" });
    const reserved = define({ ...plain, reservedSubnets: "10.0.0.9/32" });
    expect(excluded.fingerprint).not.toBe(reserved.fingerprint);
  });

  test("the spelling differs: it does not", () => {
    const one = define({
      ...plain,
      excludeSubnets: "10.0.0.8/30,10.0.0.12/30,10.0.0.9/32",
      dns: { domain: "a", search: ["b"] },
    });
    const other = define({ ...plain, excludeSubnets: ["10.0.0.8/29"], dns: { search: ["b"], domain: "a" } });
    expect(one.fingerprint).toBe(other.fingerprint);
  });
});
