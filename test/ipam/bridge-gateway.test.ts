import { describe, expect, test } from "vitest";
import { gatewaysOf, withBridgeGateways } from "../../ipam/definition/bridge-gateway.ts";
import { nodeIsGateway } from "../../ipam/definition/plugin-config.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { define, runs } from "./definitions.ts";

test.each([
  [{ isGateway: true }, true],
  [{ isDefaultGateway: true }, true],
  [{ type: "ptp" }, true],
  [{ type: "bridge" }, false],
  [{ isGateway: false }, false],
  [{ isGateway: "true" }, false],
  [{}, false],
])("%o: %s", (conf, expected) => {
  expect(nodeIsGateway(conf)).toBe(expected);
});

describe("a definition on a bridge that is the gateway", () => {
  test.each<[object, string[], string[], string]>([
    [{ subnets: "10.0.0.0/29" }, ["10.0.0.1"], ["10.0.0.2-10.0.0.6"], "the first address"],
    [{ subnets: "10.0.0.0/29", gateway: "10.0.0.4" }, ["10.0.0.4"], ["10.0.0.1-10.0.0.3 10.0.0.5-10.0.0.6"], "has one"],
    [
      { subnets: "10.0.0.0/29,fd00::/125", gateway: "10.0.0.4" },
      ["10.0.0.4", "fd00::1"],
      ["10.0.0.1-10.0.0.3 10.0.0.5-10.0.0.6", "fd00::2-fd00::7"],
      "one subnet lacks it",
    ],
    [{ subnets: "10.0.0.0/31" }, ["10.0.0.0"], ["10.0.0.1-10.0.0.1"], "both ends are hosts"],
    [{ subnets: "10.0.0.5/32" }, [], ["10.0.0.5-10.0.0.5"], "its only address"],
    [
      { subnets: "10.0.0.0/29", reservedSubnets: "10.0.0.0/30" },
      ["10.0.0.1"],
      ["10.0.0.2-10.0.0.6"],
      "a reserved one is not given when asked for either",
    ],
  ])("%o: gateways %j, usable %j (%s)", (ipam, gateways, usable) => {
    const definition = withBridgeGateways(define(ipam));
    expect(gatewaysOf(definition).map(formatAddress)).toEqual(gateways);
    expect(definition.rangeSets.map((set) => runs(set, set.usable))).toEqual(usable);
    expect(definition.rangeSets.map((set) => set.size)).toEqual(define(ipam).rangeSets.map((set) => set.size));
  });

  test("means the same as the definition that says isGateway itself", () => {
    const ipam = { subnets: "10.0.0.0/24,fd00::/64", excludeSubnets: "10.0.0.8/29", metadata: true };
    const derived = withBridgeGateways(define(ipam));
    expect(derived.fingerprint).toBe(define(ipam, { isGateway: true }).fingerprint);
    expect(withBridgeGateways(derived)).toBe(derived);
  });

  test("is the definition itself when every subnet has a gateway", () => {
    const definition = define({ subnets: "10.0.0.0/24", gateway: "10.0.0.9" });
    expect(withBridgeGateways(definition)).toBe(definition);
  });
});
