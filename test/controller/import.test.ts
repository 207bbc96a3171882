import { afterAll, beforeAll, expect, test } from "vitest";
import { type ImportResult, importNetworks } from "../../imports/import.ts";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { labelValue, networkObjectName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, LABEL_NETWORK, NADS_PATH } from "../../kube/objects.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { projectNad } from "../../networks/nad-view.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

const CLAIMS = 200;
const PODS = 300;
const STATUS = "k8s.v1.cni.cncf.io/network-status";

let world: World;
let api: HttpKubeApi;

beforeAll(async () => {
  // More writes at once than go at once: the queue in front of them (Bottleneck) has timers of its own.
  world = await World.start({ api: "memory", time: "machine" });
  api = new HttpKubeApi(loadKubeConfig(world.cluster.kubeconfig("holdfast-controller")), world.time.clock);
});
afterAll(async () => {
  api?.close();
  await world?.stop();
});

/** The NADs as a controller has them after its first list. */
async function definitions(): Promise<DefinitionCatalog> {
  const catalog = new DefinitionCatalog(world.time.clock);
  for (const nad of await world.cluster.api.list(NADS_PATH)) catalog.upsert(projectNad(nad));
  return catalog;
}

async function importIt(network: string): Promise<ImportResult> {
  const options = {
    definitions: await definitions(),
    log: { info() {}, warn() {} },
  };
  const [result] = await world.time.run(importNetworks(api, [{ network }], options));
  return result as ImportResult;
}

/** By address. */
async function allocations(network: string): Promise<Map<string, KubeObject>> {
  const selector = encodeURIComponent(`${LABEL_NETWORK}=${labelValue(network)}`);
  const items = await world.cluster.api.list(`${ALLOCATIONS_PATH}?labelSelector=${selector}`);
  return new Map(items.map((one) => [one.spec.address, one]));
}

function pod(name: string, status: readonly object[], networks: readonly object[] = [], more: object = {}) {
  return world.kubevirt.createPod(NAMESPACE, name, {
    node: "n1",
    networks: networks as never,
    annotations: { [STATUS]: JSON.stringify(status) },
    ...more,
  });
}

test("two concurrent imports of a network with a long name record each address of its claims and pods once", async () => {
  const network = `Tenant_${"x".repeat(193)}`;
  await world.kubevirt.createNad(NAMESPACE, "big", configOf(network, { subnets: "10.20.0.0/16" }));
  const tasks: (() => Promise<unknown>)[] = [];
  for (let i = 0; i < CLAIMS; i++) tasks.push(() => world.claim(`big-${i}`, network, { ips: [`10.20.1.${i}/16`] }));
  for (let i = 0; i < PODS; i++) {
    const address = `10.20.${2 + Math.floor(i / 200)}.${i % 200}`;
    tasks.push(() => pod(`big-${i}`, [{ name: `${NAMESPACE}/big`, interface: "net1", ips: [address] }]));
  }
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (let next = tasks.pop(); next; next = tasks.pop()) await next();
    }),
  );
  const results = await Promise.all([importIt(network), importIt(network)]);
  const created = results.reduce((sum, one) => sum + (one.kind === "imported" ? one.created : 0), 0);
  expect(created).toBe(CLAIMS + PODS);
  const found = await allocations(network);
  expect(found.size).toBe(CLAIMS + PODS);
  expect(found.get("10.20.1.7/16")?.spec.owner).toMatchObject({
    kind: "IPAMClaim",
    name: "big-7",
    interface: "",
  });
  expect(found.get("10.20.2.7/16")?.spec.owner).toMatchObject({
    kind: "Pod",
    name: "big-7",
    interface: "net1",
  });
  const object = await world.networkObject(networkObjectName(network));
  expect(object.status.conditions).toMatchObject([{ type: "Imported", status: "True" }]);
  expect(await importIt(network)).toEqual({ kind: "done-before" });
});

test("an imported address belongs to the claim that the pod names for the interface, else to the pod, and that of a completed pod is not imported", async () => {
  const nad = `${NAMESPACE}/green`;
  await world.kubevirt.createNad(NAMESPACE, "green", configOf("green", { subnets: "10.30.0.0/24,fd30::/64" }));
  const waiting = await world.claim("waiting", "green");
  const select = (claim: string) => [{ name: "green", interface: "net7", "ipam-claim-reference": claim }];
  await pod(
    "named",
    [{ name: nad, interface: "net7", ips: ["10.30.0.1", "fd30::1"], mac: "02:00:00:00:00:01" }],
    select("waiting"),
  );
  const missing = await pod("missing", [{ name: nad, interface: "net7", ips: ["10.30.0.2"] }], select("never-made"));
  await pod("ended", [{ name: nad, interface: "net1", ips: ["10.30.0.3"] }], [], { phase: "Succeeded" });
  await pod("other", [{ name: `${NAMESPACE}/unknown`, interface: "net1", ips: ["10.30.0.4"] }]);
  await pod("outside", [{ name: nad, interface: "net1", ips: ["192.0.2.1"] }]);
  await world.kubevirt.createPod(NAMESPACE, "ovn", {
    node: "n1",
    networks: [{ name: "green", interface: "net9" }],
    annotations: {
      "k8s.ovn.org/pod-networks": JSON.stringify({ [nad]: { ip_addresses: ["10.30.0.5/20"] } }),
    },
  });
  await pod("nonsense", [{ name: nad, interface: "net1", ips: ["10.30.0.300", "10.30.0.6"] }, 7 as never]);
  const result = await importIt("green");
  expect(result).toMatchObject({ kind: "imported", created: 5, refused: 1 });
  expect(result.kind === "imported" && result.problems.length).toBeGreaterThan(1);
  const found = await allocations("green");
  expect([...found.keys()].sort()).toEqual([
    "10.30.0.1/24",
    "10.30.0.2/24",
    "10.30.0.5/20",
    "10.30.0.6/24",
    "fd30::1/64",
  ]);
  expect(found.get("fd30::1/64")?.spec).toMatchObject({
    owner: { kind: "IPAMClaim", name: "waiting", uid: waiting.metadata.uid },
    mac: "02:00:00:00:00:01",
  });
  expect(found.get("10.30.0.2/24")?.spec.owner).toMatchObject({
    kind: "Pod",
    uid: missing.metadata.uid,
    interface: "net7",
  });
  expect(found.get("10.30.0.5/20")?.spec.owner).toMatchObject({
    kind: "Pod",
    name: "ovn",
    interface: "net9",
  });
});

test("an address that two claims list is imported for the older one, and existing allocations keep their owner", async () => {
  await world.kubevirt.createNad(NAMESPACE, "gold", configOf("gold", { subnets: "10.40.0.0/24" }));
  const old = await world.claim("a-old", "gold", { ips: ["10.40.0.1/24"] });
  await world.advance(1_100);
  await world.claim("0-young", "gold", { ips: ["10.40.0.1/24", "10.40.0.3/24"] });
  await world.claim("b-robbed", "gold", { ips: ["10.40.0.2/24"] });
  await world.allocate("gold", "10.40.0.2/24", {
    kind: "Pod",
    namespace: NAMESPACE,
    name: "p",
    uid: "p",
    interface: "net1",
  });
  expect(await importIt("gold")).toMatchObject({ kind: "imported", created: 1, existed: 1 });
  const found = await allocations("gold");
  expect(found.get("10.40.0.1/24")?.spec.owner.uid).toBe(old.metadata.uid);
  expect(found.get("10.40.0.2/24")?.spec.owner.kind).toBe("Pod");
  // Of each subnet only the first is the claim's wish, whoever has that.
  expect(found.has("10.40.0.3/24")).toBe(false);
});

test("several networks are imported by one list of each kind, and only pods with an address there are read as a whole", async () => {
  const names = ["first", "second", "third"];
  for (const [index, name] of names.entries()) {
    await world.kubevirt.createNad(NAMESPACE, name, configOf(name, { subnets: `10.5${index}.0.0/24` }));
    await pod(`${name}-web`, [{ name: `${NAMESPACE}/${name}`, interface: "net1", ips: [`10.5${index}.0.7`] }]);
    await pod(`${name}-other`, [{ name: `${NAMESPACE}/green`, interface: "net1", ips: [`10.5${index}.0.8`] }]);
  }
  const read: string[] = [];
  const listed: string[] = [];
  const counting: KubeApi = {
    clock: api.clock,
    send: (request) => {
      if (request.path.includes("/pods/")) read.push(request.path.split("/").at(-1) ?? "");
      return api.send(request);
    },
    list: (request) => {
      listed.push(`${request.path.split("/").at(-1)}${request.metadataOnly ? ", metadata" : ""}`);
      return api.list(request);
    },
    watch: (request) => api.watch(request),
  };
  const options = { definitions: await definitions(), log: { info() {}, warn() {} } };
  const targets = names.map((network) => ({ network }));
  const results = await world.time.run(importNetworks(counting, targets, options));
  expect(results).toMatchObject(names.map(() => ({ kind: "imported", created: 1 })));
  expect(listed.sort()).toEqual(["ipallocations", "ipamclaims", "ippools", "pods, metadata"]);
  expect(read.sort()).toEqual(names.map((name) => `${name}-web`));
  for (const [index, name] of names.entries())
    expect([...(await allocations(name)).keys()]).toEqual([`10.5${index}.0.7/24`]);
});
