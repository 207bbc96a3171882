import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { cooled } from "../../allocations/allocation-object.ts";
import { KubeClaimAccess } from "../../claims/kube-claim-access.ts";
import { PodDirectory } from "../../claims/pod-directory.ts";
import { ALLOCATIONS_PATH, namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import type { KubernetesStore } from "../../store/cluster/cluster-store.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { clusterStore, EVERYTHING, opened } from "../store/cluster-store.ts";
import { detachWant, said, want } from "../store/subjects.ts";

// A completed pod keeps its sandbox for as long as its node likes (a graceful shutdown, a Job), and no DEL comes. The
// controller releases its address; the node must not take it back, in turn and for ever.

const ENDED = { containerStatuses: [{ state: { terminated: { exitCode: 0 } } }] };
let directory: string;
let api: KubeInMemory;
let store: KubernetesStore;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-completed-"));
  api = new KubeInMemory();
  store = await opened(clusterStore({ directory, api, context: { node: "n1" } }));
  pod({ phase: "Running" });
  expect(said(await store.attach(want("c1", { pod: "job" })))).toMatch(/^10\.0\.0\.\d\/29$/);
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

function pod(status: object): void {
  api.put(namespacedPath(PODS_PATH, "shop"), {
    metadata: { name: "job", namespace: "shop", uid: "job-uid" },
    spec: { nodeName: "n1" },
    status,
  });
}

function allocation() {
  const [found] = [...api.objects].filter(([path]) => path.startsWith(ALLOCATIONS_PATH));
  if (found === undefined) throw new Error("there is no allocation");
  return found[1];
}

/** What the controller does about a completed pod. */
function release(): void {
  api.put(ALLOCATIONS_PATH, cooled(allocation(), "2026-01-01T00:00:00Z"));
}

async function compare(): Promise<object> {
  const { restored, lost, over } = await store.agreement.judgeHeldUses(EVERYTHING);
  await store.agreement.over.drain();
  return { restored, lost: lost.length, over: over.length };
}

const STATIC_UID = "deadbeefdeadbeef";

test.each([
  ["lives", { phase: "Running" }, "job-uid", 200, false],
  ["has completed", { phase: "Succeeded", ...ENDED }, "job-uid", 200, true],
  ["is another of its name by now", { phase: "Running" }, "former-uid", 200, true],
  ["is static and has no object", { phase: "Running" }, STATIC_UID, 200, false],
  ["may not be read", { phase: "Succeeded", ...ENDED }, "job-uid", 403, false],
])("it is known whether a pod that %s has ended", async (_, status, uid, answer, ended) => {
  pod(status);
  const send = api.send.bind(api);
  api.send = async (request) =>
    answer === 200 ? send(request) : { status: answer, body: { message: "forbidden" }, serverMs: null };
  const claimAccess = new KubeClaimAccess({
    api,
    pods: new PodDirectory(api, () => undefined),
    warn: () => {},
  });
  expect(await claimAccess.hasEnded({ namespace: "shop", name: "job", uid }, api.clock.monotonicMs() + 10_000)).toBe(
    ended,
  );
});

test("a static pod has ended when its node runs another manifest of its name", async () => {
  api.put(namespacedPath(PODS_PATH, "shop"), {
    metadata: {
      name: "job",
      namespace: "shop",
      uid: "mirror-uid",
      annotations: { "kubernetes.io/config.mirror": "feedfacefeedface" },
      ownerReferences: [{ apiVersion: "v1", kind: "Node", name: "n1", uid: "n1-uid" }],
    },
    spec: { nodeName: "n1" },
    status: { phase: "Running" },
  });
  const pods = new PodDirectory(api, () => undefined);
  const access = new KubeClaimAccess({ api, pods, warn: () => {} });
  const hasEnded = (uid: string) =>
    access.hasEnded({ namespace: "shop", name: "job", uid }, api.clock.monotonicMs() + 10_000);
  expect(await hasEnded(STATIC_UID)).toBe(true);
  expect(await hasEnded("feedfacefeedface")).toBe(false);
});

const NOTHING = { restored: 0, lost: 0, over: 0 };

describe("a completed pod whose sandbox stays", () => {
  beforeEach(() => {
    pod({ phase: "Succeeded", ...ENDED });
    release();
  });

  test("does not get its released address back, which is logged once, and check finds nothing", async () => {
    expect(await store.check(), "before the daemon has looked").toEqual([]);
    expect(await compare()).toEqual({ ...NOTHING, over: 1 });
    expect(allocation().status.state).toBe("Cooling");
    expect(await compare()).toEqual(NOTHING);
    expect(await store.check()).toEqual([]);
    expect(store.lostCount).toBe(0);
    expect(await store.detach(detachWant("c1")), "a late DEL finds nothing to give back").toEqual({
      ended: [],
    });
  });

  test("is not reported as a loss when another owner has the address by now", async () => {
    const { spec } = allocation();
    const next = {
      ...allocation(),
      spec: { ...spec, owner: { ...spec.owner, name: "next", uid: "next-uid" } },
    };
    api.put(ALLOCATIONS_PATH, { ...next, status: { state: "Bound", attachments: {} } });
    expect(await store.check()).toEqual([]);
    expect(await compare()).toEqual({ ...NOTHING, over: 1 });
    expect(store.lostCount).toBe(0);
    expect(allocation()).toMatchObject({ spec: { owner: { uid: "next-uid" } }, status: { state: "Bound" } });
  });
});

test.each([
  ["runs", { phase: "Running" }],
  ["has a container that still runs", { phase: "Failed", containerStatuses: [{ state: { running: {} } }] }],
])("an address that was taken from a pod that %s is restored, and check reports it until then", async (_, status) => {
  pod(status);
  release();
  expect(await store.check()).toMatchObject([{ invariant: "I2", message: expect.stringContaining("is not Bound") }]);
  expect(await compare()).toEqual({ ...NOTHING, restored: 1 });
  expect(allocation().status.state).toBe("Bound");
  expect(await store.check()).toEqual([]);
});

test("a completed pod keeps the address that nobody has released yet", async () => {
  pod({ phase: "Succeeded", ...ENDED });
  expect(await compare()).toEqual(NOTHING);
  expect(allocation().status.state).toBe("Bound");
});
