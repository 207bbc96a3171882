import { expect, test } from "vitest";
import { defineUdn } from "../../claims/udn/udn-definition.ts";
import type { UdnView } from "../../claims/udn/udn-object.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import type { IntervalSet } from "../../ipam/space/interval-set.ts";
import { cudn, layer2, layer3, localnet, udn } from "./udn-objects.ts";

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
  expect(runs(set?.automatic, 4)).toEqual([
    "192.168.100.4-192.168.100.199",
    "192.168.100.208-192.168.100.254",
  ]);
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

test("a layer3 network and one without addresses define no ranges for all nodes", () => {
  for (const view of [
    udn(layer3({ role: "Primary", subnets: [{ cidr: "10.128.0.0/14", hostSubnet: 24 }] })),
    cudn(localnet({ ipam: { mode: "Disabled" } })),
  ])
    expect(defineUdn(view).kind).toBe("without-ranges");
});

test("a wrong field is refused with its path", () => {
  expect(defineUdn(udn(layer2({ role: "Primary" })))).toEqual({
    kind: "wrong",
    problem: "spec.layer2: Subnets is required with ipam.mode is Enabled or unset",
  });
  const outside = defineUdn(cudn(localnet({ subnets: ["10.0.0.0/24"], excludeSubnets: ["10.1.0.0/24"] })));
  expect(outside).toMatchObject({ kind: "wrong", problem: expect.stringContaining("10.1.0.0/24") });
});

function defined(view: UdnView): NetworkDefinition {
  const result = defineUdn(view);
  if (result.kind !== "defined") throw new Error(JSON.stringify(result));
  return result.definition;
}

function gateways({ rangeSets }: NetworkDefinition): string[] {
  return rangeSets.flatMap(({ subnets }) =>
    subnets.flatMap(({ gateway }) => (gateway ? [formatAddress(gateway)] : [])),
  );
}

function runs(set: IntervalSet | undefined, family: 4 | 6): string[] {
  return [...(set?.intervals() ?? [])].map(
    ({ first, last }) =>
      `${formatAddress({ family, value: first })}-${formatAddress({ family, value: last })}`,
  );
}
