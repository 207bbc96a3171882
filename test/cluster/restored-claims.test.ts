/**
 * Claims that come back from a backup with a list that Holdfast did not write, on a network that may be another by now.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { NADS_PATH, NETWORKS_PATH, namespacedPath, objectPath } from "../../kube/objects.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], controller: {} });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const podFor = (claim: string, node: string, network: Network, at = "") =>
  world.pod(`pod-of-${claim}${at}`, node, network, { "ipam-claim-reference": claim });

/** By type. */
async function conditionsOf(claim: string): Promise<Record<string, KubeObject>> {
  const conditions: KubeObject[] = (await world.readClaim(claim)).status.conditions ?? [];
  return Object.fromEntries(conditions.map((one) => [one.type, one]));
}

/** As a backup brings it along: what the network once was said to give. */
const STALE: object = {
  type: "NetworkUpToDate",
  status: "False",
  reason: "PrefixLengthChanged",
  message: "it has another prefix length; the next start of the VM gives it",
  lastTransitionTime: "2026-01-01T00:00:00Z",
};

/** No condition may promise what the ADD does not do. */
const PROMISES = /the next start of the VM gives|and keeps it|the claim has what network/;

describe("a claim whose list an ADD refuses has a condition that says what the ADD says, and none that promises more", () => {
  const cases: [string, string[], number, string, RegExp][] = [
    [
      "two of one family",
      ["10.0.0.11/23", "10.0.0.12/23"],
      130,
      "RequestedIPOutsideSubnet",
      /one address of each subnet/,
    ],
    [
      "two of one family with the former mask",
      ["10.0.0.13/24", "10.0.0.14/24"],
      130,
      "RequestedIPOutsideSubnet",
      /one address of each subnet/,
    ],
    ["an address outside", ["10.9.9.9/23"], 121, "RequestedIPOutsideSubnet", /10\.9\.9\.9 is not in/],
    ["one of two outside", ["10.0.0.15/23", "fd99::1/64"], 121, "RequestedIPOutsideSubnet", /fd99::1 is not in/],
    [
      "an excluded address with another mask",
      ["10.0.1.255/24"],
      122,
      "RequestedIPOutsideSubnet",
      /10\.0\.1\.255 is excluded/,
    ],
    [
      "no prefix length",
      ["10.0.0.16", "fd00::10"],
      130,
      "RequestedIPOutsideSubnet",
      /status\.ips of claim .* is 10\.0\.0\.16/,
    ],
    ["nonsense", ["not an address"], 130, "RequestedIPOutsideSubnet", /status\.ips of claim .* is not an address/],
    [
      "nonsense beside an address",
      ["10.0.0.17/23", "10.0.0.500/23"],
      130,
      "RequestedIPOutsideSubnet",
      /is 10\.0\.0\.500\/23/,
    ],
    ["an address of another", ["10.0.0.18/23"], 120, "IPAddressConflict", /10\.0\.0\.18 is held by pod shop\/holder/],
  ];
  test.each(
    cases.flatMap((one, at) => [
      [`${one[0]}`, `plain-${at}`, [] as object[], one] as const,
      [`${one[0]}, with a condition of before`, `stale-${at}`, [STALE] as object[], one] as const,
    ]),
  )("%s", async (_why, name, conditions, [, ips, code, reason, says]) => {
    const network = await world.network(name, { subnets: "10.0.0.0/23,fd00::/64" });
    if (code === 120)
      await world.given(await world.pod(`holder-${name}`, "node-b", network, { ips: ["10.0.0.18"] }), network);
    await world.claim(name, name, { ips, conditions });
    const pod = await podFor(name, "node-a", network);
    const said = await world.refused(pod, network, code);
    await world.advance(30_000);
    const { IPsAllocated: allocated, NetworkUpToDate: standing } = await conditionsOf(name);
    expect(allocated).toMatchObject({ status: "False", reason });
    expect(said).toMatch(code === 120 ? /10\.0\.0\.18 is held by/ : says);
    // The controller tells of a holder in words of its own.
    if (code !== 120) expect(said).toContain(allocated?.message);
    else expect(allocated?.message).toMatch(/10\.0\.0\.18.* is held by/);
    for (const one of [allocated, standing]) expect(one?.message ?? "").not.toMatch(PROMISES);
    if (conditions.length > 0) expect(standing).toMatchObject({ status: "Unknown", reason: "NotGivenYet" });
    else expect(standing).toBeUndefined();
    expect((await world.readClaim(name)).status.ips).toEqual(ips);
    await world.del(pod, network);
  });
});

describe("a claim with the former mask gets its addresses with the mask of now", () => {
  const FORMER = ["10.0.0.10/24", "fd00::a/64"];
  const PRESENT = ["10.0.0.10/23", "fd00::a/64"];

  test.each([
    ["before the controller has recorded them", false],
    ["after it", true],
  ])("%s, at each start, on each node, and the list follows", async (_when, recorded) => {
    const name = recorded ? "recorded" : "fresh";
    const network = await world.network(name, { subnets: "10.0.0.0/23,fd00::/64" });
    if (recorded) await world.given(await world.pod("first", "node-b", network), network);
    await world.claim(name, name, { ips: FORMER, conditions: [STALE] });
    if (recorded) {
      const adopted = async () => (await world.allocations(network)).filter(({ spec }) => spec.adopted).length === 2;
      await world.until(adopted, "the controller to record them");
    }
    const first = await podFor(name, "node-a", network);
    expect(await world.given(first, network)).toEqual(PRESENT);
    for (const ip of PRESENT) expect((await world.allocation(network, ip)).spec).toMatchObject({ address: ip });
    // Before the list follows as well: another sandbox gets the same.
    expect(await world.given(first, network, { containerId: "second-sandbox" })).toEqual(PRESENT);
    await world.until(
      async () => (await world.readClaim(name)).status.ips.join() === PRESENT.join(),
      "the list to follow",
    );
    await world.until(
      async () => (await conditionsOf(name)).NetworkUpToDate?.status === "True",
      "what it was told to go",
    );
    expect((await conditionsOf(name)).IPsAllocated).toMatchObject({ status: "True" });
    await world.del(first, network, { containerId: "second-sandbox" });
    await world.kubevirt.endPod(first);
    const next = await podFor(name, "node-b", network, "-next");
    expect(await world.given(next, network)).toEqual(PRESENT);
  });

  test("also where the network is changed once they are recorded", async () => {
    const network = await world.network("twice", { subnets: "10.0.0.0/24" });
    await world.given(await world.pod("twice-first", "node-b", network), network);
    await world.claim("twice", "twice", { ips: ["10.0.0.77/25"] });
    await world.until(
      async () => (await world.allocations(network)).some(({ spec }) => spec.adopted),
      "the controller to record it",
    );
    const ipam = { subnets: "10.0.0.0/22" };
    await world.cluster.api.patch(namespacedPath(NADS_PATH, NAMESPACE, "twice"), {
      spec: { config: configOf("twice", ipam) },
    });
    // The controller hears of it when the nodes do, and is later with what it writes.
    const published = async () => (await world.cluster.api.get(objectPath(NETWORKS_PATH, "twice"))).status.subnets;
    await world.until(async () => (await published()) === ipam.subnets, "the definition to be known");
    const changed = { ...network, config: configOf("twice", ipam) };
    const pod = await podFor("twice", "node-a", changed);
    expect(await world.given(pod, changed)).toEqual(["10.0.0.77/22"]);
  });
});
