import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createOvnIdentity, type OvnIdentity } from "../../identity/sources/ovn/identity.ts";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import type { OpenKubeApi } from "../../kube/kube-api.ts";
import { ApiProxy } from "../harness/api-proxy.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import type { KubeVirt, RunningVm, Vm } from "../harness/kubevirt.ts";
import type { Cluster } from "../harness/world/cluster.ts";
import { metadataApi, quiet } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";

const NETWORK = "cluster_udn_blue";
const FIRMWARE = "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11";
const POD_NETWORKS = "k8s.ovn.org/pod-networks";

let world: World;
let cluster: Cluster;
let kube: KubeVirt;
let api: OpenKubeApi;
let identity: OvnIdentity;
let sequence = 0;
/** Another address and VM name for each test. */
let address: string;
let name: string;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  ({ cluster } = world);
  ({ kubevirt: kube } = world);
  api = metadataApi(cluster);
  for (const namespace of ["bank", "other"]) await kube.createNamespace(namespace);
  for (const namespace of ["shop", "bank"]) await ovnNad(namespace, "blue", NETWORK);
  // The same name, and another network.
  await ovnNad("other", "blue", "other_blue");
  identity = identityOf(api, NETWORK);
  identity.start();
});
afterAll(async () => {
  await identity?.close();
  api?.close();
  await world?.stop();
});
beforeEach(() => {
  sequence += 1;
  address = `10.20.0.${10 + sequence}`;
  name = `vm${sequence}`;
});

function identityOf(from: OpenKubeApi, network: string): OvnIdentity {
  return world.time.waitedFor(createOvnIdentity({ api: from, network, log: quiet }), "find", "close");
}

test("a VM, with everything that is known of it", async () => {
  const { vm, running } = await start("shop", [{ logical: "blue", nad: "blue", network: NETWORK }]);
  await cluster.api.patch(`${pathOf("shop", "ipamclaims", `${name}.blue`, "k8s.cni.cncf.io/v1alpha1")}/status`, {
    status: { ips: [`${address}/16`] },
  });
  await give(running.pod, { "shop/blue": entry(address) });
  await known();
  expect(await identity.find(at(NETWORK, address))).toEqual({
    state: "running",
    vm: { namespace: "shop", name, uid: vm.uid, vmiUid: running.vmi.metadata.uid, firmwareUuid: FIRMWARE },
    pods: [
      {
        namespace: "shop",
        name: running.pod.metadata.name,
        uid: running.pod.metadata.uid,
        node: "node-a",
        containerID: "",
        since: running.pod.metadata.creationTimestamp,
      },
    ],
    interfaces: [
      {
        network: NETWORK,
        interface: "ovn-udn1",
        owner: expect.objectContaining({ kind: "claim", namespace: "shop", name: `${name}.blue` }),
        claim: `shop/${name}.blue`,
        addresses: [{ address: `${address}/16`, gateway: "10.20.0.1" }],
        mac: "0a:58:0a:14:00:05",
        mtu: 1400,
        routes: [],
        dns: {},
        metadata: { address: "169.254.169.254", tokens: "optional" },
        source: "ovn-kubernetes",
      },
    ],
  });
  expect(await identity.find(at(NETWORK, `::ffff:${address}`))).not.toBeNull();
});

test("other networks, invalid and unknown addresses are not found", async () => {
  const { running } = await start("shop");
  await give(running.pod, { "shop/blue": entry(address) });
  await known();
  expect(await identity.find(at("other_blue", address))).toBeNull();
  expect(await identity.find(at(NETWORK, "nonsense"))).toBeNull();
  expect(await identity.find(at(NETWORK, "10.20.255.1"))).toBeNull();
});

test("addresses of a NAD in another namespace and of the default network are not found", async () => {
  const { running } = await start("other");
  await give(running.pod, { "other/blue": entry(address), default: entry("10.244.0.9") });
  const marker = await start("shop", [], `${name}-marker`);
  const other = "10.20.1.1";
  await give(marker.running.pod, { "shop/blue": entry(other) });
  await known(other);
  expect(await identity.find(at(NETWORK, address))).toBeNull();
  expect(await identity.find(at(NETWORK, "10.244.0.9"))).toBeNull();
});

test("two pods of one VM are one identity while it migrates", async () => {
  const { vm, running } = await start("shop");
  await give(running.pod, { "shop/blue": entry(address) });
  const target = await kube.migrate(vm, "node-b", "Running");
  await give(target, { "shop/blue": entry(address) });
  await world.until(async () => (await identity.find(at(NETWORK, address)))?.pods.length === 2, "both pods");
  const found = await identity.find(at(NETWORK, address));
  expect(found).toMatchObject({ state: "migrating", vm: { uid: vm.uid, firmwareUuid: FIRMWARE } });
  expect(found?.pods.map(({ node }) => node).sort()).toEqual(["node-a", "node-b"]);
  expect(found?.interfaces).toHaveLength(1);
  await kube.finishPod(running.pod);
  await world.until(async () => (await identity.find(at(NETWORK, address)))?.state === "running", "the end");
  expect((await identity.find(at(NETWORK, address)))?.pods[0]?.node).toBe("node-b");
});

test("an address that pods of two VMs have is not answered", async () => {
  const one = await start("shop");
  const two = await start("bank", [], `${name}-b`);
  await give(one.running.pod, { "shop/blue": entry(address) });
  await known();
  await give(two.running.pod, { "bank/blue": entry(address) });
  await world.until(async () => (await identity.find(at(NETWORK, address))) === null, "the second to be heard of");
  await kube.removePod(two.running.pod);
  await known();
});

test("a pod that is pending or has ended is not found by its address", async () => {
  const { running } = await start("shop");
  await kube.setPhase(running.pod, "Pending");
  await give(running.pod, { "shop/blue": entry(address) });
  const marker = await start("shop", [], `${name}-marker`);
  await give(marker.running.pod, { "shop/blue": entry("10.20.1.2") });
  await known("10.20.1.2");
  expect(await identity.find(at(NETWORK, address))).toBeNull();
  await kube.setPhase(running.pod, "Running");
  await known();
  await kube.finishPod(running.pod);
  await world.until(async () => (await ask(address)) === null, "its end");
});

test("a pod without a VMI, or whose VMI is gone, is not found", async () => {
  const labels = { "kubevirt.io": "virt-launcher" };
  const pod = await kube.createPod("shop", `plain-${name}`, { node: "node-a", labels });
  await give(pod, { "shop/blue": entry(address) });
  const ownerReferences = [
    {
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachineInstance",
      name: "gone",
      uid: "gone",
      controller: true,
    },
  ];
  const orphan = await kube.createPod("shop", `orphan-${name}`, {
    node: "node-a",
    labels,
    ownerReferences,
    finalizers: ["holdfast.test/kept"],
  });
  await give(orphan, { "shop/blue": entry("10.20.1.3") });
  const marker = await start("shop", [], `${name}-marker`);
  await give(marker.running.pod, { "shop/blue": entry("10.20.1.4") });
  await known("10.20.1.4");
  expect(await identity.find(at(NETWORK, address))).toBeNull();
  expect(await identity.find(at(NETWORK, "10.20.1.3"))).toBeNull();
});

test("an address that moves to another VM is never answered with the former VM", async () => {
  const former: string[] = [];
  for (let round = 0; round < 5; round++) {
    const { vm, running } = await start("shop", [], `${name}-${round}`);
    await give(running.pod, { "shop/blue": entry(address) });
    await world.until(async () => {
      const uid = (await ask(address))?.vm?.uid;
      // OVN-Kubernetes gave it on after the pod had ended, and this pod's guest asks after that.
      if (uid !== undefined) expect(former).not.toContain(uid);
      return uid === vm.uid;
    }, "the new VM");
    former.push(vm.uid);
    await kube.removePod(running.pod);
    // The guest of the next VM has to boot first.
    await world.advance(1_100);
  }
});

test("a UserDefinedNetwork is served with reads in its own namespace only", async () => {
  await ovnNad("bank", "red", "bank_red");
  const paths: string[] = [];
  const spy = new Proxy(api, {
    get: (target, key) => {
      const member = Reflect.get(target, key, target);
      if (typeof member !== "function") return member;
      return (request: { path: string }, ...rest: unknown[]) => {
        paths.push(request.path);
        return member.call(target, request, ...rest);
      };
    },
  });
  const red = identityOf(spy, "bank_red");
  red.start();
  const { vm, running } = await start("bank");
  await give(running.pod, { "bank/red": entry(address) });
  await world.until(async () => (await red.find(at("bank_red", address)))?.vm?.uid === vm.uid, "the VM");
  await red.close();
  expect(paths.filter((path) => !path.includes("/namespaces/bank/"))).toEqual([]);
});

test("the requests of a boot cost three reads, and an unreachable API server is an error", async () => {
  const { running } = await start("shop");
  await give(running.pod, { "shop/blue": entry(address) });
  await known();
  const before = await reads();
  for (let request = 0; request < 28; request++) expect(await identity.find(at(NETWORK, address))).not.toBeNull();
  expect((await reads()) - before).toBeLessThanOrEqual(3);
  await cluster.stopApiServer();
  await world.advance(1_100);
  await expect(identity.find(at(NETWORK, address))).rejects.toMatchObject({ name: "IdentityAway" });
  await expect(identity.find(at(NETWORK, "10.20.200.200"))).rejects.toMatchObject({ name: "IdentityAway" });
  expect(identity.notReady()).toBe("no answer from the API server");
  await cluster.startApiServer();
  await known();
  await world.until(() => identity.notReady() === null, "the server to be heard again");
});

test("with a silent watch a reassigned address gets an error to retry, not the former VM", async () => {
  const proxy = await ApiProxy.start(cluster);
  const slow = new HttpKubeApi(
    loadKubeConfig(cluster.kubeconfig("holdfast-metadata", proxy.url, proxy.ca)),
    world.time.clock,
  );
  const deaf = identityOf(slow, NETWORK);
  deaf.start();
  const first = await start("shop");
  await give(first.running.pod, { "shop/blue": entry(address) });
  await world.until(
    async () => (await deaf.find(at(NETWORK, address)).catch(() => null))?.vm?.uid === first.vm.uid,
    "the first VM",
  );
  proxy.silenceWatches();
  await kube.removePod(first.running.pod);
  const second = await start("shop", [], `${name}-next`);
  await give(second.running.pod, { "shop/blue": entry(address) });
  await world.advance(1_100);
  await expect(deaf.find(at(NETWORK, address))).rejects.toMatchObject({ name: "IdentityAway" });
  proxy.endWatches();
  await world.until(
    async () => (await deaf.find(at(NETWORK, address)).catch(() => null))?.vm?.uid === second.vm.uid,
    "the second VM",
  );
  await deaf.close();
  slow.close();
  await proxy.stop();
});

function at(network: string, where: string) {
  return { kind: "address", network, address: where } as const;
}

/** Null also while it is not known, which a guest is told to come again for. */
function ask(wanted: string) {
  return identity.find(at(NETWORK, wanted)).catch(() => undefined);
}

async function known(wanted = address): Promise<void> {
  await world.until(async () => ((await ask(wanted)) ?? null) !== null, `${wanted} to be known`);
}

async function start(
  namespace: string,
  networks: Vm["networks"] = [],
  vmName = name,
): Promise<{ vm: Vm; running: RunningVm }> {
  const vm = await kube.createVm(namespace, vmName, networks);
  const running = await kube.startVm(vm, "node-a", null);
  const path = pathOf(namespace, "virtualmachineinstances", vmName, "kubevirt.io/v1");
  await cluster.api.patch(path, { spec: { domain: { firmware: { uuid: FIRMWARE.toUpperCase() } } } });
  await kube.setPhase(running.pod, "Running");
  return { vm, running };
}

/** What OVN-Kubernetes writes of a pod. */
function give({ metadata }: KubeObject, networks: object): Promise<KubeObject> {
  const annotations = { [POD_NETWORKS]: JSON.stringify(networks) };
  return cluster.api.patch(pathOf(metadata.namespace, "pods", metadata.name), { metadata: { annotations } });
}

function entry(ip: string): object {
  return {
    ip_addresses: [`${ip}/16`],
    mac_address: "0a:58:0a:14:00:05",
    gateway_ips: ["10.20.0.1"],
    ip_address: `${ip}/16`,
    gateway_ip: "10.20.0.1",
    role: "primary",
  };
}

function ovnNad(namespace: string, nad: string, network: string): Promise<KubeObject> {
  return kube.createNad(namespace, nad, {
    cniVersion: "1.1.0",
    name: network,
    type: "ovn-k8s-cni-overlay",
    netAttachDefName: `${namespace}/${nad}`,
    topology: "layer2",
    role: "primary",
    mtu: 1400,
    subnets: "10.20.0.0/16",
  });
}

/** GETs of single pods that the API server has served. */
function reads(): Promise<number> {
  return cluster.reads("pods");
}
