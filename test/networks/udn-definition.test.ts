import { expect, test } from "vitest";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import type { IntervalSet } from "../../ipam/space/interval-set.ts";
import { defineUdn } from "../../networks/udn/udn-definition.ts";
import { projectUdn, type UdnView } from "../../networks/udn/udn-object.ts";
import { cudn, layer2, layer3, localnet, PRIMARY, udn } from "./udn-objects.ts";

test("a network has the name of the configuration that OVN-Kubernetes renders from it", () => {
  expect(udn(layer2(PRIMARY)).network).toBe("shop_blue");
  expect(cudn(layer2(PRIMARY)).network).toBe("cluster_udn_blue");
});

test("an object without metadata is refused with its kind", () => {
  expect(() => projectUdn({ metadata: { name: "blue" } }, "UserDefinedNetwork")).toThrow(
    "UserDefinedNetwork blue: its metadata is not complete",
  );
});

test("in the proposal's example infrastructure addresses are never given, and reserved ones only on request", () => {
  const definition = defined(
    udn(
      layer2({
        role: "Primary",
        subnets: ["192.168.100.0/24"],
        infrastructureSubnets: ["192.168.100.0/30"],
        reservedSubnets: ["192.168.100.200/29"],
        defaultGatewayIPs: ["192.168.100.2"],
        ipam: { lifecycle: "Persistent" },
      }),
    ),
  );
  const [set] = definition.rangeSets;
  expect(runs(set?.automatic, 4)).toEqual(["192.168.100.4-192.168.100.199", "192.168.100.208-192.168.100.254"]);
  expect(runs(set?.usable, 4)).toEqual(["192.168.100.4-192.168.100.254"]);
  expect(gateways(definition)).toEqual(["192.168.100.2"]);
  expect(definition).toMatchObject({ name: "shop_blue", allowPersistentIPs: true, cooldownSeconds: 0 });
});

test.each([
  {
    why: "the first is the gateway, the second the management port",
    more: {},
    gateway: "10.0.0.1",
    first: "10.0.0.3",
  },
  {
    why: "another gateway leaves the second",
    more: { defaultGatewayIPs: ["10.0.0.5"] },
    gateway: "10.0.0.5",
    first: "10.0.0.1-10.0.0.1,10.0.0.3-10.0.0.4,10.0.0.6",
  },
  {
    why: "the second is the gateway",
    more: { defaultGatewayIPs: ["10.0.0.2"] },
    gateway: "10.0.0.2",
    first: "10.0.0.3",
  },
  {
    why: "both out of the infrastructure",
    more: { infrastructureSubnets: ["10.0.0.8/30"] },
    gateway: "10.0.0.8",
    first: "10.0.0.1-10.0.0.7,10.0.0.12",
  },
  {
    why: "infrastructure with room for one",
    more: { infrastructureSubnets: ["10.0.0.8/32"] },
    gateway: "10.0.0.8",
    first: "10.0.0.2-10.0.0.7,10.0.0.9",
  },
])("a primary network is read: $why", ({ more, gateway, first }) => {
  const definition = defined(udn(layer2({ role: "Primary", subnets: ["10.0.0.0/24"], ...more })));
  expect(gateways(definition)).toEqual([gateway]);
  expect(runs(definition.rangeSets[0]?.automatic, 4).join()).toBe(`${first}-10.0.0.254`);
});

test("a dual-stack network has a gateway of each family", () => {
  const definition = defined(udn(layer2({ role: "Primary", subnets: ["10.0.0.0/24", "fd10::/120"] })));
  expect(gateways(definition)).toEqual(["10.0.0.1", "fd10::1"]);
  expect(runs(definition.rangeSets[1]?.automatic, 6)).toEqual(["fd10::3-fd10::ff"]);
});

test("a secondary network has no router, and a localnet may leave addresses out", () => {
  const secondary = defined(udn(layer2({ role: "Secondary", subnets: ["10.0.0.0/24"] })));
  expect(gateways(secondary)).toEqual([]);
  expect(runs(secondary.rangeSets[0]?.automatic, 4)).toEqual(["10.0.0.1-10.0.0.254"]);
  const local = defined(cudn(localnet({ subnets: ["10.0.0.0/24"], excludeSubnets: ["10.0.0.0/25"] })));
  expect(local.name).toBe("cluster_udn_blue");
  expect(runs(local.rangeSets[0]?.automatic, 4)).toEqual(["10.0.0.128-10.0.0.254"]);
});

test("a layer3 network and one without addresses define no range for all nodes", () => {
  for (const view of [
    udn(layer3({ role: "Primary", subnets: [{ cidr: "10.128.0.0/14", hostSubnet: 24 }] })),
    udn(layer2({ role: "Secondary", ipam: { mode: "Disabled" } })),
    cudn(localnet({ ipam: { mode: "Disabled" } })),
    cudn(localnet({ ipam: { mode: "DHCP" } })),
  ])
    expect(defineUdn(view)).toBeNull();
});

test("host bits of a subnet are dropped, as OVN-Kubernetes does, and empty lists count as absent", () => {
  const definition = defined(udn(layer2({ role: "Primary", subnets: ["10.20.3.4/24"], reservedSubnets: [] })));
  expect(gateways(definition)).toEqual(["10.20.3.1"]);
  expect(runs(definition.rangeSets[0]?.usable, 4)).toEqual(["10.20.3.3-10.20.3.254"]);
});

test("fields that cannot be read are left out, and a network without ranges then defines none", () => {
  const odd = { role: "Primary", subnets: ["10.0.0.0/24", "fd10::"], infrastructureSubnets: 7 };
  const definition = defined(udn(layer2({ ...odd, defaultGatewayIPs: ["10.0.0.x", 3], ipam: "x" })));
  expect(gateways(definition)).toEqual(["10.0.0.1"]);
  expect(runs(definition.rangeSets[0]?.usable, 4)).toEqual(["10.0.0.3-10.0.0.254"]);
  for (const view of [
    udn({}),
    udn({ layer2: "x" }),
    udn(layer2({ subnets: "10.0.0.0/24" })),
    udn(layer2({ subnets: [null, "10.0.0.0", { cidr: 5 }] })),
    cudn(localnet({ subnets: ["10.0.0.0/24"], excludeSubnets: ["10.0.0.0/24"] })),
  ])
    expect(defineUdn(view)).toBeNull();
});

function defined(view: UdnView): NetworkDefinition {
  const definition = defineUdn(view);
  if (definition === null) throw new Error(`${view.network} defines no network`);
  return definition;
}

function gateways({ rangeSets }: NetworkDefinition): string[] {
  return rangeSets.flatMap(({ subnets }) =>
    subnets.flatMap(({ gateway }) => (gateway ? [formatAddress(gateway)] : [])),
  );
}

function runs(set: IntervalSet | undefined, family: 4 | 6): string[] {
  return [...(set?.intervals() ?? [])].map(
    ({ first, last }) => `${formatAddress({ family, value: first })}-${formatAddress({ family, value: last })}`,
  );
}
