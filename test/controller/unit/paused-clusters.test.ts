/** What is remembered of paused Clusters, when it is written, and what takes it off again. */
import { beforeEach, expect, test } from "vitest";
import { cooled, newAllocation } from "../../../allocations/allocation-object.ts";
import { projectAllocation } from "../../../claims/reasons/caches.ts";
import { AskedNamespaces } from "../../../controller/capi/asked-namespaces.ts";
import { PausedClusters } from "../../../controller/capi/paused-clusters.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { ApiAway } from "../../../kube/kube-api.ts";
import { ALLOCATIONS_PATH, type AllocationOwner, NETWORKS_PATH } from "../../../kube/objects.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { collectionOf } from "../../harness/kube-manifests.ts";
import { capiDefinitions } from "../../harness/machines/definitions.ts";
import { ManualClock } from "../../harness/manual-clock.ts";

const CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/shop/clusters";
const TIME = "2026-01-01T00:00:00Z";
const signal = new AbortController().signal;
const clock = new ManualClock();

let api: KubeInMemory;
let idle: string | null;
let clusters: PausedClusters;

beforeEach(() => {
  api = new KubeInMemory(clock);
  for (const one of capiDefinitions("v1beta2")) api.server.put(collectionOf(one), one);
  idle = null;
  clusters = begun();
  for (const network of ["blue", "red"])
    api.put(NETWORKS_PATH, { metadata: { name: network }, spec: { network }, status: { size: "1" } });
  allocate("blue", "10.0.0.5/24", "prod");
  allocate("red", "10.9.0.5/24", "test");
});

function begun(): PausedClusters {
  const named = (path: string) => [...api.objects].filter(([one]) => one.startsWith(path)).map(([, it]) => it);
  const cache = <T>(path: string, project: (object: never) => T) => ({
    get items() {
      return new Map(named(path).map((one) => [one.metadata.name as string, project(one as never)]));
    },
    known: true,
  });
  return new PausedClusters({
    api,
    allocations: cache(ALLOCATIONS_PATH, projectAllocation),
    networks: cache(NETWORKS_PATH, (object) => ({ object })),
    servedPath: () => null,
    idle: () => idle,
    log: { info() {}, warn() {} },
  });
}

function allocate(network: string, address: string, cluster: string, state: "Bound" | "Cooling" = "Bound"): void {
  const owner: AllocationOwner = {
    ...{ kind: "IPAddressClaim", namespace: "shop", name: `${cluster}-0`, uid: "c1", interface: "" },
    cluster,
  };
  const made = newAllocation(network, parseInterfaceAddress(address), { owner, attachment: null }, TIME);
  api.put(ALLOCATIONS_PATH, state === "Bound" ? made : cooled(made as never, TIME));
}

function cluster(name: string, paused: boolean): void {
  api.put(CLUSTERS, { metadata: { name, namespace: "shop" }, spec: { paused } });
}

const note = (name: string, paused: boolean) => clusters.note({ key: `shop/${name}`, paused });
const listed = (network: string) => api.at(`${NETWORKS_PATH}/${network}`).status.pausedClusters;

test("a pause is written once, to the networks where the Cluster's machines have addresses", async () => {
  expect(note("prod", true)).toBe(true);
  expect(note("prod", true), "nothing new").toBe(false);
  await clusters.runPass(signal);
  await clusters.runPass(signal);
  expect([listed("blue"), listed("red")]).toEqual([["shop/prod"], undefined]);
  expect(api.writes).toHaveLength(1);
  expect(api.writes[0]).toMatchObject({
    method: "PATCH",
    patch: "merge",
    body: { metadata: { resourceVersion: expect.any(String) } },
  });
  expect(api.at(`${NETWORKS_PATH}/blue`).status.size, "what others write stays").toBe("1");
});

test("a Cluster without a pause causes no requests", async () => {
  expect(note("prod", false)).toBe(false);
  await clusters.runPass(signal);
  expect(api.writes).toEqual([]);
});

test("a pause that ended with its Cluster stays on record, also for the controller that comes next", async () => {
  note("prod", true);
  note("prod", true);
  await clusters.runPass(signal);
  clusters = begun();
  await clusters.runPass(signal);
  expect(listed("blue")).toEqual(["shop/prod"]);
  expect(clusters.wasSeenPaused("shop/prod"), "only the record tells now").toBe(false);
});

test("the record goes when the quorum shows the Cluster without a pause, and not before", async () => {
  note("prod", true);
  await clusters.runPass(signal);
  note("prod", false);
  await clusters.runPass(signal);
  expect(listed("blue"), "the Cluster is not there").toEqual(["shop/prod"]);
  cluster("prod", true);
  await clusters.runPass(signal);
  expect(listed("blue"), "it is paused again").toEqual(["shop/prod"]);
  cluster("prod", false);
  api.missing.add("/apis/cluster.x-k8s.io/");
  await clusters.runPass(signal);
  expect(listed("blue"), "nobody can tell").toEqual(["shop/prod"]);
  api.missing.clear();
  await clusters.runPass(signal);
  expect(listed("blue")).toEqual([]);
});

test("the record goes with the last address of the Cluster's machines", async () => {
  note("prod", true);
  await clusters.runPass(signal);
  allocate("blue", "10.0.0.5/24", "prod", "Cooling");
  await clusters.runPass(signal);
  expect(listed("blue")).toEqual([]);
});

test("a pause that could not be written is written once the controller may write", async () => {
  idle = "another controller works";
  note("prod", true);
  await clusters.runPass(signal);
  expect(listed("blue")).toBeUndefined();
  expect(clusters.wasSeenPaused("shop/prod")).toBe(true);
  idle = null;
  await clusters.runPass(signal);
  expect(listed("blue")).toEqual(["shop/prod"]);
});

test("a network that cannot be written does not delay others, and is retried", async () => {
  note("prod", true);
  note("test", true);
  api.before = ({ method, path }) => {
    if (method === "PATCH" && path.endsWith("/blue")) throw new ApiAway("the test says so");
  };
  await clusters.runPass(signal);
  expect([listed("blue"), listed("red")]).toEqual([undefined, ["shop/test"]]);
  api.before = () => {};
  await clusters.runPass(signal);
  expect(listed("blue")).toEqual(["shop/prod"]);
});

test("a requested namespace is read in each pass, and forgotten when it is no longer requested", async () => {
  let asked = 0;
  const changed: string[] = [];
  const namespaces = new AskedNamespaces({
    api,
    onAsked: () => {
      asked += 1;
    },
    onChanged: (name) => void changed.push(name),
  });
  expect([namespaces.of("shop"), namespaces.of("gone")]).toEqual([{ kind: "unknown" }, { kind: "unknown" }]);
  await namespaces.runPass(signal);
  expect(namespaces.of("shop")).toMatchObject({ kind: "present", it: { isEnding: false } });
  expect(namespaces.of("gone")).toEqual({ kind: "absent" });
  await namespaces.runPass(signal);
  expect(changed.splice(0), "each is told once").toEqual(["shop", "gone"]);
  api.remove("/api/v1/namespaces/shop");
  // However many passes come between two questions.
  for (let pass = 0; pass < 3; pass += 1) {
    clock.nowMs += 60_000;
    await namespaces.runPass(signal);
  }
  expect(namespaces.of("shop")).toEqual({ kind: "absent" });
  expect(asked).toBe(2);
  expect(changed).toEqual(["shop"]);
  clock.nowMs += 3_600_000;
  await namespaces.runPass(signal);
  expect(namespaces.of("shop")).toEqual({ kind: "unknown" });
});
