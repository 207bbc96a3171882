import { afterAll, beforeAll, expect, test } from "vitest";
import type { Controller } from "../../controller/controller.ts";
import type { ListedPage } from "../../kube/kube-api.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import type { NodeDaemon } from "../harness/node.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import type { MetadataHere } from "../harness/world/metadata-here.ts";
import { World } from "../harness/world/world.ts";

// Every process counts what it lists, as the server in memory counts it.

const PORT = "127.0.0.1:0";
const METRICS = ["requests", "objects", "bytes"] as const;

let world: World;
let node: NodeDaemon;
let controller: Controller;
let metadata: MetadataHere;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  controller = await world.startController();
  node = await world.startNode("node-a");
  const blue = await world.network("blue");
  for (const name of ["web", "db"]) await world.given((await world.guest(blue, "node-a", name)).pod, blue);
  metadata = await world.startMetadata(node, { kubeconfig: "handed over", metricsAddress: PORT });
  await world.until(async () => (await textAt(controller.port, "/readyz")) === "ready\n", "the controller");
  const { cluster } = world;
  await world.until(() => (cluster as MemoryCluster).lists("holdfast-metadata").length > 2, "the metadata server");
});
afterAll(() => world?.stop());

async function textAt(port: number, path: string): Promise<string> {
  return world.cluster.time.run(fetch(`http://127.0.0.1:${port}${path}`).then((answer) => answer.text()));
}

/** `pods field quorum requests` and the like, with its sum. */
function sumOf(pages: readonly ListedPage[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { resource, selector, source, objects, bytes } of pages) {
    const add = { requests: 1, objects, bytes };
    for (const metric of METRICS) {
      const key = `${resource} ${selector} ${source} ${metric}`;
      sums[key] = (sums[key] ?? 0) + add[metric];
    }
  }
  return sums;
}

function shownIn(text: string): Record<string, number> {
  const line = /^holdfast_api_list_(\w+)_total\{resource="(.*)",selector="(.*)",source="(.*)"\} (\d+)$/gm;
  return Object.fromEntries(
    [...text.matchAll(line)].map(([, metric, resource, selector, source, value]) => [
      `${resource} ${selector} ${source} ${metric}`,
      Number(value),
    ]),
  );
}

test("a daemon, a controller and a metadata server show what each of them has listed", async () => {
  const cluster = world.cluster as MemoryCluster;
  const texts = {
    "node-a": async () => (await node.daemon.get("/metrics")).body,
    "holdfast-controller": () => textAt(controller.port, "/metrics"),
    "holdfast-metadata": () => textAt(metadata.port, "/metrics"),
  };
  for (const [who, read] of Object.entries(texts)) {
    const text = await read();
    const listed = sumOf(cluster.lists(who));
    expect(Object.keys(listed).length, who).toBeGreaterThan(2);
    expect(shownIn(text), who).toEqual(listed);
  }
});

test("a list is counted by its resource, selector and source, with what it brought", async () => {
  const cluster = world.cluster as MemoryCluster;
  const [pods] = cluster.lists("node-a").filter(({ resource }) => resource === "pods");
  expect(pods).toMatchObject({ selector: "field", source: "cache", objects: 0 });
  const before = cluster.lists("node-a").length;
  await node.daemon.get("/v1/allocations?network=blue");
  // Kinds that the cluster does not have are asked for again from time to time.
  const since = cluster.lists("node-a").slice(before);
  const [list, ...more] = since.filter(({ resource }) => resource === "ipallocations");
  const { items } = await cluster.api.get(ALLOCATIONS_PATH);
  expect(list).toMatchObject({ resource: "ipallocations", selector: "label", source: "quorum", objects: 2 });
  expect(list?.bytes).toBeGreaterThan(JSON.stringify(items).length);
  expect(list?.bytes).toBeLessThan(JSON.stringify(items).length + 200);
  expect(more).toEqual([]);
});
