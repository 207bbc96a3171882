import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function podOf(name: string, node: string, network: Network, claim: string): Promise<KubeObject> {
  return world.pod(name, node, network, { "ipam-claim-reference": claim });
}

test("an ADD waits for a claim that is created three seconds after its pod", async () => {
  const network = await world.network("late");
  const pod = await podOf("early", "node-a", network, "late");
  const adding = world.given(pod, network);
  await world.advance(3_000);
  expect(await world.allocations(network)).toEqual([]);
  await world.claim("late", "late");
  const ips = await adding;
  expect((await world.readClaim("late")).status.ips).toEqual(ips);
});

test("without its claim a pod gets no address, and an event on the pod says so", async () => {
  const network = await world.network("never");
  const pod = await podOf("hopeful", "node-a", network, "never");
  expect(await world.refused(pod, network, 11)).toContain("IPAMClaim shop/never does not exist yet");
  expect(await world.untilEvent(pod, "ClaimAbsent")).toContain("shop/never");
  expect(await world.allocations(network)).toEqual([]);
});

test("a claim of another network is refused with a condition", async () => {
  const network = await world.network("here");
  await world.network("there");
  await world.claim("stray", "there");
  const pod = await podOf("lost", "node-a", network, "stray");
  expect(await world.refused(pod, network, 125)).toMatch(/for network there, .* on network here/);
  expect(await world.untilReason("stray", "NetworkNotFound")).toMatchObject({ status: "False" });
  expect((await world.readClaim("stray")).status.ips).toEqual([]);
  expect(await world.allocations(network)).toEqual([]);
});

test("a reference to a claim in another namespace is refused with an event", async () => {
  const network = await world.network("abroad");
  const pod = await podOf("traveller", "node-a", network, "elsewhere/claim");
  expect(await world.refused(pod, network, 7)).toContain("elsewhere/claim");
  expect(await world.untilEvent(pod, "ClaimOtherNamespace")).toContain("elsewhere/claim");
});

test("without allowPersistentIPs the address belongs to the pod, and event and condition say so", async () => {
  const network = await world.network("fleeting", {}, { allowPersistentIPs: false });
  await world.claim("wish", "fleeting");
  const pod = await podOf("modest", "node-a", network, "wish");
  const [ip] = await world.given(pod, network);
  expect((await world.allocation(network, ip as string)).spec.owner).toMatchObject({
    kind: "Pod",
    uid: pod.metadata.uid,
    interface: "net1",
  });
  expect(await world.untilEvent(pod, "ClaimIgnored")).toContain("does not set allowPersistentIPs");
  expect(await world.untilReason("wish", "PersistenceNotAllowed")).toMatchObject({ status: "False" });
  expect((await world.readClaim("wish")).status.ips).toEqual([]);
  await world.del(pod, network);
  await world.becomes(network, ip as string, "Cooling");
});

test("a claim without a VM serves one pod at a time", async () => {
  const network = await world.network("single");
  await world.claim("only", "single");
  const [first, second] = [
    await podOf("first", "node-a", network, "only"),
    await podOf("second", "node-b", network, "only"),
  ];
  const ips = await world.given(first, network);
  expect(await world.refused(second, network, 124)).toContain("pod shop/first (net1) on node node-a");
  expect(await world.untilEvent(second, "ClaimInUse")).toContain("shop/first");
  // The addresses stay what they are: the condition tells who was refused, and stays True.
  expect(await world.untilReason("only", "ClaimInUse")).toMatchObject({ status: "True" });
  await world.kubevirt.finishPod(first);
  expect(await world.given(second, network)).toEqual(ips);
  await world.untilReason("only", "SuccessfulAllocation");
  await world.del(first, network);
  expect(await world.given(second, network)).toEqual(ips);
});

test("of two pods that use one claim at the same time on two nodes at most one gets its address", async () => {
  const network = await world.network("contested");
  await world.claim("prize", "contested");
  const founder = await podOf("founder", "node-a", network, "prize");
  const ips = await world.given(founder, network);
  await world.del(founder, network);
  await world.kubevirt.removePod(founder);
  for (let round = 0; round < 12; round += 1) {
    const pods = await Promise.all(
      ["node-a", "node-b"].map((node) => podOf(`racer-${round}-${node}`, node, network, "prize")),
    );
    const answers = await Promise.all(pods.map((pod) => world.add(pod, network)));
    const won = answers.filter(({ code }) => code === 0);
    expect(won.length, answers.map(({ stdout }) => stdout).join("\n")).toBeLessThanOrEqual(1);
    for (const answer of won) expect(answer.json().ips[0].address).toBe(ips[0]);
    for (const pod of pods) {
      await world.del(pod, network);
      await world.kubevirt.removePod(pod);
    }
  }
});

test("the successor of a pod that was removed without a DEL gets the claim's address on another node", async () => {
  const network = await world.network("heir");
  await world.claim("estate", "heir");
  const first = await podOf("testator", "node-a", network, "estate");
  const ips = await world.given(first, network);
  await world.kubevirt.removePod(first);
  const second = await podOf("heir", "node-b", network, "estate");
  expect(await world.given(second, network)).toEqual(ips);
  await world.del(first, network);
  expect((await world.allocation(network, ips[0] as string)).status.state).toBe("Bound");
});

test("pods that are not of the VM may not use its claim", async () => {
  const network = await world.network("private");
  const vm = await world.vm("owner", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const ifname = interfaceOf("private");
  const ips = await world.given(pod, network, { ifname });
  await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(pod, network, { ifname }) });

  const plain = await podOf("intruder", "node-b", network, "owner.private");
  expect(await world.refused(plain, network, 11)).toContain("belongs to VirtualMachine owner");
  expect(await world.untilEvent(plain, "ClaimOtherOwner")).toContain("owner.private");

  const stranger = await world.kubevirt.createVm("shop", "stranger", []);
  const { vmi } = await world.kubevirt.startVm(stranger, "node-b");
  const networks = [{ name: "private", "ipam-claim-reference": "owner.private" }];
  const ownerReferences = [
    {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachineInstance",
      name: "stranger",
      uid: vmi.metadata.uid,
      controller: true,
    },
  ];
  const launcher = await world.kubevirt.createPod("shop", "virt-launcher-stranger", {
    node: "node-b",
    networks,
    ownerReferences,
  });
  expect(await world.refused(launcher, network, 11)).toContain("not to the VM of pod");
  expect((await world.readClaim("owner.private")).status.ips).toEqual(ips);
  const again = await world.kubevirt.startVm(vm, "node-b");
  expect(await world.given(again.pod, network, { ifname })).toEqual(ips);
});

test("of two interfaces of one pod with the same claim one is refused", async () => {
  const network = await world.network("shared");
  await world.claim("shared", "shared");
  const element = { name: "shared", "ipam-claim-reference": "shared" };
  const pod = await world.kubevirt.createPod("shop", "greedy", {
    node: "node-a",
    networks: [element, element],
  });
  const answers = await Promise.all(["net1", "net2"].map((ifname) => world.add(pod, network, { ifname })));
  expect(answers.map(({ code }) => code).sort()).toEqual([0, 1]);
  const refusedOne = answers.find(({ code }) => code !== 0);
  expect(refusedOne?.json()).toMatchObject({ code: 124 });
  expect(await world.allocations(network)).toHaveLength(1);
});

test("a VM that is restarted on alternating nodes keeps its address", async () => {
  const network = await world.network("steady");
  const vm = await world.vm("steady", network);
  const ifname = interfaceOf("steady");
  let ips: string[] | null = null;
  for (const node of ["node-a", "node-b", "node-a", "node-b"]) {
    const { pod } = await world.kubevirt.startVm(vm, node);
    const given = await world.given(pod, network, { ifname });
    expect(given).toEqual(ips ?? given);
    ips = given;
    await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(pod, network, { ifname }) });
  }
  expect(await world.allocations(network)).toHaveLength(1);
});
