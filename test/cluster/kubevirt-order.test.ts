/** What the tests' KubeVirt writes around a VM, in the order of KubeVirt 1.9's own controllers. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import type { Change } from "../harness/kube-fake/etcd.ts";
import { optionsOf } from "../harness/world/guests.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;
/** What has happened, each state of an object once. */
let story: string[] = [];
const states = new Map<string, string>();

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"], controller: {} });
  (world.cluster as MemoryCluster).objects.etcd.listen(note);
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function note({ storage, key, object, deleted }: Change): void {
  const said = sayings[storage]?.(object);
  if (said === undefined) return;
  const text = deleted ? `${said.split(" ")[0]} is gone` : said;
  if (states.get(`${storage} ${key}`) !== text) story.push(text);
  states.set(`${storage} ${key}`, text);
}

const sayings: Readonly<Record<string, (object: KubeObject) => string>> = {
  "/pods": ({ metadata, spec, status }) =>
    [nameOf(metadata.name), spec.nodeName ?? "unbound", status.phase, endOf(metadata)].join(" ").trimEnd(),
  "kubevirt.io/virtualmachineinstances": ({ metadata, status }) => {
    const active = Object.values(status.activePods ?? {}).map((node) => node || "?");
    const parts = ["vmi", status.phase ?? "new", status.nodeName ?? "nowhere", `[${active}]`, endOf(metadata)];
    return parts.join(" ").trimEnd();
  },
  "k8s.cni.cncf.io/ipamclaims": ({ metadata }) => `claim ${endOf(metadata)}`.trimEnd(),
};

const nameOf = (name: string) => `pod-${name.split("-").at(-1)}`;
const endOf = ({ deletionTimestamp }: KubeObject) => (deletionTimestamp === undefined ? "" : "ending");

async function told(act: () => Promise<unknown>): Promise<string[]> {
  story = [];
  await act();
  return story;
}

async function attach(pod: KubeObject, network: Network): Promise<void> {
  story.push(`ADD of ${nameOf(pod.metadata.name)}`);
  await world.given(pod, network, optionsOf(network));
}

async function detach(pod: KubeObject, network: Network): Promise<void> {
  story.push(`DEL of ${nameOf(pod.metadata.name)}`);
  await world.del(pod, network, optionsOf(network));
}

test("a VM starts, migrates, fails to migrate, stops and starts again", async () => {
  const network = await world.network("order");
  const vm = await world.vm("order", network);
  let pod: KubeObject;
  let target: KubeObject;
  const start = async () => {
    ({ pod } = await world.kubevirt.startVm(vm, "node-a"));
    await attach(pod, network);
  };
  expect(await told(start)).toEqual([
    "vmi new nowhere []",
    "vmi Pending nowhere []",
    "claim",
    "pod-1 unbound Pending",
    "vmi Scheduling nowhere [?]",
    "pod-1 node-a Pending",
    "vmi Scheduling nowhere [node-a]",
    "ADD of pod-1",
    "pod-1 node-a Running",
    "vmi Scheduled node-a [node-a]",
    "vmi Running node-a [node-a]",
  ]);
  const migrate = async (node: string) => {
    target = await world.kubevirt.migrate(vm, node);
    await attach(target, network);
  };
  expect(
    await told(async () => {
      await migrate("node-b");
      await world.kubevirt.finishPod(pod);
      await detach(pod, network);
      pod = target;
    }),
    "the source stays, and is listed",
  ).toEqual([
    "pod-2 unbound Pending",
    "vmi Running node-a [node-a,?]",
    "pod-2 node-b Pending",
    "vmi Running node-a [node-a,node-b]",
    "ADD of pod-2",
    "pod-2 node-b Running",
    "vmi Running node-b [node-a,node-b]",
    "pod-1 node-a Succeeded",
    "DEL of pod-1",
  ]);
  expect(
    await told(async () => {
      await migrate("node-a");
      await world.kubevirt.failMigration(target);
      await detach(target, network);
    }),
    "the target stays, and is listed",
  ).toEqual([
    "pod-3 unbound Pending",
    "vmi Running node-b [node-a,node-b,?]",
    "pod-3 node-a Pending",
    "vmi Running node-b [node-a,node-b,node-a]",
    "ADD of pod-3",
    "pod-3 node-a Running",
    "pod-3 node-a Failed",
    "DEL of pod-3",
  ]);
  expect(
    await told(() => world.kubevirt.stopVm(vm, { meanwhile: () => detach(pod, network) })),
    "the VMI goes last but for what had ended",
  ).toEqual([
    "vmi Running node-b [node-a,node-b,node-a] ending",
    "pod-2 node-b Running ending",
    "DEL of pod-2",
    "pod-2 is gone",
    "vmi Succeeded node-b [node-a,node-a] ending",
    "vmi is gone",
    "pod-1 node-a Succeeded ending",
    "pod-1 is gone",
    "pod-3 node-a Failed ending",
    "pod-3 is gone",
  ]);
  expect(await told(start)).toEqual(expect.not.arrayContaining(["claim"]));
});

test("a claim is as old as the VMI of the first start at most, and older than that of each later one", async () => {
  const network = await world.network("ages");
  const vm = await world.vm("ages", network);
  const bornMs = ({ metadata }: KubeObject) => Date.parse(metadata.creationTimestamp);
  await expect(world.kubevirt.createClaims(vm)).rejects.toThrow("there is no VMI of ages");
  const ages: number[] = [];
  for (const node of ["node-a", "node-b"]) {
    const { vmi, pod } = await world.kubevirt.startVm(vm, node);
    ages.push(bornMs(vmi) - bornMs(await world.kubevirt.claim(vm, "ages")));
    await world.given(pod, network, optionsOf(network));
    await world.kubevirt.stopVm(vm, { meanwhile: () => world.del(pod, network, optionsOf(network)) });
  }
  expect(ages[0]).toBeLessThanOrEqual(0);
  expect(ages[1]).toBeGreaterThan(0);
});
