import { afterAll, beforeAll, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import type { AllocationView } from "../../allocations/records.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { NodeDaemon } from "../harness/node.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { World } from "../harness/world/world.ts";

// A cluster with more allocations than one page of the API server has: a daemon that lists them, and the command line.

const NETWORKS = ["blue", "green", "red"];
const PER_NETWORK = 400;
const SINCE = "2026-01-01T00:00:00Z";

let world: World;
let cluster: MemoryCluster;
let node: NodeDaemon;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a"] });
  cluster = world.cluster as MemoryCluster;
  node = world.node("node-a");
  for (const network of NETWORKS)
    for (let index = 0; index < PER_NETWORK; index += 1) {
      const address = `10.0.${index >> 8}.${index & 255}/16`;
      const pod = { namespace: "shop", name: `pod-${index}`, uid: `${network}-${index}` };
      const attachment = {
        containerID: pod.uid,
        interface: "net1",
        node: `node-${index % 50}`,
        pod,
        since: SINCE,
      };
      const holder = { owner: { kind: "Pod", ...pod, interface: "net1" } as const, attachment };
      cluster.objects.put(ALLOCATIONS_PATH, newAllocation(network, parseInterfaceAddress(address), holder, SINCE));
    }
});
afterAll(() => world?.stop());

/** Everything that the daemon lists, and the objects that it has read for it. */
async function listed(query: string): Promise<{ items: AllocationView[]; pages: number; read: number }> {
  const before = cluster.lists("node-a").length;
  const items: AllocationView[] = [];
  let pages = 0;
  for (let more: string | undefined = ""; more !== undefined; pages += 1) {
    const page = (await node.daemon.get(`/v1/allocations?${query}${more}`)).json();
    items.push(...page.items);
    more = page.continue && `&continue=${page.continue}`;
  }
  const read = cluster.lists("node-a").slice(before);
  return { items, pages, read: read.reduce((sum, { objects }) => sum + objects, 0) };
}

test("a daemon reads the cluster once for all pages of a list", async () => {
  for (const limit of [100, 500, 5_000]) {
    const { items, pages, read } = await listed(`limit=${limit}`);
    expect(new Set(items.map(({ network, address }) => `${network} ${address}`)).size).toBe(1_200);
    expect(items).toHaveLength(1_200);
    expect(read).toBe(1_200);
    expect(pages).toBe(Math.ceil(1_200 / Math.min(limit, 500)));
  }
});

test("and once for a filter that few of them pass", async () => {
  const { items, read } = await listed("limit=5000&node=node-7");
  expect(items).toHaveLength((NETWORKS.length * PER_NETWORK) / 50);
  expect(read).toBe(1_200);
});

test("the command line shows the same of a node and of the cluster, in one document", async () => {
  const kubeconfig = cluster.kubeconfig("viewer");
  for (const words of [[], ["--node", "node-7"], ["--network", "green"], ["--pod", "pod-399"]]) {
    const ofNode = await node.daemon.cli("list", ...words, "-o", "json");
    const ofCluster = await world.cli("--kubeconfig", kubeconfig, "list", ...words, "-o", "json");
    expect(ofNode).toMatchObject({ code: 0, stderr: "" });
    expect(ofCluster).toEqual(ofNode);
    const { items } = JSON.parse(ofNode.stdout);
    const wanted = { "": 1_200, "--node": 24, "--network": 400, "--pod": 3 }[words[0] ?? ""];
    expect(items).toHaveLength(wanted as number);
  }
});
