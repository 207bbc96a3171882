import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipamclaims.k8s.cni.cncf.io";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function podFor(claim: string, node: string, network: Network): Promise<KubeObject> {
  return world.pod(`pod-of-${claim}`, node, network, { "ipam-claim-reference": claim });
}

/** A network that has been used before: what claims of it list now is not imported any more. */
async function usedNetwork(name: string): Promise<Network> {
  const network = await world.network(name);
  await world.given(await world.pod(`first-${name}`, "node-b", network), network);
  return network;
}

async function ownedByClaims(network: Network): Promise<string[]> {
  const all = await world.allocations(network);
  return all.filter(({ spec }) => spec.owner.kind === "IPAMClaim").map(({ spec }) => spec.address);
}

/** Others get addresses on every node as if nothing were wrong. */
async function expectUnharmed(network: Network): Promise<void> {
  const given: string[] = [];
  for (const node of ["node-a", "node-b"]) {
    given.push(...(await world.given(await world.pod(`other-${network.name}-${node}`, node, network), network)));
  }
  expect(new Set(given).size).toBe(given.length);
}

test("addresses that a claim's status already lists are given to its pod and reserved for the claim", async () => {
  const network = await world.network("adopted", { subnets: "10.0.0.0/24,fd00::/64" });
  const ips = ["10.0.0.77/24", "fd00::4d/64"];
  await world.claim("lift", "adopted", { ips });
  const pod = await podFor("lift", "node-a", network);
  expect(await world.given(pod, network)).toEqual(ips);
  const object = await world.allocation(network, "10.0.0.77/24");
  expect(object.spec.owner).toMatchObject({ kind: "IPAMClaim", namespace: "shop", name: "lift" });
  expect((await world.untilReason("lift", "SuccessfulAllocation")).status).toBe("True");
  expect((await world.readClaim("lift")).status).toMatchObject({ ips, ownerPod: { name: "pod-of-lift" } });
  await world.del(pod, network);
  const taker = await world.pod("taker", "node-b", network, { ips: ["10.0.0.77"] });
  expect(await world.refused(taker, network, 120)).toContain("claim shop/lift");
});

test("a claim that lists an address of one family gets none of the other family", async () => {
  const network = await world.network("half", { subnets: "10.0.0.0/24,fd00::/64" });
  await world.claim("half", "half", { ips: ["fd00::7/64"] });
  expect(await world.given(await podFor("half", "node-b", network), network)).toEqual(["fd00::7/64"]);
});

test.each([
  ["outside", "10.9.9.9/24", 121, "RequestedIPOutsideSubnet"],
  ["excluded", "10.0.0.255/24", 122, "RequestedIPOutsideSubnet"],
] as const)("a claim that lists an unusable address is refused: %s", async (name, ip, code, reason) => {
  const network = await usedNetwork(name);
  await world.claim(name, name, { ips: [ip] });
  const pod = await podFor(name, "node-a", network);
  expect(await world.refused(pod, network, code)).toContain(ip.split("/")[0]);
  expect(await world.untilReason(name, reason)).toMatchObject({ status: "False" });
  expect((await world.readClaim(name)).status.ips).toEqual([ip]);
  expect(await ownedByClaims(network)).toEqual([]);
  await expectUnharmed(network);
  await world.del(pod, network);
});

test("a claim that lists another pod's address is refused, and the condition names the holder", async () => {
  const network = await world.network("stolen");
  const holder = await world.pod("holder", "node-b", network);
  const [ip] = await world.given(holder, network);
  await world.claim("thief", "stolen", { ips: [ip as string] });
  const pod = await podFor("thief", "node-a", network);
  expect(await world.refused(pod, network, 120)).toContain("pod shop/holder (net1)");
  const condition = await world.untilReason("thief", "IPAddressConflict");
  expect(condition).toMatchObject({ status: "False" });
  expect(condition.message).toBe(
    `${ip?.split("/")[0]} is held by pod shop/holder (net1) on network stolen; the list of claim shop/thief asks for it`,
  );
  expect(await world.untilEvent(pod, "AddressTaken")).toContain("shop/holder");
  expect((await world.allocation(network, ip as string)).spec.owner.name).toBe("holder");
  await expectUnharmed(network);

  // When the holder goes, the address is the claim's, which wishes for it alone.
  await world.del(holder, network);
  await world.becomes(network, ip as string, "Cooling");
  expect(await world.given(pod, network)).toEqual([ip]);
  await world.untilReason("thief", "SuccessfulAllocation");
});

test.each([
  ["words", ["not an address"]],
  ["no-mask", ["10.0.0.5"]],
  ["half-good", ["10.0.0.5/24", "10.0.0.500/24"]],
])("a claim whose status.ips cannot be read is refused with an event: %s", async (name, ips) => {
  const network = await usedNetwork(name);
  await world.claim(name, name, { ips });
  const pod = await podFor(name, "node-a", network);
  expect(await world.refused(pod, network, 130)).toContain(`status.ips of claim shop/${name}`);
  expect(await world.untilEvent(pod, "RequestInvalid")).toContain(String(ips.at(-1)));
  expect((await world.readClaim(name)).status.ips).toEqual(ips);
  expect(await ownedByClaims(network)).toEqual([]);
  await expectUnharmed(network);
});

test("a claim gets the addresses in spec.ipRequests where its definition has that field", async () => {
  const property = { type: "array", items: { type: "string" } };
  const path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/ipRequests";
  await world.cluster.api.patch(DEFINITION, [{ op: "add", path, value: property }], "json");
  const network = await world.network("asking", { subnets: "10.0.0.0/24,fd00::/64" });
  // Until the server serves the new definition it drops the field.
  let claim: KubeObject = null;
  for (let attempt = 0; claim?.spec.ipRequests === undefined; attempt += 1) {
    if (claim !== null) await world.deleteClaim(claim.metadata.name);
    claim = await world.claim(`asker-${attempt}`, "asking", { spec: { ipRequests: ["10.0.0.42/24"] } });
  }
  const { name } = claim.metadata;
  const first = await world.given(await podFor(name, "node-a", network), network);
  expect(first).toEqual(["10.0.0.42/24", expect.stringMatching(/^fd00::.*\/64$/)]);

  await world.claim("too-late", "asking", { spec: { ipRequests: ["10.0.0.42/24"] } });
  expect(await world.refused(await podFor("too-late", "node-b", network), network, 120)).toContain(name);
  expect(await world.untilReason("too-late", "IPAddressConflict")).toMatchObject({ status: "False" });

  await world.claim("elsewhere", "asking", { spec: { ipRequests: ["10.7.0.1/24"] } });
  await world.refused(await podFor("elsewhere", "node-b", network), network, 121);
  await world.untilReason("elsewhere", "RequestedIPOutsideSubnet");

  await world.claim("gibberish", "asking", { spec: { ipRequests: ["ten"] } });
  await world.refused(await podFor("gibberish", "node-b", network), network, 7);
  await world.untilReason("gibberish", "RequestedIPOutsideSubnet");
  await expectUnharmed(network);
});
