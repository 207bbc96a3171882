import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";
import { Leftovers, whereaboutsConfig } from "./leftovers.ts";

/** Six addresses, .1 to .6. */
const RANGE = "10.0.0.0/29";
const SHARED = { metadata: { annotations: { "ipam.holdfast.dev/shared-with": "*" } } };

let world: World;
let leftovers: Leftovers;

beforeAll(async () => {
  // No controller but for imports: what pods report later is not recorded.
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
  leftovers = new Leftovers(world);
  await world.kubevirt.createNamespace("market");
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

function networkOf(name: string, subnets = RANGE): Network {
  return { name, config: configOf(name, { subnets }) };
}

/** New pods one after the other until none is left to give: every address that they got. */
async function exhaust(network: Network, tag = network.name): Promise<string[]> {
  const given: string[] = [];
  for (let index = 0; index < 8; index++) {
    const pod = await world.pod(`${tag}-new-${index}`, index % 2 === 0 ? "node-a" : "node-b", network);
    const answer = await world.add(pod, network);
    if (answer.code !== 0) {
      expect(answer.json().msg).toContain("no free address");
      return given.sort();
    }
    given.push(answer.json().ips[0].address.split("/")[0]);
  }
  throw new Error(`${network.name} has more addresses than it can have: ${given}`);
}

function hosts(...last: readonly number[]): string[] {
  return last.map((one) => `10.0.0.${one}`);
}

async function ownerOf(network: string, address: string): Promise<KubeObject> {
  return (await world.allocation(networkOf(network), address))?.spec.owner;
}

test("addresses of the living pods of a NAD that joins an imported network are not given again", async () => {
  const network = networkOf("joined");
  const nad = await world.kubevirt.createNad(NAMESPACE, "joined", network.config);
  await world.cluster.api.patch(
    `/apis/k8s.cni.cncf.io/v1/namespaces/${NAMESPACE}/network-attachment-definitions/joined`,
    SHARED,
  );
  const other = await world.kubevirt.createNad("market", "joined", whereaboutsConfig("joined", RANGE));
  const old = await leftovers.pod("old-1", "market/joined", ["10.0.0.1"], { namespace: "market" });
  await leftovers.pod("old-2", "market/joined", ["10.0.0.2"], { namespace: "market" });
  const early = await world.given(await world.pod("early", "node-a", network, { ips: ["10.0.0.6/29"] }), network);
  expect(early).toEqual(["10.0.0.6/29"]);
  expect((await leftovers.networkObject("joined"))?.status.importedFrom).toEqual([
    { definition: `${NAMESPACE}/joined`, uid: nad.metadata.uid, generation: 1 },
  ]);
  await leftovers.editNad("joined", network.config, "market");
  // Through the NAD that has just joined, before anybody may have heard of it.
  const pod = await world.kubevirt.createPod("market", "first", {
    node: "node-b",
    networks: [{ name: "joined" }],
  });
  const [first] = await world.given(pod, network);
  expect(await ownerOf("joined", "10.0.0.1/29")).toMatchObject({
    kind: "Pod",
    namespace: "market",
    name: "old-1",
    uid: old.metadata.uid,
    interface: "net1",
  });
  expect([...(await exhaust(network)), first?.split("/")[0]].sort()).toEqual(hosts(3, 4, 5));
  const { status } = await leftovers.networkObject("joined");
  expect(status.importedFrom).toContainEqual({
    definition: "market/joined",
    uid: other.metadata.uid,
    generation: 2,
  });
});

test("a NAD that another plugin served for a while is imported again when it comes back", async () => {
  const network = await world.network("back", { subnets: RANGE });
  const early = await world.pod("back-early", "node-a", network, { ips: ["10.0.0.6/29"] });
  await world.given(early, network);
  await leftovers.editNad("back", whereaboutsConfig("back", RANGE));
  await leftovers.pod("back-meanwhile", `${NAMESPACE}/back`, ["10.0.0.1"]);
  await leftovers.editNad("back", network.config);
  await world.until(
    async () => (await world.node("node-b").daemon.cli("networks", "-o", "json")).stdout.includes(`${NAMESPACE}/back`),
    "the node to know the NAD again",
  );
  expect(await exhaust(network)).toEqual(hosts(2, 3, 4, 5));
});

test("an IPNetwork of release 0.1.0, which does not tell what was covered, covers nothing", async () => {
  const network = networkOf("former");
  await world.cluster.api.create("/apis/ipam.holdfast.dev/v1alpha1/ipnetworks", {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPNetwork",
    metadata: { name: "former" },
    spec: { network: "former" },
    status: {
      conditions: [
        {
          type: "Imported",
          status: "True",
          reason: "Imported",
          message: "0 addresses were in use before",
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    },
  });
  await world.kubevirt.createNad(NAMESPACE, "former", network.config);
  await leftovers.pod("former-old", `${NAMESPACE}/former`, ["10.0.0.4"]);
  expect(await exhaust(network)).toEqual(hosts(1, 2, 3, 5, 6));
  expect((await leftovers.networkObject("former"))?.status.importedFrom).toHaveLength(1);
});

test("a pod's annotation reserves one address of each subnet for each interface that the pod selects", async () => {
  const network = networkOf("squat", "10.0.0.0/29,fd00::/64");
  const ips = [...hosts(1, 2, 3, 4, 5), "fd00::1", "fd00::2", "192.0.2.1", "192.0.2.2"];
  const entries = [1, 2, 3].map((index) => ({ name: `${NAMESPACE}/squat`, interface: `net${index}`, ips }));
  await world.kubevirt.createPod(NAMESPACE, "squatter", {
    node: "node-x",
    networks: [{ name: "squat" }, { name: "squat" }],
    annotations: { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(entries) },
  });
  await leftovers.pod("squat-none", `${NAMESPACE}/squat`, hosts(6, 4), { networks: [] });
  await world.kubevirt.createNad(NAMESPACE, "squat", network.config);
  const given = await exhaust(network);
  const taken = (await world.allocations(network)).filter(({ spec }) => spec.owner.name.startsWith("squat"));
  const ofNew = (one: KubeObject) => one.spec.owner.name.startsWith("squat-new");
  const addresses = taken.filter((one) => !ofNew(one)).map(({ spec }) => spec.address);
  expect(addresses.sort()).toEqual(["10.0.0.1/29", "10.0.0.6/29", "fd00::1/64"]);
  expect(given).toEqual(hosts(2, 3, 4, 5));
  const { status } = await leftovers.networkObject("squat");
  expect(status.conditions[0].message).toMatch(/^3 addresses were in use before; \d+ more .* not recorded$/);
});

/** New pods of the cluster's default network, which a file on the nodes defines: every address that they got. */
async function exhaustPrimary(network: Network): Promise<string[]> {
  const given: string[] = [];
  for (let index = 0; index < 8; index++) {
    const node = index % 2 === 0 ? "node-b" : "node-a";
    const pod = await world.kubevirt.createPod(NAMESPACE, `${network.name}-new-${index}`, { node });
    const answer = await world.add(pod, network, { ifname: "eth0" });
    if (answer.code !== 0) {
      expect(answer.json().msg).toContain("no free address");
      return given.sort();
    }
    given.push(answer.json().ips[0].address.split("/")[0]);
  }
  throw new Error(`${network.name} has more addresses than it can have: ${given}`);
}

test("addresses of living pods of the default network, which has no NAD, are not given again", async () => {
  const network = networkOf("cbr0");
  const kubelet = await leftovers.primaryPod("primary", ["10.0.0.1"]);
  const status = [{ name: "cbr0", interface: "eth0", ips: ["10.0.0.2"], default: true }];
  await leftovers.primaryPod("multus", ["10.0.0.2"], { status });
  await leftovers.primaryPod("node-itself", ["10.0.0.3"], { hostNetwork: true });
  await leftovers.primaryPod("elsewhere", ["10.9.0.4"]);
  // Its address came through a NAD of another network, which only looks the same.
  const primary = [{ name: `${NAMESPACE}/other`, interface: "eth0", ips: ["10.0.0.4"], default: true }];
  await leftovers.primaryPod("nad-as-default", ["10.0.0.4"], { status: primary });
  expect(await exhaustPrimary(network)).toEqual(hosts(3, 4, 5, 6));
  expect(await ownerOf("cbr0", "10.0.0.1/29")).toMatchObject({
    kind: "Pod",
    name: "primary",
    uid: kubelet.metadata.uid,
    interface: "eth0",
  });
  expect((await world.allocations(network)).map(({ spec }) => spec.address)).not.toContain("10.9.0.4/32");
  const { status: shown } = await leftovers.networkObject("cbr0");
  expect(shown).toMatchObject({ subnets: RANGE, importedFrom: [{ subnets: RANGE }] });
});

test("a node that is switched over later imports its own pods before its first ADD", async () => {
  const network = networkOf("late", "10.31.0.0/29");
  const add = async (name: string, node: string) => {
    const pod = await world.kubevirt.createPod(NAMESPACE, name, { node });
    const answer = await world.add(pod, network, { ifname: "eth0" });
    return answer.code === 0 ? answer.json().ips[0].address : answer.json().msg;
  };
  await add("late-first", "node-a");
  const taken = (await world.allocations(network)).map(({ spec }) => spec.address);
  // What the other plugin gives on the other node after that.
  const free = [1, 2, 3, 4, 5, 6].map((host) => `10.31.0.${host}`).filter((one) => !taken.includes(`${one}/29`));
  for (const [index, ip] of free.slice(0, 4).entries()) {
    await leftovers.primaryPod(`late-${index}`, [ip], { node: "node-b" });
  }
  // The daemon that is installed there lists the node's pods before it serves.
  await world.node("node-b").restart();
  expect(await add("late-second", "node-b")).toBe(`${free[4]}/29`);
});

test("when a NAD is switched over from whereabouts its recorded addresses are imported with their pods", async () => {
  const range = "10.0.0.0/29";
  await world.kubevirt.createNad(NAMESPACE, "where", whereaboutsConfig("where", range));
  const reporting = await leftovers.pod("where-reporting", `${NAMESPACE}/where`, ["10.0.0.1"]);
  // Multus has not written its status yet.
  const starting = await world.kubevirt.createPod(NAMESPACE, "where-starting", {
    node: "node-x",
    networks: [{ name: "where", interface: "net7" }],
  });
  const claim = await world.claim("where-claim", "where");
  await leftovers.pod("where-vm", `${NAMESPACE}/where`, ["10.0.0.3"], {
    networks: [{ name: "where", "ipam-claim-reference": "where-claim" }],
  });
  await leftovers.pool(range, {
    "1": { id: "c1", podref: `${NAMESPACE}/where-reporting`, ifname: "net1" },
    "2": { id: "c2", podref: `${NAMESPACE}/where-starting` },
    "3": { id: "c3", podref: `${NAMESPACE}/where-vm`, ifname: "net1" },
    "4": { id: "c4", podref: `${NAMESPACE}/where-gone`, ifname: "net1" },
    // Of a former pod of this name.
    "5": { id: "c5", podref: `${NAMESPACE}/where-reporting`, ifname: "net1" },
    "77": { id: "c9", podref: `${NAMESPACE}/where-gone` },
    nonsense: { id: "c9", podref: "" },
  });
  await leftovers.editNad("where", networkOf("where").config);
  expect(await exhaust(networkOf("where"))).toEqual(hosts(6));
  const pod = { kind: "Pod", namespace: NAMESPACE };
  expect(await ownerOf("where", "10.0.0.1/29")).toMatchObject({
    ...pod,
    uid: reporting.metadata.uid,
    interface: "net1",
  });
  expect(await ownerOf("where", "10.0.0.2/29")).toMatchObject({
    ...pod,
    uid: starting.metadata.uid,
    interface: "net7",
  });
  expect(await ownerOf("where", "10.0.0.3/29")).toMatchObject({ kind: "IPAMClaim", uid: claim.metadata.uid });
  expect(await ownerOf("where", "10.0.0.4/29")).toMatchObject({
    kind: "Container",
    namespace: NAMESPACE,
    name: "where-gone",
    uid: "c4",
    interface: "net1",
  });
  expect(await ownerOf("where", "10.0.0.5/29")).toMatchObject({ kind: "Container", uid: "c5" });
});

test("without the right to read whereabouts' pools ADDs are refused with a remedy", async () => {
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/holdfast-controller";
  const { api } = world.cluster;
  const { rules } = await api.get(path);
  const others = rules.filter((rule: KubeObject) => !rule.apiGroups.includes("whereabouts.cni.cncf.io"));
  await api.patch(path, { rules: others });
  try {
    const network = await world.network("unread", { subnets: "10.77.0.0/29" });
    const pod = await world.pod("unread", "node-a", network);
    let said: KubeObject;
    await world.until(async () => {
      const answer = await world.add(
        await world.pod(`unread-${crypto.randomUUID().slice(0, 8)}`, "node-a", network),
        network,
      );
      said = answer.json();
      return answer.code !== 0 && said.msg.includes("cannot be read");
    }, "the server to take the right away");
    expect(said.code).toBe(11);
    expect(said.msg).toContain("what was in use on network unread before cannot be read");
    expect(said.msg).toContain("ippools.whereabouts.cni.cncf.io");
    await api.patch(path, { rules });
    await world.until(async () => (await world.add(pod, network)).code === 0, "the address to be given");
  } finally {
    await api.patch(path, { rules });
  }
});

test("the command line reports unrecorded addresses, shows what an import would record, and imports", async () => {
  const network = networkOf("byhand", "10.32.0.0/29");
  await world.kubevirt.createNad(NAMESPACE, "byhand", network.config);
  const holder = await world.pod("byhand-new", "node-a", network, { ips: ["10.32.0.6/29"] });
  await world.given(holder, network);
  // Reported when the import was over, and no controller runs.
  await leftovers.pod("byhand-late", `${NAMESPACE}/byhand`, ["10.32.0.2"]);
  await leftovers.pod("byhand-thief", `${NAMESPACE}/byhand`, ["10.32.0.6", "10.32.0.4", "10.32.0.5"]);
  const kubeconfig = world.cluster.kubeconfig("admin");
  const cli = async (...args: string[]) => {
    const { code, stdout } = await world.node("node-a").daemon.cli(...args, "--kubeconfig", kubeconfig, "-o", "json");
    return { code, answer: JSON.parse(stdout) };
  };
  const findings = async () => {
    const { answer } = await cli("check", "--grace", "0");
    const messages = answer.findings.map(({ message }: KubeObject) => message);
    return messages.filter((message: string) => message.includes("network byhand"));
  };
  expect(await findings()).toEqual([
    "10.32.0.2 of network byhand, in use by pod shop/byhand-late, has no IPAllocation",
    "10.32.0.6 of network byhand, in use by pod shop/byhand-thief, belongs to pod shop/byhand-new (net1)",
    "10.32.0.4 and 1 other addresses of network byhand, in use by pod shop/byhand-thief as it reports, have no IPAllocation",
  ]);
  const would = await cli("import", "--dry-run", "--network", "byhand");
  expect(would.code).toBe(1);
  const source = "Pod shop/byhand-late";
  const late = { network: "byhand", address: "10.32.0.2/29", user: "pod shop/byhand-late (net1)", source };
  expect(would.answer.items).toContainEqual({ ...late, action: "would-record", detail: "" });
  expect(would.answer.items).toContainEqual(
    expect.objectContaining({
      action: "conflict",
      address: "10.32.0.6/29",
      user: "pod shop/byhand-thief (net1)",
    }),
  );
  expect(would.answer.problems).toHaveLength(1);
  expect(would.answer.problems[0].message).toMatch(/reports 2 more addresses than its interfaces/);
  expect(await world.allocation(network, "10.32.0.2/29")).toBeNull();
  const done = await cli("import", "--network", "byhand");
  expect(done.answer.items).toContainEqual({ ...late, action: "recorded-now", detail: "" });
  expect((await world.allocation(network, "10.32.0.2/29"))?.status.state).toBe("Bound");
  const again = await cli("import", "--network", "byhand");
  expect(again.answer.items).toContainEqual({ ...late, action: "recorded-before", detail: "" });
  // Of what was just imported it may say that no container is recorded: the NAD is older than the pod by a second or
  // not.
  expect(await findings()).toContainEqual(expect.stringContaining("byhand-thief"));
});
