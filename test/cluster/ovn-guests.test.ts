/** Guests of OVN-Kubernetes on a node: which of its networks are served there, and who is behind a pod's port. */
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { PortClient, wantedNow } from "../harness/port-client.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { UdnObjects, udnDefinitions } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";
import { askIdentity } from "../identity/ask.ts";

const SERVE = { "metadata.holdfast.dev/serve": "true" };
const LAYER2 = { topology: "Layer2", layer2: { role: "Primary", subnets: ["10.20.0.0/16"] } };
const FIRMWARE = "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11";

let world: World;
let udns: UdnObjects;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a"] });
  udns = new UdnObjects(world.cluster);
});
afterAll(() => world?.stop());

const daemon = () => world.node("node-a").daemon;
const here = (uid: string, network: string) => askIdentity(daemon(), `pod-uid=${uid}&network=${network}&here=true`);

function listen(): PortClient {
  const client = PortClient.start(daemon());
  onTestFinished(() => client.stop());
  return client;
}

function ovnNad(namespace: string, nad: string, network: string): Promise<KubeObject> {
  const config = {
    name: network,
    type: "ovn-k8s-cni-overlay",
    netAttachDefName: `${namespace}/${nad}`,
    mtu: 1400,
  };
  return world.kubevirt.createNad(namespace, nad, { cniVersion: "1.1.0", ...config });
}

/** What OVN-Kubernetes writes of a pod. */
function give({ metadata }: KubeObject, nad: string, ip: string): Promise<KubeObject> {
  const networks = {
    [nad]: { ip_addresses: [`${ip}/16`], mac_address: "0a:58:0a:14:00:05", role: "primary" },
  };
  const annotations = { "k8s.ovn.org/pod-networks": JSON.stringify(networks) };
  return world.cluster.api.patch(pathOf(metadata.namespace, "pods", metadata.name), {
    metadata: { annotations },
  });
}

async function untilServed(networks: readonly string[], client: PortClient): Promise<void> {
  const names = () => client.answers.at(-1)?.ovnNetworks ?? null;
  await world.until(() => names()?.join() === networks.join(), `${JSON.stringify(networks)} to be served`);
}

test("without OVN-Kubernetes' definitions no OVN network is served", async () => {
  expect(await wantedNow(daemon())).toMatchObject({ ports: [], ovnNetworks: [] });
});

test("an OVN network is served while its definition asks for it and a pod of the node is on it", async () => {
  await world.cluster.apply(udnDefinitions("pruning"));
  const client = listen();
  await ovnNad(NAMESPACE, "blue", "cluster_udn_blue");
  await ovnNad(NAMESPACE, "green", `${NAMESPACE}_green`);
  await ovnNad(NAMESPACE, "tenants", "cluster_udn_tenants");
  const blue = await udns.cudn("blue", LAYER2, SERVE);
  await udns.udn(NAMESPACE, "green", LAYER2);
  await udns.cudn("tenants", LAYER2, { ...SERVE, "metadata.holdfast.dev/service": `${NAMESPACE}/own` });
  const vm = await world.kubevirt.createVm(NAMESPACE, "served", []);
  const { pod } = await world.kubevirt.startVm(vm, "node-a", null);
  await world.advance(200);
  expect(client.answers.at(-1)?.ovnNetworks).toEqual([]);
  await give(pod, `${NAMESPACE}/blue`, "10.20.0.5");
  await untilServed(["cluster_udn_blue"], client);
  for (const nad of ["green", "tenants"]) {
    const other = await world.kubevirt.startVm(await world.kubevirt.createVm(NAMESPACE, nad, []), "node-a", null);
    await give(other.pod, `${NAMESPACE}/${nad}`, "10.20.0.6");
  }
  const path = `/apis/k8s.ovn.org/v1/namespaces/${NAMESPACE}/userdefinednetworks/green`;
  await world.cluster.api.patch(path, { metadata: { annotations: SERVE } });
  // That of the network with a Service stays with OVN's balancer.
  await untilServed(["cluster_udn_blue", `${NAMESPACE}_green`], client);
  await world.cluster.api.patch(`/apis/k8s.ovn.org/v1/clusteruserdefinednetworks/${blue.metadata.name}`, {
    metadata: { annotations: { "metadata.holdfast.dev/serve": "false" } },
  });
  await untilServed([`${NAMESPACE}_green`], client);
});

test("a running pod is identified as its VM with all interfaces, a pending pod is not found", async () => {
  await ovnNad(NAMESPACE, "red", "cluster_udn_red");
  await udns.cudn("red", LAYER2, SERVE);
  const vm = await world.kubevirt.createVm(NAMESPACE, "asked", []);
  const { pod, vmi } = await world.kubevirt.startVm(vm, "node-a", null);
  const path = pathOf(NAMESPACE, "virtualmachineinstances", "asked", "kubevirt.io/v1");
  await world.cluster.api.patch(path, { spec: { domain: { firmware: { uuid: FIRMWARE } } } });
  const { uid } = pod.metadata;
  await give(pod, `${NAMESPACE}/red`, "10.20.0.9");
  await world.kubevirt.setPhase(pod, "Pending");
  await world.advance(200);
  expect((await here(uid, "cluster_udn_red")).status).toBe(404);

  await world.kubevirt.setPhase(pod, "Running");
  await world.until(async () => (await here(uid, "cluster_udn_red")).status === 200, "the pod to be seen running");
  const { network, identity } = (await here(uid, "cluster_udn_red")).json();
  expect(network).toBe("cluster_udn_red");
  expect(identity).toMatchObject({
    state: "running",
    vm: { name: "asked", uid: vm.uid, vmiUid: vmi.metadata.uid, firmwareUuid: FIRMWARE },
    pods: [{ uid, node: "node-a" }],
    interfaces: [
      {
        network: "cluster_udn_red",
        interface: "ovn-udn1",
        addresses: [{ address: "10.20.0.9/16" }],
        mac: "0a:58:0a:14:00:05",
        mtu: 1400,
        metadata: { tokens: "optional" },
        source: "ovn-kubernetes",
      },
    ],
  });
  expect((await here(uid, "cluster_udn_blue")).status).toBe(404);
  expect((await here("another", "cluster_udn_red")).status).toBe(404);

  const ours = await world.network("ours", { metadata: true });
  await world.add(pod, ours, { ifname: "net1" });
  const both = (await here(uid, "cluster_udn_red")).json().identity;
  expect(both.interfaces.map((one: { network: string }) => one.network)).toEqual(["ours", "cluster_udn_red"]);
  const container = both.pods[0].containerID;
  const asked = await askIdentity(daemon(), `container=${container}&interface=net1&network=ours&here=true`);
  expect(asked.json().identity).toEqual(both);
  await world.del(pod, ours, { ifname: "net1" });

  await world.kubevirt.removePod(pod);
  await world.until(async () => (await here(uid, "cluster_udn_red")).status === 404, "the pod to be gone");
});
