import { beforeEach, expect, test } from "vitest";
import { sweptPod } from "../../../claims/reasons/fact-views.ts";
import { NetworkImports } from "../../../controller/network-imports.ts";
import { PodAdoption } from "../../../controller/pod-adoption.ts";
import { ALLOCATIONS_PATH, NETWORKS_PATH, namespacedPath, PODS_PATH } from "../../../kube/objects.ts";
import { projectPod } from "../../../kube/views/pod-view.ts";
import { DefinitionCatalog } from "../../../networks/definition-catalog.ts";
import { projectNad } from "../../../networks/nad-view.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { ManualClock } from "../../harness/manual-clock.ts";

const OURS = JSON.stringify({ name: "blue", ipam: { type: "holdfast-ipam", subnets: "10.31.0.0/24" } });
const WHEREABOUTS = JSON.stringify({ name: "blue", ipam: { type: "whereabouts" } });

let api: KubeInMemory;
let catalog: DefinitionCatalog;
let imports: NetworkImports;
let clock: ManualClock;
let podLists: number;

const shared = () => ({
  api,
  definitions: catalog,
  networks: {
    get items() {
      const object = api.at(`${NETWORKS_PATH}/blue`);
      return new Map(object === undefined ? [] : [["blue", { object }]]);
    },
    known: true,
  },
  onRefused: () => {},
  idle: () => null,
  log: { info() {}, warn() {} },
});

beforeEach(() => {
  clock = new ManualClock();
  api = new KubeInMemory(clock);
  catalog = new DefinitionCatalog(clock);
  podLists = 0;
  api.before = ({ path, method }) => {
    if (path === PODS_PATH && method === "GET") podLists += 1;
  };
  imports = new NetworkImports(shared());
  catalog.setOwner("blue", { definedIn: "shop", sharedWith: ["*"] });
  see("shop", 1, OURS);
});

/** One edition of a NetworkAttachmentDefinition, as a watch brings it. */
function see(namespace: string, generation: number, config: string): void {
  const creationTimestamp = "2026-01-01T00:00:00Z";
  const metadata = { namespace, name: "blue", uid: `uid-${namespace}`, generation, creationTimestamp };
  catalog.upsert(projectNad({ metadata: { ...metadata, resourceVersion: "1" }, spec: { config } }));
}

const turn = () => imports.runPass(new AbortController().signal);
const covered = () => api.at(`${NETWORKS_PATH}/blue`).status.importedFrom;

test("200 edits that leave a definition on its network import nothing, and the last generation is recorded", async () => {
  see("evil", 1, OURS);
  for (let generation = 1; generation <= 200; generation++) {
    see("evil", generation, `${OURS}${" ".repeat(generation)}`);
    clock.nowMs += 100;
    await turn();
  }
  const writes = api.writes.filter(({ path }) => path.startsWith(NETWORKS_PATH)).length;
  // The import, and one every five seconds.
  expect({ podLists, writes }).toEqual({ podLists: 1, writes: 5 });
  clock.nowMs += 60_000;
  await turn();
  expect(covered()).toContainEqual({ definition: "evil/blue", uid: "uid-evil", generation: 200 });
});

test("a definition that leaves and joins 200 times lists all pods few times, and is covered in the end", async () => {
  for (let generation = 2; generation <= 401; generation += 2) {
    see("evil", generation, WHEREABOUTS);
    see("evil", generation + 1, OURS);
    clock.nowMs += 100;
    await turn();
  }
  // 20 s: the first time, four at once, then after 1, 2, 4 and 8 s.
  expect(podLists).toBeLessThanOrEqual(9);
  clock.nowMs += 60_000;
  await turn();
  expect(covered()).toContainEqual({ definition: "evil/blue", uid: "uid-evil", generation: 401 });
});

test("addresses of one definition's pods are recorded while another definition waits for its import", async () => {
  await turn();
  see("evil", 1, OURS);
  const report = [{ name: "shop/blue", interface: "net1", ips: ["10.31.0.9"] }];
  const annotations = { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(report) };
  const object = api.put(namespacedPath(PODS_PATH, "shop"), {
    metadata: { namespace: "shop", name: "late", annotations },
    spec: { nodeName: "node-x" },
    status: { phase: "Running" },
  });
  const pod = sweptPod(projectPod(object, { addresses: true }));
  const pods = { items: new Map([[pod.key, pod]]), known: true };
  const allocations = { items: new Map(), known: true };
  const adoption = new PodAdoption({
    ...shared(),
    pods,
    allocations,
    events: { warn: async () => {} } as never,
  });
  await adoption.runPass(new AbortController().signal);
  const recorded = [...api.objects.entries()].filter(([path]) => path.startsWith(ALLOCATIONS_PATH));
  expect(recorded.map(([, one]) => one.spec.address)).toEqual(["10.31.0.9/24"]);
});
