/**
 * Claims that come back from a backup with a list that Holdfast did not write, on a network that may be another by now.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { NADS_PATH, namespacedPath } from "../../kube/objects.ts";
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

describe("a claim whose list an ADD refuses has a condition that says what the ADD says", () => {
  const cases: [string, string[], number, string, RegExp][] = [
    ["an address outside", ["10.9.9.9/23"], 121, "RequestedIPOutsideSubnet", /10\.9\.9\.9 is not in/],
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
    // While it has nothing, nobody judges what it would have.
    expect(standing).toEqual(conditions[0]);
    expect((await world.readClaim(name)).status.ips).toEqual(ips);
    await world.del(pod, network);
  });
});

describe("a list is a wish: of each subnet the first that lies in it, and what it lacks is allocated", () => {
  test.each<[string, string[], RegExp[]]>([
    ["two of one family", ["10.0.0.11/23", "10.0.0.12/23", "fd00::11/64"], [/^10\.0\.0\.11\/23$/, /^fd00::11\/64$/]],
    [
      "two with the former mask",
      ["fd00::13/96", "10.0.0.13/24", "10.0.0.14/24"],
      [/^10.0.0.13\/23$/, /^fd00::13\/64$/],
    ],
    ["one of two outside", ["10.0.0.15/23", "fd99::1/64"], [/^10\.0\.0\.15\/23$/, /^fd00::.*\/64$/]],
    ["one family", ["fd00::19/64"], [/^10\.0\.[01]\.\d+\/23$/, /^fd00::19\/64$/]],
    ["nonsense beside an address", ["10.0.0.17/23", "10.0.0.500/23"], [/^10\.0\.0\.17\/23$/, /^fd00::.*\/64$/]],
  ])("%s", async (why, ips, expected) => {
    const name = why.replaceAll(" ", "-");
    const network = await world.network(name, { subnets: "10.0.0.0/23,fd00::/64" });
    await world.claim(name, name, { ips, conditions: [STALE] });
    const listed = async () => (await world.readClaim(name)).status.ips as string[];
    const isListed = async () => {
      const now = await listed();
      return now.length === expected.length && expected.every((one, at) => one.test(now[at] as string));
    };
    await world.until(isListed, "the list to follow");
    await world.until(
      async () => (await conditionsOf(name)).NetworkUpToDate?.status === "True",
      "what it was told to go",
    );
    expect(await world.given(await podFor(name, "node-a", network), network)).toEqual(await listed());
    expect((await world.bound(network)).length).toBe(expected.length);
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
      for (const ip of PRESENT) await world.becomes(network, ip, "Bound");
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
    await world.becomes(network, "10.0.0.77/24", "Bound");
    expect((await world.allocation(network, "10.0.0.77/24")).spec.address).toBe("10.0.0.77/24");
    const ipam = { subnets: "10.0.0.0/22" };
    await world.cluster.api.patch(namespacedPath(NADS_PATH, NAMESPACE, "twice"), {
      spec: { config: configOf("twice", ipam) },
    });
    const hasIt = async () => (await world.allocation(network, "10.0.0.77/24")).spec.address === "10.0.0.77/22";
    await world.until(hasIt, "what it has to follow");
    const changed = { ...network, config: configOf("twice", ipam) };
    const pod = await podFor("twice", "node-a", changed);
    expect(await world.given(pod, changed)).toEqual(["10.0.0.77/22"]);
  });
});
