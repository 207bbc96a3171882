import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { Scenario } from "./scenario.ts";
import type { TestNetwork } from "./scenario-parts.ts";

const DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipamclaims.k8s.cni.cncf.io";

let scene: Scenario;

beforeAll(async () => {
  scene = await Scenario.start({ nodes: ["node-a", "node-b"] });
});
afterEach(() => scene.expectClean());
afterAll(() => scene?.stop());

function podFor(claim: string, node: string, network: TestNetwork): Promise<KubeObject> {
  return scene.pod(`pod-of-${claim}`, node, network, { "ipam-claim-reference": claim });
}

/** A network that has been used before: what claims of it list now is not imported any more. */
async function usedNetwork(name: string): Promise<TestNetwork> {
  const network = await scene.network(name);
  await scene.given(await scene.pod(`first-${name}`, "node-b", network), network);
  return network;
}

async function ownedByClaims(network: TestNetwork): Promise<string[]> {
  const all = await scene.allocations(network);
  return all.filter(({ spec }) => spec.owner.kind === "IPAMClaim").map(({ spec }) => spec.address);
}

/** Others get addresses on every node as if nothing were wrong. */
async function expectUnharmed(network: TestNetwork): Promise<void> {
  const given: string[] = [];
  for (const node of ["node-a", "node-b"]) {
    given.push(
      ...(await scene.given(await scene.pod(`other-${network.name}-${node}`, node, network), network)),
    );
  }
  expect(new Set(given).size).toBe(given.length);
}

test("addresses that a claim has already are answered, and become its own", async () => {
  const network = await scene.network("adopted", { subnets: "10.0.0.0/24,fd00::/64" });
  const ips = ["10.0.0.77/24", "fd00::4d/64"];
  await scene.claim("lift", "adopted", { ips });
  const pod = await podFor("lift", "node-a", network);
  expect(await scene.given(pod, network)).toEqual(ips);
  const object = await scene.allocation(network, "10.0.0.77/24");
  expect(object.spec.owner).toMatchObject({ kind: "IPAMClaim", namespace: "shop", name: "lift" });
  expect((await scene.untilReason("lift", "SuccessfulAllocation")).status).toBe("True");
  expect((await scene.readClaim("lift")).status).toMatchObject({ ips, ownerPod: { name: "pod-of-lift" } });
  await scene.del(pod, network);
  const taker = await scene.pod("taker", "node-b", network, { ips: ["10.0.0.77"] });
  expect(await scene.refused(taker, network, 120)).toContain("claim shop/lift");
});

test("a claim with an address of one family only keeps that one", async () => {
  const network = await scene.network("half", { subnets: "10.0.0.0/24,fd00::/64" });
  await scene.claim("half", "half", { ips: ["fd00::7/64"] });
  expect(await scene.given(await podFor("half", "node-b", network), network)).toEqual(["fd00::7/64"]);
});

test.each([
  ["outside", "10.9.9.9/24", 121, "RequestedIPOutsideSubnet"],
  ["mask", "10.0.0.9/16", 121, "RequestedIPOutsideSubnet"],
  ["excluded", "10.0.0.255/24", 122, "RequestedIPOutsideSubnet"],
] as const)("a claim with an address that the network cannot give: %s", async (name, ip, code, reason) => {
  const network = await usedNetwork(name);
  await scene.claim(name, name, { ips: [ip] });
  const pod = await podFor(name, "node-a", network);
  expect(await scene.refused(pod, network, code)).toContain(ip.split("/")[0]);
  expect(await scene.untilReason(name, reason)).toMatchObject({ status: "False" });
  expect((await scene.readClaim(name)).status.ips).toEqual([ip]);
  expect(await ownedByClaims(network)).toEqual([]);
  await expectUnharmed(network);
  await scene.del(pod, network);
});

test("a claim with somebody else's address", async () => {
  const network = await scene.network("stolen");
  const holder = await scene.pod("holder", "node-b", network);
  const [ip] = await scene.given(holder, network);
  await scene.claim("thief", "stolen", { ips: [ip as string] });
  const pod = await podFor("thief", "node-a", network);
  expect(await scene.refused(pod, network, 120)).toContain("pod shop/holder (net1)");
  const condition = await scene.untilReason("thief", "IPAddressConflict");
  expect(condition).toMatchObject({ status: "False" });
  expect(condition.message).toBe(`${ip?.split("/")[0]} is held by pod shop/holder (net1) on network stolen`);
  expect(await scene.untilEvent(pod, "AddressTaken")).toContain("shop/holder");
  expect((await scene.allocation(network, ip as string)).spec.owner.name).toBe("holder");
  await expectUnharmed(network);

  // When the holder goes, the address is the claim's.
  await scene.del(holder, network);
  await scene.untilState(network, ip as string, "Cooling");
  await scene.refused(pod, network, 120);
});

test.each([
  ["words", ["not an address"]],
  ["no-mask", ["10.0.0.5"]],
  ["half-good", ["10.0.0.5/24", "10.0.0.500/24"]],
])("a claim with nonsense for addresses: %s", async (name, ips) => {
  const network = await usedNetwork(name);
  await scene.claim(name, name, { ips });
  const pod = await podFor(name, "node-a", network);
  expect(await scene.refused(pod, network, 130)).toContain(`status.ips of claim shop/${name}`);
  expect(await scene.untilEvent(pod, "RequestInvalid")).toContain(String(ips.at(-1)));
  expect((await scene.readClaim(name)).status.ips).toEqual(ips);
  expect(await ownedByClaims(network)).toEqual([]);
  await expectUnharmed(network);
});

test("what a claim asks for in spec.ipRequests, where its definition has that field", async () => {
  const property = { type: "array", items: { type: "string" } };
  const path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/ipRequests";
  await scene.cluster.api.patch(DEFINITION, [{ op: "add", path, value: property }], "json");
  const network = await scene.network("asking", { subnets: "10.0.0.0/24,fd00::/64" });
  // Until the server serves the new definition it drops the field.
  let claim: KubeObject = null;
  for (let attempt = 0; claim?.spec.ipRequests === undefined; attempt += 1) {
    if (claim !== null) await scene.deleteClaim(claim.metadata.name);
    claim = await scene.claim(`asker-${attempt}`, "asking", { spec: { ipRequests: ["10.0.0.42/24"] } });
  }
  const { name } = claim.metadata;
  const first = await scene.given(await podFor(name, "node-a", network), network);
  expect(first).toEqual(["10.0.0.42/24", expect.stringMatching(/^fd00::.*\/64$/)]);

  await scene.claim("too-late", "asking", { spec: { ipRequests: ["10.0.0.42/24"] } });
  expect(await scene.refused(await podFor("too-late", "node-b", network), network, 120)).toContain(name);
  expect(await scene.untilReason("too-late", "IPAddressConflict")).toMatchObject({ status: "False" });

  await scene.claim("elsewhere", "asking", { spec: { ipRequests: ["10.7.0.1/24"] } });
  await scene.refused(await podFor("elsewhere", "node-b", network), network, 121);
  await scene.untilReason("elsewhere", "RequestedIPOutsideSubnet");

  await scene.claim("gibberish", "asking", { spec: { ipRequests: ["ten"] } });
  await scene.refused(await podFor("gibberish", "node-b", network), network, 7);
  await scene.untilReason("gibberish", "RequestedIPOutsideSubnet");
  await expectUnharmed(network);
});
