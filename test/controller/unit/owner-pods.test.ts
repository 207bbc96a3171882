import { beforeEach, expect, test } from "vitest";
import { newAllocation, withAttachment } from "../../../allocations/allocation-object.ts";
import { type Caches, cachedFacts, cachedMemory, projectAllocation } from "../../../claims/reasons/caches.ts";
import { claimFact, projectSweptPod } from "../../../claims/reasons/fact-views.ts";
import { OwnerPods } from "../../../controller/owner-pods.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH, CLAIMS_PATH, type IPAllocation, namespacedPath, PODS_PATH } from "../../../kube/objects.ts";
import { projectClaim } from "../../../kube/views/claim-view.ts";
import { SingleFlight } from "../../../platform/single-flight.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";

// `status.ownerPod` of a claim follows the pod that uses it, also back to the source of a migration that failed.

const PODS = namespacedPath(PODS_PATH, "shop");
const CLAIMS = namespacedPath(CLAIMS_PATH, "shop");
const ENDED = { phase: "Failed", containerStatuses: [{ state: { terminated: { exitCode: 1 } } }] };
const CONDITIONS = [
  {
    type: "IPsAllocated",
    status: "True",
    lastTransitionTime: "2026-01-01T00:00:00Z",
    reason: "SuccessfulAllocation",
    message: "",
  },
];
const signal = new AbortController().signal;
const one = parseInterfaceAddress("10.0.0.5/24");
let api: KubeInMemory;
let ours: boolean;
let idle: string | null;
let ownerPods: OwnerPods;

beforeEach(() => {
  api = new KubeInMemory();
  ours = true;
  idle = null;
  const caches = snapshot();
  const machines = { wasSeenPaused: () => false, servedPath: () => null, addressAt: () => null };
  const all = { ...caches, nodes: { items: new Map(), known: false }, machines: null } as unknown as Caches;
  ownerPods = new OwnerPods({
    api,
    caches,
    had: (uid) =>
      [...caches.allocations.items.values()].map((one) => one.object).filter((one) => one.spec.owner.uid === uid),
    facts: () => cachedFacts(all),
    memory: () => ({ ...cachedMemory(all, {} as never), machines, sharedReads: new SingleFlight() }),
    definitions: { definitionOf: () => (ours ? ({} as never) : null) },
    idle: () => idle,
    log: { info() {} },
  });
  pod("source", { phase: "Running" });
  pod("target", { phase: "Running" });
  api.put(CLAIMS, {
    metadata: { name: "vm1", namespace: "shop", uid: "c1" },
    spec: { network: "blue", interface: "" },
    status: { ips: ["10.0.0.5/24"], ownerPod: { name: "target" }, conditions: CONDITIONS },
  });
  const owner = { kind: "IPAMClaim", namespace: "shop", name: "vm1", uid: "c1", interface: "" } as const;
  const made = newAllocation("blue", one, { owner, attachment: attachment("source", "09:00") }, "");
  api.put(ALLOCATIONS_PATH, withAttachment(made as IPAllocation, attachment("target", "10:00")));
});

/** Caches that show the server's objects as they are when asked. */
function snapshot(): Pick<Caches, "allocations" | "claims" | "pods"> {
  const of = <T extends { readonly key: string }>(part: string, project: (object: never) => T) => ({
    get items() {
      const objects = [...api.objects].filter(([path]) => path.includes(part)).map(([, object]) => object);
      return new Map(objects.map((object) => project(object as never)).map((item) => [item.key, item]));
    },
    known: true,
  });
  return {
    allocations: of("/ipallocations/", projectAllocation),
    claims: of("/ipamclaims/", (object) => {
      const view = projectClaim(object);
      return { ...view, fact: claimFact(view) };
    }),
    pods: of("/pods/", projectSweptPod),
  };
}

function attachment(name: string, time: string) {
  const pod = { namespace: "shop", name, uid: `${name}-uid` };
  return { containerID: `c-${name}`, interface: "net1", node: "n1", pod, since: `2026-01-01T${time}:00Z` };
}

function pod(name: string, status: object, uid = `${name}-uid`): void {
  api.put(PODS, { metadata: { name, namespace: "shop", uid }, spec: { nodeName: "n1" }, status });
}

const claim = () => api.at(`${CLAIMS}/vm1`);
const named = () => claim().status.ownerPod?.name;

test.each([
  ["gone", () => api.remove(`${PODS}/target`)],
  ["failed", () => pod("target", ENDED)],
])("the claim's ownerPod is the migration's source again when the target is %s", async (_, fail) => {
  fail();
  await ownerPods.runPass(signal);
  expect(claim().status).toEqual({
    ips: ["10.0.0.5/24"],
    ownerPod: { name: "source" },
    conditions: CONDITIONS,
  });
  await ownerPods.runPass(signal);
  expect(api.writes, "once").toHaveLength(1);
});

test.each<[string, () => void]>([
  ["the migration goes on", () => {}],
  [
    "a container of the failed target still runs",
    () => pod("target", { phase: "Failed", containerStatuses: [{ state: { running: {} } }] }),
  ],
  ["the VM is stopped", () => ["source", "target"].map((name) => api.remove(`${PODS}/${name}`))],
  [
    "another pod has the name of the source",
    () => {
      api.remove(`${PODS}/target`);
      pod("source", { phase: "Running" }, "another");
    },
  ],
  [
    "the network is not ours",
    () => {
      ours = false;
      api.remove(`${PODS}/target`);
    },
  ],
  [
    "another controller works",
    () => {
      idle = "another controller works";
      api.remove(`${PODS}/target`);
    },
  ],
])("the claim's ownerPod is not changed when %s", async (_, prepare) => {
  prepare();
  await ownerPods.runPass(signal);
  expect(named()).toBe("target");
  expect(api.writes).toEqual([]);
});

test("pods that the caches have not seen yet count: a target that lives, a source that has ended", async () => {
  const target = api.at(`${PODS}/target`);
  api.remove(`${PODS}/target`);
  api.before = () => {
    api.put(PODS, target);
  };
  await ownerPods.runPass(signal);
  api.before = ({ path }) => {
    if (path.endsWith("/pods/target")) pod("source", ENDED);
  };
  api.remove(`${PODS}/target`);
  await ownerPods.runPass(signal);
  expect(named()).toBe("target");
  expect(api.writes).toEqual([]);
});

test("a claim definition whose ownerPod is a string is written to once, not on every pass", async () => {
  api.put(CLAIMS, { ...claim(), status: { ...claim().status, ownerPod: "target" } });
  api.remove(`${PODS}/target`);
  let attempts = 0;
  const send = api.send.bind(api);
  api.send = async (request) => {
    if (request.method !== "PATCH") return send(request);
    attempts += 1;
    return { status: 422, body: { reason: "Invalid" }, serverMs: null };
  };
  for (let turn = 0; turn < 3; turn += 1) await ownerPods.runPass(signal);
  expect(attempts).toBe(1);
});
