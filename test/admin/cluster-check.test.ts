import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { ClusterProblem } from "../../admin/cluster/asking/cluster-problem.ts";
import { checkCluster } from "../../admin/cluster/check.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ListRefused } from "../../kube/kube-api.ts";
import { allocationName } from "../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  CLAIMS_PATH,
  NADS_PATH,
  NETWORKS_PATH,
  namespacedPath,
  PODS_PATH,
  WHEREABOUTS_POOLS_PATH,
} from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

const RANGE = "10.0.0.0/24";
const GRACE_SECONDS = 120;
const DAY_MS = 86_400_000;
let time: VirtualTime;
let api: KubeInMemory;

beforeEach(() => {
  time = new VirtualTime();
  api = new KubeInMemory(time.clock());
});

async function findings(): Promise<string[]> {
  await time.pass(Math.max(0, DAY_MS - time.nowMs));
  const { findings: found } = await time.run(checkCluster(api, GRACE_SECONDS));
  return found.map(({ invariant, message, hint }) => `${invariant}: ${message}; do: ${hint}`);
}

function nad(namespace: string, name: string, ipam: object, network = "blue", metadata: object = {}) {
  const config = JSON.stringify({
    cniVersion: "1.0.0",
    name: network,
    type: "bridge",
    ipam: { type: "holdfast-ipam", ...ipam },
  });
  const own = { namespace, name, generation: 1, ...metadata };
  return api.put(namespacedPath(NADS_PATH, namespace), { metadata: own, spec: { config } });
}

/** A network that was switched over: its NAD, imported, and whose it is. */
function switchedOver(network = "blue", { definedIn = "shop", lastTransitionTime = "" } = {}) {
  const { metadata } = nad("shop", network, { subnets: RANGE }, network);
  api.put(NETWORKS_PATH, {
    metadata: { name: network },
    spec: { network, definedIn },
    status: {
      conditions: [{ type: "Imported", status: "True", lastTransitionTime }],
      importedFrom: [{ definition: `shop/${network}`, uid: metadata.uid, generation: 1 }],
    },
  });
}

function pool(allocations: Readonly<Record<string, object>>, range = RANGE) {
  const metadata = { namespace: "kube-system", name: "10.0.0.0-24" };
  api.put(namespacedPath(WHEREABOUTS_POOLS_PATH, "kube-system"), { metadata, spec: { range, allocations } });
}

interface MoreOfPod {
  readonly metadata?: object;
  readonly phase?: string;
  readonly conditions?: readonly object[];
}

function pod(name: string, ips: readonly string[], more: MoreOfPod = {}) {
  const status = [{ name: "shop/blue", interface: "net1", ips }];
  const annotations = { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status) };
  return api.put(namespacedPath(PODS_PATH, "shop"), {
    metadata: { namespace: "shop", name, annotations, ...more.metadata },
    spec: { nodeName: "n1" },
    status: { phase: more.phase ?? "Running", conditions: more.conditions ?? [] },
  });
}

const GONE = { kind: "Container", namespace: "shop", name: "gone-0", uid: "sandbox-1", interface: "net1" };

function allocation(
  network: string,
  address: string,
  state = "Bound",
  { owner = GONE, attachments = {} }: { owner?: object; attachments?: object } = {},
) {
  api.put(ALLOCATIONS_PATH, {
    metadata: { name: allocationName(network, parseInterfaceAddress(address).address) },
    spec: { network, address, owner },
    status: { state, since: "2026-01-01T00:00:00Z", attachments },
  });
}

const entry = (podref: string) => ({ id: "sandbox-1", ifname: "net1", podref });

describe("whereabouts' records on a network that was switched over", () => {
  test("an entry without an IPAllocation is named, with its IPPool, its pod and what to do", async () => {
    switchedOver();
    pool({ 5: entry("shop/gone-0") });
    expect(await findings()).toEqual([
      "import: 10.0.0.5 of network blue, in use by pod shop/gone-0 as whereabouts' IPPool kube-system/10.0.0.0-24 says, has " +
        "no Bound IPAllocation and may be given again; do: holdfast import --network blue --kubeconfig F records it; where " +
        "its container is certainly gone, remove the entry from the IPPool (as whereabouts' ip-reconciler does)",
    ]);
  });

  test("unrecorded entries of one pool are one finding, and an address that is Cooling counts as unrecorded", async () => {
    switchedOver();
    pool({ 5: entry("shop/gone-0"), 6: entry("shop/gone-1"), 7: { id: "x" } });
    allocation("blue", "10.0.0.6/24", "Cooling");
    const found = await findings();
    expect(found.filter((one) => one.startsWith("import:"))).toEqual([
      expect.stringContaining("10.0.0.5 and 2 more of network blue, in use by pod shop/gone-0"),
    ]);
  });

  test("recorded entries, those of another range, and those of pods with a finding of their own are in order", async () => {
    switchedOver();
    switchedOver("red");
    const deletionTimestamp = "2026-01-01T23:00:00Z";
    pod("ending", [], { metadata: { deletionTimestamp } });
    pod("young", [], { metadata: { creationTimestamp: "2026-01-01T23:59:00Z" } });
    pod("done", [], { phase: "Succeeded" });
    pool({ 5: entry("shop/gone-0"), 6: entry("shop/ending"), 7: entry("shop/young"), 8: entry("shop/done") });
    allocation("red", "10.0.0.5/24");
    expect((await findings()).filter((one) => one.includes("whereabouts"))).toEqual([]);
    pool({ 5: entry("shop/gone-0") }, "10.9.0.0/24");
    expect((await findings()).filter((one) => one.includes("whereabouts"))).toEqual([]);
  });

  test("an unrecorded address that its pod reports too is one finding", async () => {
    switchedOver();
    pod("web", ["10.0.0.5"]);
    pool({ 5: entry("shop/web") });
    expect(await findings()).toEqual([expect.stringContaining("in use by pod shop/web, has no IPAllocation")]);
  });

  test("a pool that cannot be read is named; without the right to list pools nothing is said", async () => {
    switchedOver();
    pool({}, "nonsense");
    expect(await findings()).toEqual([
      expect.stringContaining("import: whereabouts' IPPool kube-system/10.0.0.0-24: spec.range: "),
    ]);
    pool({}, "10.0.0.0");
    expect(await findings()).toEqual([
      expect.stringContaining('"10.0.0.0" has no prefix length; write it with that of its subnet, as 10.0.0.0/24'),
    ]);
    for (const problem of [new ListRefused("forbidden", 403), new ClusterProblem("refused", "no", "ask")]) {
      api.before = ({ path }) => {
        if (path === WHEREABOUTS_POOLS_PATH) throw problem;
      };
      expect(await findings()).toEqual([]);
    }
  });
});

describe("what a pod reports", () => {
  const reported = async () => (await findings()).filter((one) => one.includes("in use by pod"));
  const sandbox = (status: string) => [{ type: "PodReadyToStartContainers", status }];

  test("is in use while the kubelet has a sandbox for the pod, or does not say so", async () => {
    switchedOver();
    allocation("blue", "10.0.0.5/24");
    pod("web", ["10.0.0.5"], { conditions: sandbox("True") });
    pod("old", ["10.0.0.5"]);
    expect(await reported()).toEqual([
      expect.stringContaining("10.0.0.5 of network blue, in use by pod shop/old, belongs to"),
      expect.stringContaining("10.0.0.5 of network blue, in use by pod shop/web, belongs to"),
    ]);
  });

  const RECORDED = "10.0.0.5 of network blue, in use by pod shop/web, is recorded without its container";

  /** A pod of a network that was imported at noon, and its allocation, to which no node has written a container. */
  function withoutContainer({ createdAt = "2026-01-01T13:00:00Z", by = "shop/blue", attachments = {} } = {}) {
    switchedOver("blue", { lastTransitionTime: "2026-01-01T12:00:00Z" });
    const annotations = { "ipam.holdfast.dev/shared-with": "lab" };
    nad("shop", "blue", { subnets: RANGE }, "blue", { generation: 2, annotations });
    const status = [{ name: by, interface: "net1", ips: ["10.0.0.5"] }];
    const reporting = { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status) };
    const { metadata } = pod("web", [], {
      metadata: { creationTimestamp: createdAt, annotations: reporting },
    });
    const owner = { kind: "Pod", namespace: "shop", name: "web", uid: metadata.uid, interface: "net1" };
    allocation("blue", "10.0.0.5/24", "Bound", { owner, attachments });
    return metadata.uid;
  }

  test("has a container on some node where Holdfast has given it", async () => {
    const uid = withoutContainer();
    expect(await reported()).toEqual([expect.stringContaining(`I2: ${RECORDED}; do: `)]);
    const attachments = { "c1/net1": { node: "n1", pod: { uid } } };
    withoutContainer({ attachments });
    expect(await reported()).toEqual([]);
  });

  test("needs no container where another plugin gave it, or may have", async () => {
    withoutContainer({ createdAt: "2026-01-01T11:00:00Z" });
    expect(await reported()).toEqual([]);
    const creationTimestamp = "2026-01-01T10:00:00Z";
    nad("lab", "edited", { subnets: RANGE }, "blue", { generation: 2, creationTimestamp });
    withoutContainer({ by: "lab/edited" });
    expect(await reported()).toEqual([]);
    nad("lab", "as-made", { subnets: RANGE }, "blue", { creationTimestamp });
    withoutContainer({ by: "lab/as-made" });
    expect(await reported()).toEqual([expect.stringContaining(RECORDED)]);
  });

  test("is of a former sandbox while the kubelet has none for the pod", async () => {
    switchedOver();
    allocation("blue", "10.0.0.5/24");
    pod("web", ["10.0.0.5"], { conditions: sandbox("False") });
    expect(await reported()).toEqual([]);
  });
});

describe("the installed definitions", () => {
  function install(): void {
    for (const name of ["ipallocations", "ipnetworks"]) {
      const file = join(import.meta.dirname, `../../deploy/crds/${name}.yaml`);
      api.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", parse(readFileSync(file, "utf8")));
    }
  }

  test("definitions of this release are in order, and so is one that is absent or may not be read", async () => {
    expect(await findings()).toEqual([]);
    install();
    expect(await findings()).toEqual([]);
  });
});

test("what a claim lists and nobody can give is named only where the claim has nothing and is not being deleted", async () => {
  switchedOver();
  const listing = (metadata: object) => {
    const claim = { namespace: "shop", name: "db", ...metadata };
    return api.put(namespacedPath(CLAIMS_PATH, "shop"), {
      metadata: claim,
      spec: { network: "blue" },
      status: { ips: ["10.8.0.7/24"] },
    });
  };
  const listed = async () => (await findings()).filter((one) => one.includes("listed by claim shop/db"));
  listing({});
  expect(await listed()).toEqual([
    expect.stringMatching(/^I2: 10\.8\.0\.7\/24 of network blue, listed by claim shop\/db, has no IPAllocation; do: /),
  ]);
  listing({ deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(await listed(), "nobody writes it any more").toEqual([]);
  const { uid } = listing({}).metadata;
  const owner = { kind: "IPAMClaim", namespace: "shop", name: "db", uid, interface: "" };
  allocation("blue", "10.0.0.5/24", "Bound", { owner });
  expect(await listed(), "it has another").toEqual([]);
});

test("an IPNetwork that was deleted is a note while its network is in use, and stuck afterwards", async () => {
  const { metadata } = nad("shop", "blue", { subnets: RANGE });
  const deleted = (deletionTimestamp: string) =>
    api.put(NETWORKS_PATH, {
      metadata: { name: "blue", finalizers: ["ipam.holdfast.dev/network"], deletionTimestamp },
      spec: { network: "blue", definedIn: "shop" },
      status: {
        conditions: [{ type: "Imported", status: "True" }],
        importedFrom: [{ definition: "shop/blue", uid: metadata.uid, generation: 1 }],
      },
    });
  await time.pass(DAY_MS);
  deleted(new Date(api.clock.wallMs()).toISOString());
  expect(await findings()).toEqual([]);
  deleted("1970-01-01T00:00:00Z");
  expect(await findings()).toEqual([
    expect.stringMatching(/^stuck: IPNetwork blue was deleted and does not go, though no address/),
  ]);
  allocation("blue", "10.0.0.5/24");
  expect((await time.run(checkCluster(api, GRACE_SECONDS))).notes).toContain(
    "IPNetwork blue is being deleted, and stays until the last address of network blue is released",
  );
  expect((await findings()).filter((one) => one.startsWith("stuck"))).toEqual([]);
});

describe("definitions of one network", () => {
  test("NADs that disagree with the one that counts are named", async () => {
    switchedOver();
    for (let i = 0; i < 7; i++) nad("shop", `other-${i}`, { subnets: "10.1.0.0/24" });
    nad("shop", "same", { subnets: [RANGE] });
    expect((await findings()).filter((one) => one.startsWith("network:"))).toEqual([
      "network: NetworkAttachmentDefinitions shop/other-0, shop/other-1, shop/other-2, shop/other-3, shop/other-4, and 2 " +
        "more define network blue differently from shop/blue, which counts: ADDs through them are refused; do: make them " +
        "equal, or give one of them another network name",
    ]);
  });

  test("an administrators' network needs no NAD, and all NADs that name it are one finding", async () => {
    switchedOver("blue", { definedIn: "" });
    expect((await findings()).filter((one) => one.startsWith("owner:"))).toEqual([
      expect.stringContaining(
        "network blue belongs to the cluster's administrators, and NetworkAttachmentDefinitions of shop",
      ),
    ]);
  });
});
