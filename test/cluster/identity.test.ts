/**
 * Who is behind an address in a cluster: two nodes, a real API server, and what KubeVirt does when the test says so.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { IdentityAnswer } from "../../identity/wire.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import type { Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";
import { askIdentity, askSocket, identitySocket } from "../identity/ask.ts";

const KUBEVIRT = "kubevirt.io/v1";
const FIRMWARE = "5d307ca9-b3ef-428c-8861-06e72d69f223";
const DUAL = { subnets: "10.0.0.0/24,fd00::/64", gateway: "10.0.0.1", routes: [{ dst: "0.0.0.0/0" }] };

let world: World;

beforeAll(async () => {
  const controller = { sweepIntervalSeconds: 1, sweepGraceSeconds: 1 };
  world = await World.start({ api: "memory", time: "machine", nodes: ["node-b"], controller });
  await world.startNode("node-a", { process: true });
});
afterEach(() => world.settled());
afterAll(() => world?.stop());

const nic = (network: Network) => ({ ifname: interfaceOf(network.name) });
const bare = (ip: string | undefined) => (ip as string).split("/")[0] as string;
const ask = (node: string, query: string) => askIdentity(world.node(node).daemon, query);

async function who(node: string, query: string): Promise<IdentityAnswer> {
  const answer = await ask(node, query);
  expect(answer.status, `${query} on ${node}: ${answer.body}`).toBe(200);
  return answer.json();
}

async function refused(node: string, query: string): Promise<{ status: number; code: string }> {
  const answer = await ask(node, query);
  return { status: answer.status, code: answer.json().code };
}

/** The VMI as virt-controller makes it: with a UUID of the firmware, here in capitals. */
async function startVm(
  vm: Vm,
  node: string,
  uuid: string | null = FIRMWARE,
): Promise<{ vmi: KubeObject; pod: KubeObject }> {
  const started = await world.kubevirt.startVm(vm, node);
  if (uuid === null) return started;
  const path = pathOf(vm.namespace, "virtualmachineinstances", vm.name, KUBEVIRT);
  await world.cluster.api.patch(path, { spec: { domain: { firmware: { uuid: uuid.toUpperCase() } } } });
  return started;
}

/** A VMI that no VM owns. */
function bareVmi(name: string): Promise<KubeObject> {
  return world.cluster.api.create(pathOf(NAMESPACE, "virtualmachineinstances", "", KUBEVIRT), {
    apiVersion: KUBEVIRT,
    kind: "VirtualMachineInstance",
    metadata: { name, namespace: NAMESPACE },
    spec: { domain: { firmware: { uuid: FIRMWARE } } },
  });
}

const podOf = ({ metadata }: KubeObject, node: string) => ({
  namespace: metadata.namespace,
  name: metadata.name,
  uid: metadata.uid,
  node,
});

test("a VM is found by address from every node, by pod, VM and container, with its MAC, firmware UUID and UIDs", async () => {
  const network = await world.network("blue", DUAL);
  const mac = "02:00:00:00:00:01";
  const vm = await world.kubevirt.createVm(NAMESPACE, "vm1", [{ logical: "blue", nad: "blue", network: "blue", mac }]);
  const { pod, vmi } = await startVm(vm, "node-a");
  const [v4, v6] = await world.given(pod, network, nic(network));
  const here = await who("node-a", `address=${bare(v4)}&network=blue&here=true`);
  expect(here).toEqual({
    network: "blue",
    identity: {
      state: "running",
      vm: {
        namespace: NAMESPACE,
        name: "vm1",
        uid: vm.uid,
        vmiUid: vmi.metadata.uid,
        firmwareUuid: FIRMWARE,
      },
      pods: [
        {
          ...podOf(pod, "node-a"),
          containerID: `sandbox-${pod.metadata.uid}`,
          since: expect.stringMatching(/^\d{4}-.*Z$/),
        },
      ],
      interfaces: [
        {
          network: "blue",
          interface: interfaceOf("blue"),
          owner: expect.objectContaining({ kind: "claim", namespace: NAMESPACE, name: "vm1.blue" }),
          claim: `${NAMESPACE}/vm1.blue`,
          addresses: [{ address: v4, gateway: "10.0.0.1" }, { address: v6 }],
          mac,
          mtu: null,
          routes: [{ dst: "0.0.0.0/0" }],
          dns: {},
          metadata: null,
          source: "holdfast",
        },
      ],
    },
  });
  // `since` of the journal and of the object are the seconds of two instants.
  const same = (answer: IdentityAnswer) =>
    expect({
      ...answer.identity,
      pods: answer.identity.pods.map((one) => ({ ...one, since: "" })),
    }).toEqual({ ...here.identity, pods: here.identity.pods.map((one) => ({ ...one, since: "" })) });
  for (const node of ["node-a", "node-b"]) {
    for (const query of [
      `address=${bare(v4)}`,
      `address=${bare(v6)}&network=blue`,
      `pod=${NAMESPACE}/${pod.metadata.name}`,
      `pod=${pod.metadata.name}`,
      `vm=${NAMESPACE}/vm1`,
      "vm=vm1",
      `container=sandbox-${pod.metadata.uid}`,
    ]) {
      same(await who(node, query));
    }
  }
  for (const query of ["vm=vm1", `pod=${pod.metadata.name}`, `container=sandbox-${pod.metadata.uid}`]) {
    same(await who("node-a", `${query}&here=true`));
    expect(await refused("node-b", `${query}&here=true`)).toEqual({ status: 404, code: "NOT_FOUND" });
  }
  expect(await refused("node-b", `address=${bare(v4)}&here=true`)).toEqual({
    status: 404,
    code: "NOT_FOUND",
  });
});

test("one address on two networks is never confused, even for a VM on both", async () => {
  const [one, two] = [
    await world.network("twin-one", { subnets: "10.7.0.0/24" }),
    await world.network("twin-two", { subnets: "10.7.0.0/24" }),
  ];
  const vm = await world.vm("twins", one, two);
  const { pod } = await startVm(vm, "node-a");
  const [first] = await world.given(pod, one, nic(one));
  const [second] = await world.given(pod, two, nic(two));
  // Unless the VM itself has it on both.
  const other = first === second ? "twins" : "plain";
  if (first !== second) {
    const plain = await world.pod("plain", "node-b", two, { ips: [first] });
    expect(await world.given(plain, two)).toEqual([first]);
  }
  for (const node of ["node-a", "node-b"]) {
    expect(await refused(node, `address=${bare(first)}`)).toEqual({ status: 409, code: "ADDRESS_AMBIGUOUS" });
    const mine = await who(node, `address=${bare(first)}&network=twin-one`);
    expect(mine.identity.interfaces.map(({ network }) => network)).toEqual(["twin-one", "twin-two"]);
    expect(mine.identity.vm?.name).toBe("twins");
    const theirs = (await who(node, `address=${bare(first)}&network=twin-two`)).identity;
    expect(theirs.vm?.name ?? theirs.pods[0]?.name).toBe(other);
  }
});

test("a migrating VM is one identity with two pods until the source's DEL", async () => {
  const network = await world.network("move", DUAL);
  const vm = await world.vm("mover", network);
  const { pod: source } = await startVm(vm, "node-a");
  const [ip] = await world.given(source, network, nic(network));
  const target = await world.kubevirt.migrate(vm, "node-b");
  expect(await world.given(target, network, nic(network))).toContain(ip);
  const query = `address=${bare(ip)}&network=move`;
  const pods = [podOf(source, "node-a"), podOf(target, "node-b")];
  for (const node of ["node-a", "node-b"]) {
    for (const one of [query, "vm=mover", `pod=${target.metadata.name}`]) {
      const { identity } = await who(node, one);
      expect(identity).toMatchObject({ state: "migrating", vm: { firmwareUuid: FIRMWARE } });
      // Both may have come within one second, which is all that the API tells.
      expect(identity.pods.toSorted((a, b) => (a.node < b.node ? -1 : 1))).toMatchObject(pods);
      expect(identity.interfaces).toHaveLength(1);
      expect(identity.interfaces[0]?.addresses).toHaveLength(2);
    }
  }
  for (const [node, pod] of [
    ["node-a", pods[0]],
    ["node-b", pods[1]],
  ] as const) {
    expect((await who(node, `${query}&here=true`)).identity).toMatchObject({
      state: "running",
      vm: { name: "mover", firmwareUuid: FIRMWARE },
      pods: [pod],
    });
  }
  await world.del(source, network, nic(network));
  // What the API still shows of the source has ended here.
  expect(await refused("node-a", `${query}&here=true`)).toEqual({ status: 404, code: "NOT_FOUND" });
  expect((await who("node-a", query)).identity).toMatchObject({ state: "running", pods: [pods[1]] });
  await world.kubevirt.removePod(source);
  await world.untilUsers(network, ip as string, target);
  expect((await who("node-b", query)).identity).toMatchObject({ state: "running", pods: [pods[1]] });
});

test("two launcher pods on one node are one VM that migrates", async () => {
  const network = await world.network("beside", DUAL);
  const vm = await world.vm("twice", network);
  const { pod: source } = await startVm(vm, "node-a");
  const [ip] = await world.given(source, network, nic(network));
  const target = await world.kubevirt.migrate(vm, "node-a");
  await world.given(target, network, nic(network));
  const query = `address=${bare(ip)}&network=beside&here=true`;
  const { identity } = await who("node-a", query);
  expect(identity).toMatchObject({ state: "migrating", vm: { name: "twice" } });
  expect(identity.pods.map(({ uid }) => uid).sort()).toEqual([source.metadata.uid, target.metadata.uid].sort());
  expect(identity.interfaces).toHaveLength(1);
  await world.del(source, network, nic(network));
  expect((await who("node-a", query)).identity).toMatchObject({
    state: "running",
    pods: [{ uid: target.metadata.uid }],
  });
});

test("a stopped VM is identified by its claim, and a deleted one by the history", async () => {
  const network = await world.network("rest", DUAL);
  const second = await world.network("rest-two", { subnets: "10.9.0.0/24" });
  const vm = await world.vm("sleeper", network, second);
  const path = pathOf(NAMESPACE, "virtualmachines", "sleeper", KUBEVIRT);
  await world.cluster.api.patch(path, {
    spec: { template: { spec: { domain: { firmware: { uuid: FIRMWARE } } } } },
  });
  const { pod } = await startVm(vm, "node-a");
  const [ip] = await world.given(pod, network, nic(network));
  const [other] = await world.given(pod, second, nic(second));
  await world.kubevirt.stopVm(vm, {
    meanwhile: async () => {
      for (const one of [network, second]) await world.del(pod, one, nic(one));
    },
  });
  const query = `address=${bare(ip)}&network=rest`;
  for (const node of ["node-a", "node-b"]) {
    expect(await refused(node, `${query}&here=true`)).toEqual({ status: 404, code: "NOT_FOUND" });
    if (node === "node-b") {
      await world.untilUsers(network, ip as string);
      await world.untilUsers(second, other as string);
    }
    const { identity } = await who(node, query);
    expect(identity).toMatchObject({
      state: "stopped",
      vm: { namespace: NAMESPACE, name: "sleeper", uid: vm.uid, vmiUid: null },
      pods: [],
    });
    expect(identity.interfaces.map((one) => [one.network, one.interface, one.addresses.length])).toEqual([
      ["rest", null, 2],
      ["rest-two", null, 1],
    ]);
  }
  // Who may read VirtualMachines is told the UUID that the guest will have.
  const admin = world.cluster.kubeconfig("admin");
  const cli = (...args: string[]) => world.cli("--kubeconfig", admin, ...args);
  for (const args of [
    ["who", "--vm", "sleeper", "-o", "json"],
    ["who", "--vm", `${NAMESPACE}/sleeper`, "-o", "json"],
  ]) {
    const { code, stdout, stderr } = await cli(...args);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout).identity).toMatchObject({
      state: "stopped",
      vm: { uid: vm.uid, firmwareUuid: FIRMWARE },
      interfaces: [{ network: "rest" }, { network: "rest-two" }],
    });
  }
  const byAddress = await cli("who", bare(ip), "--network", "rest", "-o", "json");
  expect(JSON.parse(byAddress.stdout).identities).toMatchObject([
    { network: "rest", identity: { state: "stopped", vm: { firmwareUuid: FIRMWARE } } },
  ]);

  const again = await startVm(vm, "node-b");
  expect(await world.given(again.pod, network, nic(network))).toContain(ip);
  expect((await who("node-b", `${query}&here=true`)).identity.vm).toMatchObject({
    vmiUid: again.vmi.metadata.uid,
    firmwareUuid: FIRMWARE,
  });
  await world.del(again.pod, network, nic(network));
  await world.kubevirt.deleteVm(vm);
  for (const [one, address] of [
    [network, ip],
    [second, other],
  ] as const)
    await world.becomes(one, address as string, "Cooling");
  for (const query of [`address=${bare(ip)}&network=rest`, "vm=sleeper"]) {
    // The node follows the objects in its own time.
    await world.until(async () => (await who("node-a", query)).identity.state !== "stopped", query);
    expect((await who("node-a", query)).identity, query).toMatchObject({
      state: "released-recently",
      vm: { name: "sleeper", uid: vm.uid, firmwareUuid: null },
      pods: [],
    });
  }
  const gone = await cli("who", "--vm", "sleeper");
  expect(gone, gone.stderr).toMatchObject({ code: 1, stdout: expect.stringContaining("released-recently") });
});

test("a pod without a VM is identified from its ADD to its DEL, before the API server shows either", async () => {
  const network = await world.network("plain", DUAL);
  const pod = await world.pod("web-0", "node-a", network);
  const [ip] = await world.given(pod, network);
  const query = `address=${bare(ip)}&network=plain`;
  for (const one of [`${query}&here=true`, query]) {
    expect((await who("node-a", one)).identity).toMatchObject({
      state: "running",
      vm: null,
      pods: [podOf(pod, "node-a")],
      interfaces: [{ claim: null, addresses: [{ address: ip }, {}] }],
    });
  }
  expect((await who("node-b", query)).identity.interfaces).toMatchObject([{ addresses: [{ address: ip }, {}] }]);
  await world.del(pod, network);
  expect((await who("node-a", query)).identity).toMatchObject({ state: "released-recently", pods: [] });
  await world.becomes(network, ip as string, "Cooling");
  expect((await who("node-b", query)).identity).toMatchObject({ state: "released-recently", pods: [] });
});

test("a MAC that nobody requested is the one that Multus reports", async () => {
  const network = await world.network("reported", DUAL);
  const pod = await world.pod("reported-0", "node-a", network);
  const [ip] = await world.given(pod, network);
  const query = `address=${bare(ip)}&network=reported&here=true`;
  expect((await who("node-a", query)).identity.interfaces[0]?.mac).toBeNull();
  const mac = "02:00:00:00:00:77";
  const status = JSON.stringify([
    { name: `${NAMESPACE}/reported`, interface: "net1", ips: [bare(ip)], mac },
    { name: `${NAMESPACE}/other`, interface: "net2", ips: ["10.9.9.9"], mac: "02:00:00:00:00:78" },
  ]);
  await world.cluster.api.patch(pathOf(NAMESPACE, "pods", "reported-0"), {
    metadata: { annotations: { "k8s.v1.cni.cncf.io/network-status": status } },
  });
  await world.until(
    async () => (await who("node-a", query)).identity.interfaces[0]?.mac === mac,
    "the MAC of network-status",
  );
  await world.del(pod, network);
});

test("while the API server is away known identities are answered, and unknown ones are a 503", async () => {
  const network = await world.network("away", DUAL);
  const [known, fresh] = [await world.vm("known", network), await world.vm("fresh", network)];
  const started = await startVm(known, "node-a");
  const [knownIp] = await world.given(started.pod, network, nic(network));
  const unasked = await startVm(fresh, "node-a");
  const [freshIp] = await world.given(unasked.pod, network, nic(network));
  const here = (ip: string | undefined) => `address=${bare(ip)}&network=away&here=true`;
  // One whose ADD had no reason to ask for its VM: it has no claim.
  const [owner] = unasked.pod.metadata.ownerReferences;
  const bareLauncher = await world.kubevirt.createPod(NAMESPACE, "virt-launcher-bare", {
    node: "node-a",
    networks: [{ name: "away" }],
    ownerReferences: [{ ...owner, uid: (await bareVmi("bare")).metadata.uid, name: "bare" }],
  });
  const [bareIp] = await world.given(bareLauncher, network);
  const before = await who("node-a", here(knownIp));
  await world.cluster.stopApiServer();
  try {
    expect(await who("node-a", here(knownIp))).toEqual(before);
    // Its ADD learnt who it is, as the ADD of every VM's claim does.
    expect((await who("node-a", here(freshIp))).identity.vm).toMatchObject({ firmwareUuid: FIRMWARE });
    expect(await refused("node-a", here(bareIp))).toEqual({ status: 503, code: "API_AWAY" });
    expect(await refused("node-a", here(knownIp).replace("&here=true", ""))).toEqual({
      status: 503,
      code: "API_AWAY",
    });
    await world.del(started.pod, network, nic(network));
    expect(await refused("node-a", here(knownIp))).toEqual({ status: 404, code: "NOT_FOUND" });
    await world.node("node-a").restart("SIGKILL", { wait: false });
    await world.until(() => world.node("node-a").log.includes("listening"), "the socket");
    expect((await refused("node-a", here(freshIp))).status).toBe(503);
  } finally {
    await world.cluster.startApiServer();
  }
  await world.node("node-a").daemon.ready();
  expect((await who("node-a", here(freshIp))).identity.vm).toMatchObject({
    name: "fresh",
    firmwareUuid: FIRMWARE,
  });
  expect((await who("node-a", here(bareIp))).identity.vm).toMatchObject({
    name: "bare",
    uid: "",
    firmwareUuid: FIRMWARE,
  });
});

test("the VM of a container whose pod object is gone is known by its claim", async () => {
  const network = await world.network("orphan", DUAL);
  const vm = await world.vm("lost", network);
  const { pod } = await startVm(vm, "node-a");
  const [ip] = await world.given(pod, network, nic(network));
  await world.kubevirt.stopVm(vm);
  await world.node("node-a").restart();
  expect((await who("node-a", `address=${bare(ip)}&network=orphan&here=true`)).identity).toMatchObject({
    state: "running",
    vm: { name: "lost", uid: vm.uid, vmiUid: null },
  });
  await world.del(pod, network, nic(network));
});

test("the identity socket of a cluster's node serves no user-data", async () => {
  const socket = identitySocket(world.node("node-a").daemon);
  const answer = await askSocket(socket, "GET", "/v1/content?container=any");
  expect({ status: answer.status, code: answer.json().code }).toEqual({ status: 404, code: "NOT_FOUND" });
});
