import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { KubeClaimAccess } from "../../claims/kube-claim-access.ts";
import { PodDirectory } from "../../claims/pod-directory.ts";
import { EventWriter } from "../../kube/events.ts";
import { CLAIMS_PATH, namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import type { KubernetesStore } from "../../store/cluster/cluster-store.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { clusterStore, opened } from "../store/cluster-store.ts";
import { said, want } from "../store/subjects.ts";
import { owner } from "./objects.ts";

// A pod that may not use a claim is refused; whoever owns the claim can see who tried.

let directory: string;
let api: KubeInMemory;
let clock: ManualClock;
let store: KubernetesStore;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-refused-"));
  clock = new ManualClock();
  api = new KubeInMemory(clock);
  const pods = new PodDirectory(api, () => undefined);
  const events = new EventWriter({ api, component: "holdfast-daemon", host: "n1" });
  const claimAccess = new KubeClaimAccess({ api, pods, warn: () => {}, events });
  store = await opened(clusterStore({ directory, api, claimAccess, context: { node: "n1" } }));
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

function pod(name: string, vmi: string | null): void {
  const ownerReferences = vmi === null ? [] : [owner("VirtualMachineInstance", vmi)];
  api.put(namespacedPath(PODS_PATH, "shop"), {
    metadata: { name, namespace: "shop", uid: `${name}-uid`, ownerReferences },
    spec: { nodeName: "n1" },
    status: { phase: "Running" },
  });
}

function claim(vmi: string | null, network = "blue"): void {
  const ownerReferences = vmi === null ? [] : [owner("VirtualMachineInstance", vmi)];
  api.put(namespacedPath(CLAIMS_PATH, "shop"), {
    metadata: { name: "vm-a.blue", namespace: "shop", uid: "claim-uid", ownerReferences },
    spec: { network, interface: "" },
  });
}

const attach = async (name: string) => said(await store.attach(want(`c-${name}`, { pod: name, claim: "vm-a.blue" })));

function events(): string[] {
  return [...api.objects.values()]
    .filter(({ kind }) => kind === "Event")
    .map(({ involvedObject: { kind, name, uid }, reason, message }) => `${kind} ${name} ${uid} ${reason}: ${message}`);
}

test("a pod of another VM that is refused leaves one event on the claim in five minutes", async () => {
  claim("vmi-1");
  pod("own", "vmi-1");
  pod("thief", "vmi-2");
  expect(await attach("own")).toMatch(/^10\./);
  expect(events()).toEqual([]);
  const event = expect.stringMatching(
    /^IPAMClaim vm-a.blue claim-uid ClaimOtherOwner: pod shop\/thief is refused: IPAMClaim shop\/vm-a.blue belongs to /,
  );
  for (let attempt = 0; attempt < 5; attempt += 1) expect(await attach("thief")).toBe("CLAIM_OTHER_OWNER");
  expect(events()).toEqual([event]);
  clock.nowMs += 301_000;
  expect(await attach("thief")).toBe("CLAIM_OTHER_OWNER");
  expect(events()).toEqual([event, event]);
  const { status } = api.at(`${namespacedPath(CLAIMS_PATH, "shop")}/vm-a.blue`);
  expect(status.conditions, "what the claim says of itself stays").toMatchObject([{ status: "True" }]);
});

test("a refused second pod without a VM leaves an event on the claim, and so does one on another network", async () => {
  claim(null);
  pod("first", null);
  pod("second", null);
  expect(await attach("first")).toMatch(/^10\./);
  expect(await attach("second")).toBe("CLAIM_IN_USE");
  expect(events()).toEqual([expect.stringContaining("ClaimInUse: pod shop/second is refused: ")]);
  const other = want("c-3", { pod: "second", claim: "vm-a.blue", network: "red" });
  expect(said(await store.attach(other))).toBe("CLAIM_OTHER_NETWORK");
  expect(events()).toHaveLength(2);
});

test("a refusal that is about the network leaves no event", async () => {
  claim(null);
  pod("own", null);
  const full = want("c-own", { pod: "own", claim: "vm-a.blue", requested: ["192.168.0.1"] });
  expect(said(await store.attach(full))).toBe("ADDRESS_OUTSIDE");
  expect(events()).toEqual([]);
});
