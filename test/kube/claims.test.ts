import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { interfaceOf } from "../harness/kubevirt.ts";
import { Scenario } from "./scenario.ts";
import type { TestNetwork } from "./scenario-parts.ts";

let scene: Scenario;

beforeAll(async () => {
  scene = await Scenario.start({ nodes: ["node-a", "node-b"] });
});
afterEach(() => scene.expectClean());
afterAll(() => scene?.stop());

function podOf(name: string, node: string, network: TestNetwork, claim: string): Promise<KubeObject> {
  return scene.pod(name, node, network, { "ipam-claim-reference": claim });
}

test("a claim that is created three seconds after its pod is waited for", async () => {
  const network = await scene.network("late");
  const pod = await podOf("early", "node-a", network, "late");
  const adding = scene.given(pod, network);
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  expect(await scene.allocations(network)).toEqual([]);
  await scene.claim("late", "late");
  const ips = await adding;
  expect((await scene.readClaim("late")).status.ips).toEqual(ips);
});

test("a claim that never comes: no anonymous address, and the pod is told", async () => {
  const network = await scene.network("never");
  const pod = await podOf("hopeful", "node-a", network, "never");
  expect(await scene.refused(pod, network, 11)).toContain("IPAMClaim shop/never does not exist yet");
  expect(await scene.untilEvent(pod, "ClaimAbsent")).toContain("shop/never");
  expect(await scene.allocations(network)).toEqual([]);
});

test("a claim of another network", async () => {
  const network = await scene.network("here");
  await scene.network("there");
  await scene.claim("stray", "there");
  const pod = await podOf("lost", "node-a", network, "stray");
  expect(await scene.refused(pod, network, 125)).toMatch(/for network there, .* on network here/);
  expect(await scene.untilReason("stray", "NetworkNotFound")).toMatchObject({ status: "False" });
  expect((await scene.readClaim("stray")).status.ips).toEqual([]);
  expect(await scene.allocations(network)).toEqual([]);
});

test("a reference into another namespace", async () => {
  const network = await scene.network("abroad");
  const pod = await podOf("traveller", "node-a", network, "elsewhere/claim");
  expect(await scene.refused(pod, network, 7)).toContain("elsewhere/claim");
  expect(await scene.untilEvent(pod, "ClaimOtherNamespace")).toContain("elsewhere/claim");
});

test("a network without allowPersistentIPs: an address for the pod alone, and everybody is told", async () => {
  const network = await scene.network("fleeting", {}, { allowPersistentIPs: false });
  await scene.claim("wish", "fleeting");
  const pod = await podOf("modest", "node-a", network, "wish");
  const [ip] = await scene.given(pod, network);
  expect((await scene.allocation(network, ip as string)).spec.owner).toMatchObject({
    kind: "Pod",
    uid: pod.metadata.uid,
    interface: "net1",
  });
  expect(await scene.untilEvent(pod, "ClaimIgnored")).toContain("does not set allowPersistentIPs");
  expect(await scene.untilReason("wish", "PersistenceNotAllowed")).toMatchObject({ status: "False" });
  expect((await scene.readClaim("wish")).status.ips).toEqual([]);
  await scene.del(pod, network);
  await scene.untilState(network, ip as string, "Cooling");
});

test("a claim without a VM serves one pod at a time", async () => {
  const network = await scene.network("single");
  await scene.claim("only", "single");
  const [first, second] = [
    await podOf("first", "node-a", network, "only"),
    await podOf("second", "node-b", network, "only"),
  ];
  const ips = await scene.given(first, network);
  expect(await scene.refused(second, network, 124)).toContain("pod shop/first (net1) on node node-a");
  expect(await scene.untilEvent(second, "ClaimInUse")).toContain("shop/first");
  // The addresses stay what they are: the condition tells who was refused, and stays True.
  expect(await scene.untilReason("only", "ClaimInUse")).toMatchObject({ status: "True" });
  await scene.kubevirt.finishPod(first);
  expect(await scene.given(second, network)).toEqual(ips);
  await scene.untilReason("only", "SuccessfulAllocation");
  await scene.del(first, network);
  expect(await scene.given(second, network)).toEqual(ips);
});

test("two pods that ask for one claim at the same moment on two nodes: one gets it, every time", async () => {
  const network = await scene.network("contested");
  await scene.claim("prize", "contested");
  const founder = await podOf("founder", "node-a", network, "prize");
  const ips = await scene.given(founder, network);
  await scene.del(founder, network);
  await scene.kubevirt.removePod(founder);
  for (let round = 0; round < 12; round += 1) {
    const pods = await Promise.all(
      ["node-a", "node-b"].map((node) => podOf(`racer-${round}-${node}`, node, network, "prize")),
    );
    const answers = await Promise.all(pods.map((pod) => scene.add(pod, network)));
    const won = answers.filter(({ code }) => code === 0);
    expect(won.length, answers.map(({ stdout }) => stdout).join("\n")).toBeLessThanOrEqual(1);
    for (const answer of won) expect(answer.json().ips[0].address).toBe(ips[0]);
    for (const pod of pods) {
      await scene.del(pod, network);
      await scene.kubevirt.removePod(pod);
    }
  }
});

test("the pod before is gone without a DEL: its successor on another node takes over", async () => {
  const network = await scene.network("heir");
  await scene.claim("estate", "heir");
  const first = await podOf("testator", "node-a", network, "estate");
  const ips = await scene.given(first, network);
  await scene.kubevirt.removePod(first);
  const second = await podOf("heir", "node-b", network, "estate");
  expect(await scene.given(second, network)).toEqual(ips);
  await scene.del(first, network);
  expect((await scene.allocation(network, ips[0] as string)).status.state).toBe("Bound");
});

test("pods that are not of the VM may not use its claim", async () => {
  const network = await scene.network("private");
  const vm = await scene.vm("owner", network);
  const { pod } = await scene.kubevirt.startVm(vm, "node-a");
  const ifname = interfaceOf("private");
  const ips = await scene.given(pod, network, { ifname });
  await scene.kubevirt.stopVm(vm);
  await scene.del(pod, network, { ifname });

  const plain = await podOf("intruder", "node-b", network, "owner.private");
  expect(await scene.refused(plain, network, 11)).toContain("belongs to VirtualMachine owner");
  expect(await scene.untilEvent(plain, "ClaimOtherOwner")).toContain("owner.private");

  const stranger = await scene.kubevirt.createVm("shop", "stranger", []);
  const { vmi } = await scene.kubevirt.startVm(stranger, "node-b");
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
  const launcher = await scene.kubevirt.createPod("shop", "virt-launcher-stranger", {
    node: "node-b",
    networks,
    ownerReferences,
  });
  expect(await scene.refused(launcher, network, 11)).toContain("not to the VM of pod");
  expect((await scene.readClaim("owner.private")).status.ips).toEqual(ips);
  const again = await scene.kubevirt.startVm(vm, "node-b");
  expect(await scene.given(again.pod, network, { ifname })).toEqual(ips);
});

test("two interfaces of one pod that name one claim", async () => {
  const network = await scene.network("shared");
  await scene.claim("shared", "shared");
  const element = { name: "shared", "ipam-claim-reference": "shared" };
  const pod = await scene.kubevirt.createPod("shop", "greedy", {
    node: "node-a",
    networks: [element, element],
  });
  const answers = await Promise.all(["net1", "net2"].map((ifname) => scene.add(pod, network, { ifname })));
  expect(answers.map(({ code }) => code).sort()).toEqual([0, 1]);
  const refusedOne = answers.find(({ code }) => code !== 0);
  expect(refusedOne?.json()).toMatchObject({ code: 124 });
  expect(await scene.allocations(network)).toHaveLength(1);
});

test("a VM that is one pod after another gets no address anew, however often it is asked", async () => {
  const network = await scene.network("steady");
  const vm = await scene.vm("steady", network);
  const ifname = interfaceOf("steady");
  let ips: string[] | null = null;
  for (const node of ["node-a", "node-b", "node-a", "node-b"]) {
    const { pod } = await scene.kubevirt.startVm(vm, node);
    const given = await scene.given(pod, network, { ifname });
    expect(given).toEqual(ips ?? given);
    ips = given;
    await scene.kubevirt.stopVm(vm);
    await scene.del(pod, network, { ifname });
  }
  expect(await scene.allocations(network)).toHaveLength(1);
});
