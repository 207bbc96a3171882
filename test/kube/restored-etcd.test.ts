/** etcd is restored from a backup some seconds old, under daemons that go on, and pods start at once on every node. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import { CLAIMS_PATH, NETWORKS_PATH, namespacedPath, objectPath } from "../../kube/objects.ts";
import { systemClock } from "../../platform/time.ts";
import { markRecovering } from "../../store/cluster/contact/recovery.ts";
import { HOLDFAST, run } from "../harness/daemon.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { until } from "../harness/wait.ts";
import { added, addedInTheEnd, checked, type Guest } from "../harness/world/guests.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const NODES = ["node-a", "node-b", "node-c", "node-d"];
const RECOVERY_SECONDS = 4;

let world: World;
let nodes: NodeDaemon[];

beforeAll(async () => {
  world = await World.start({ api: "server" });
  const args = ["--recovery-seconds", `${RECOVERY_SECONDS}`];
  nodes = await Promise.all(NODES.map((name) => world.startNode(name, { args })));
});
afterAll(async () => {
  await world?.stop();
});

interface Waiting {
  readonly node: NodeDaemon;
  readonly guest: Guest;
}

/** Pods on every node, whose sandboxes are still to be made. */
async function pods(net: Network, perNode: number): Promise<Waiting[]> {
  const made: Waiting[] = [];
  for (let i = 0; i < perNode; i += 1)
    for (const node of nodes) made.push({ node, guest: await world.guest(net, node.name) });
  return made;
}

async function allAdded(waiting: readonly Waiting[]): Promise<string[]> {
  const given: string[] = [];
  for (const { node, guest } of waiting) given.push(...(await added(node, guest)));
  return given;
}

const conditionOf = async (net: Network) => {
  const object = await world.cluster.api.get(objectPath(NETWORKS_PATH, net.name));
  return object.status.conditions.find(({ type }: { type: string }) => type === "Recovering");
};

test.each([
  ["older", 0],
  ["newer", 3_000],
])(
  "after a restore with %s revisions no address is given twice, and lost allocations are restored",
  async (name, bumped) => {
    // Few addresses more than are needed: whoever asks meets those of others.
    const net = await world.network(`restored-${name}`, {
      subnets: bumped === 0 ? "10.60.0.0/27" : "10.61.0.0/27",
    });
    const before = await allAdded(await pods(net, 1));
    const lateNode = nodes[0] as NodeDaemon;
    const vm = await world.vmGuest(net, lateNode.name);
    const late = await pods(net, 2);
    const next = await pods(net, 3);
    const saved = await world.server.saveEtcd();
    const after = [...(await allAdded(late)), ...(await added(lateNode, vm))];
    expect(await world.published(vm)).toHaveLength(1);

    // As kubelets do, from before the API server is back: nobody waits for anything.
    const given = next.map(({ node, guest }) => addedInTheEnd(node, guest));
    await world.server.restoreEtcd(saved, { bumped });
    const fresh = (await Promise.all(given)).flat();

    const living = [...before, ...after, ...fresh];
    expect(new Set(living).size, `before ${before}, after ${after}, fresh ${fresh}`).toBe(living.length);
    await until(async () => {
      const bound = (await world.bound(net)).map((one) => one.split(" ")[0]);
      return living.every((ip) => bound.includes(ip));
    }, "what runs to be recorded again");
    await until(async () => (await world.published(vm)).length === 1, "the claim to have its list again");
    expect(await world.published(vm)).toEqual(after.slice(-1));
    expect(nodes.map(({ log }) => log).join("")).toContain("are restored");
    await until(async () => (await conditionOf(net))?.status === "False", "the recovery to end", 30_000);
    for (const node of nodes) await checked(node);
  },
);

test("check reports a recovering network and a missing claim list, and the list is restored", async () => {
  const net = await world.network("named", { subnets: "10.62.0.0/27" });
  const [node] = nodes as [NodeDaemon];
  const vm = await world.vmGuest(net, node.name);
  const ips = await added(node, vm);
  const claim = (await world.kubevirt.claim(vm.vm, net.name)) as { metadata: { name: string } };
  const path = namespacedPath(CLAIMS_PATH, NAMESPACE, claim.metadata.name);
  const api = new HttpKubeApi(loadKubeConfig(world.cluster.kubeconfig("holdfast-node")), systemClock);
  await markRecovering(api, net.name, { id: "a", seconds: null, message: "somebody, some time: a test" });
  api.close();

  const kubeconfig = world.cluster.kubeconfig("admin");
  const inCluster = () => run(process.execPath, [HOLDFAST, "--kubeconfig", kubeconfig, "check", "--grace", "0"]);
  expect((await inCluster()).stdout).toContain(
    "network named recovers, and no new address of it is given meanwhile: somebody, some time",
  );
  /** The node may still be comparing after what the server went through, and mends the list at once. */
  const untilNamed = (check: typeof inCluster, finding: RegExp) =>
    until(async () => {
      await world.cluster.api.patch(`${path}/status`, { status: { ips: [] } });
      return finding.test((await check()).stdout);
    }, `a finding like ${finding}`);
  const [first = ""] = ips;
  await untilNamed(inCluster, new RegExp(`${first} of network named is in use by claim .*, which lists no address`));
  await untilNamed(
    () => node.daemon.cli("check"),
    new RegExp(`claim .* does not list everything that it has: container .* uses ${first}`),
  );

  // Too little time for an ADD to wait for the end.
  await node.restart("SIGKILL", { args: ["--recovery-seconds", "3", "--add-deadline-ms", "3000"] });
  expect(await world.published(vm)).toEqual(ips);
  const pod = await world.guest(net, node.name);
  const refused = await node.add(pod.pod, pod.options);
  expect(refused.json()).toMatchObject({
    code: 11,
    msg: expect.stringContaining("put back what their containers use"),
  });
  expect(ips).not.toContain((await addedInTheEnd(node, pod))[0]);
  await until(async () => (await conditionOf(net))?.status === "False", "the recovery to end", 30_000);
  await checked(node);
});
