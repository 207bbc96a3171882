import { describe, expect } from "vitest";
import { addressesOf, errorOf, held, network, pod, test } from "./fixtures.ts";
import { apply, claim, claimNamed, conditionOf, tryApply, withClaim } from "./manifests.ts";

/** `spec.ipRequests`: the addresses a VM moves in with, given exactly at the claim's first use or refused. */

const IPAM = { subnets: "10.10.0.0/24,fd10::/64", gateway: "10.10.0.1", reservedSubnets: "10.10.0.240/28" };
const config = withClaim("vm1", IPAM);
const args = pod("uid-1");

describe("the addresses of ipRequests are given", () => {
  const GIVEN: [string, string[], (string | RegExp)[]][] = [
    ["one of each family", ["10.10.0.77/24", "fd10::77/64"], ["10.10.0.77/24", "fd10::77/64"]],
    ["without a mask", ["10.10.0.77", "fd10::77"], ["10.10.0.77/24", "fd10::77/64"]],
    [
      "in the other order: the answer has the network's",
      ["fd10::77/64", "10.10.0.77/24"],
      ["10.10.0.77/24", "fd10::77/64"],
    ],
    ["for one family only: the other is chosen", ["10.10.0.77/24"], ["10.10.0.77/24", /^fd10::/]],
    ["out of the reserved subnets, which are for this", ["10.10.0.241/24"], ["10.10.0.241/24", /^fd10::/]],
    ["none", [], [/^10\.10\.0\./, /^fd10::/]],
  ];
  test.for(GIVEN)("%s", async ([, ipRequests, wanted], { daemon }) => {
    await apply(daemon, claim("vm1", { ipRequests }));
    const addresses = addressesOf(await daemon.cni("ADD", "c1", { config, args }));
    expect(addresses).toEqual(wanted.map((one) => (typeof one === "string" ? one : expect.stringMatching(one))));
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual(addresses);
  });

  test("the addresses that a claim holds stay when its ipRequests are edited", async ({ daemon }) => {
    await apply(daemon, claim("vm1", { ipRequests: ["10.10.0.77/24"] }));
    const first = await daemon.cni("ADD", "c1", { config, args });
    await daemon.cni("DEL", "c1", { config });
    await apply(daemon, claim("vm1", { ipRequests: ["10.10.0.99/24"] }));
    expect((await daemon.cni("ADD", "c2", { config, args: pod("uid-2") })).stdout).toBe(first.stdout);
  });
});

describe("ipRequests are refused with a condition on the claim, and no other address is given", () => {
  const REFUSED: [string, string[], number, string, string][] = [
    [
      "taken: the holder is named",
      ["10.10.0.2"],
      120,
      "10.10.0.2 is held by container holder (eth0) on network blue",
      "IPAddressConflict",
    ],
    ["one free, one taken", ["10.10.0.77", "fd10::1"], 120, "fd10::1 is held by container holder", "IPAddressConflict"],
    ["cooling", ["10.10.0.3"], 11, "10.10.0.3 of network blue was released a short time ago", "IPAddressConflict"],
    ["outside", ["10.99.0.1"], 121, "10.99.0.1 is not in 10.10.0.0/24, fd10::/64", "RequestedIPOutsideSubnet"],
    ["the gateway", ["10.10.0.1"], 122, "10.10.0.1 is excluded", "RequestedIPOutsideSubnet"],
    ["the broadcast address", ["10.10.0.255"], 122, "10.10.0.255 is excluded", "RequestedIPOutsideSubnet"],
  ];
  test.for(REFUSED)("%s", async ([, ipRequests, code, message, reason], { daemon }) => {
    const plain = network("blue", IPAM, { allowPersistentIPs: true });
    for (const id of ["holder", "leaver"]) await daemon.cni("ADD", id, { config: plain });
    await daemon.cni("DEL", "leaver", { config: plain });
    const before = await held(daemon, "blue");
    await apply(daemon, claim("vm1", { ipRequests }));
    const error = errorOf(await daemon.cni("ADD", "c1", { config, args }));
    expect(error).toMatchObject({ code, msg: expect.stringContaining(message) });
    expect(await held(daemon, "blue")).toEqual(before);
    expect(await conditionOf(daemon, "vm1")).toBe(`False ${reason}`);
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual([]);
    // The request is mended, and the next attempt is served: no restart, no new claim.
    await apply(daemon, claim("vm1", { ipRequests: ["10.10.0.78"] }));
    expect(addressesOf(await daemon.cni("ADD", "c1", { config, args }))).toContain("10.10.0.78/24");
    expect(await conditionOf(daemon, "vm1")).toBe("True SuccessfulAllocation");
  });

  // What an ADD would refuse with 7 for its form is refused when it is applied, or at the ADD where only the network
  // can tell.
  test("a prefix length that is not the subnet's, and two addresses of one subnet", async ({ daemon }) => {
    await apply(daemon, claim("vm1", { ipRequests: ["10.10.0.77/16"] }));
    const mask = errorOf(await daemon.cni("ADD", "c1", { config, args }));
    expect(mask).toMatchObject({
      code: 7,
      msg: expect.stringMatching(/spec\.ipRequests is 10\.10\.0\.77\/16.*10\.10\.0\.77\/24/),
    });
    await apply(daemon, claim("vm1", { ipRequests: ["10.10.0.77", "10.10.0.78"] }));
    const two = errorOf(await daemon.cni("ADD", "c1", { config, args }));
    expect(two).toMatchObject({ code: 7, msg: expect.stringContaining("10.10.0.78") });
    expect(await held(daemon, "blue")).toEqual([]);
  });

  test.for([
    ["nonsense", ["blue"]],
    ["a number", [7]],
    ["a text instead of a list", "10.10.0.77"],
    ["null in it", [null]],
  ])("a manifest with %s", async ([, ipRequests], { daemon }) => {
    const [result] = await tryApply(daemon, claim("vm1", { ipRequests }));
    expect(result).toMatchObject({ error: { message: expect.stringContaining("spec.ipRequests") } });
  });
});

test("a full pool is a condition on the claim, which is served when an address is free", async ({ daemon }) => {
  const tiny = { subnets: "192.0.2.7/32", cooldownSeconds: 0 };
  await daemon.cni("ADD", "holder", { config: network("blue", tiny, { allowPersistentIPs: true }) });
  await apply(daemon, claim("vm1"));
  const error = errorOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1", tiny), args }));
  expect(error).toMatchObject({ code: 11, msg: "no free address in 192.0.2.7/32 of network blue" });
  expect(await conditionOf(daemon, "vm1")).toBe("False SubnetExhausted");
  await daemon.cni("DEL", "holder", { config: "{}" });
  expect(addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1", tiny), args }))).toEqual([
    "192.0.2.7/32",
  ]);
});
