/** A VM on a network of OVN-Kubernetes, from its port to the documents: every part is the real one. */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { leftOver, metadataNet, removeLeft } from "../harness/metadata/parts.ts";
import type { ProductProcess } from "../harness/product-process.ts";
import { until } from "../harness/wait.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { UdnObjects, udnDefinitions } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";
import type { PortGuest } from "../metadata-net/node.ts";
import { makeIntegrationBridge, plugPod } from "./ovn-pod.ts";
import { OvsNode, whyNotOvs } from "./ovs-node.ts";

const NETWORKS = { blue: "cluster_udn_blue", red: "cluster_udn_red" } as const;
const FIRMWARE = {
  blue: "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11",
  red: "6e2b9c2f-8d63-4c8f-8b20-4030206c1d22",
} as const;
const SERVE = { "metadata.holdfast.dev/serve": "true" };
const LAYER2 = { topology: "Layer2", layer2: { role: "Primary", subnets: ["10.20.0.0/16"] } };

describe.skipIf(whyNotOvs() !== null)("VMs on networks of OVN-Kubernetes", () => {
  let world: World;
  let ovs: OvsNode;
  let net: ProductProcess;
  let directory: string;

  beforeAll(async () => {
    world = await World.start({ api: "memory", time: "machine", nodes: ["node-a"] });
    await world.cluster.apply(udnDefinitions("pruning"));
    ovs = await OvsNode.start([]);
    // In its place is one beside the world's daemon.
    await ovs.net.endNet("SIGTERM");
    await makeIntegrationBridge(ovs.ovs);
    const { daemon } = world.node("node-a");
    const server = await world.startMetadata(world.node("node-a"));
    // haproxy is not root, and has to reach the server's socket in there.
    chmodSync(server.directory, 0o711);
    chmodSync(server.socket, 0o666);
    directory = mkdtempSync(join(tmpdir(), "holdfast-net-"));
    net = metadataNet({
      daemonSocket: daemon.socket,
      metadataSocket: server.socket,
      runDir: directory,
      args: ["--ovsdb-socket", ovs.ovs.socket],
      within: ["ip", "netns", "exec", ovs.net.space as string],
    });
  });

  afterAll(async () => {
    await net?.end("SIGTERM");
    const within = ["ip", "netns", "exec", ovs.net.space as string];
    await removeLeft({ runDir: directory, args: ["--ovsdb-socket", ovs.ovs.socket], within });
    const left = directory === undefined ? [] : await leftOver(directory);
    await world?.stop();
    left.push(...((await ovs?.stop()) ?? []));
    rmSync(directory, { recursive: true, force: true });
    expect(left).toEqual([]);
  });

  /** A running VM on a network, with what OVN-Kubernetes writes of its pod in the API and in Open vSwitch. */
  async function vm(name: keyof typeof NETWORKS): Promise<{ pod: KubeObject; guest: PortGuest }> {
    const udns = new UdnObjects(world.cluster);
    await world.kubevirt.createNad(NAMESPACE, name, {
      ...{ cniVersion: "1.1.0", name: NETWORKS[name], type: "ovn-k8s-cni-overlay" },
      netAttachDefName: `${NAMESPACE}/${name}`,
    });
    await udns.cudn(name, LAYER2, SERVE);
    const made = await world.kubevirt.createVm(NAMESPACE, name, []);
    const { pod } = await world.kubevirt.startVm(made, "node-a", null);
    const vmi = pathOf(NAMESPACE, "virtualmachineinstances", name, "kubevirt.io/v1");
    await world.cluster.api.patch(vmi, { spec: { domain: { firmware: { uuid: FIRMWARE[name] } } } });
    const guest = await ovs.net.guest(null, "10.20.0.5/16");
    const given = { ip_addresses: ["10.20.0.5/16"], mac_address: guest.mac, role: "primary" };
    const annotations = {
      "k8s.ovn.org/pod-networks": JSON.stringify({ [`${NAMESPACE}/${name}`]: given }),
    };
    await world.cluster.api.patch(pathOf(NAMESPACE, "pods", pod.metadata.name), {
      metadata: { annotations },
    });
    await world.kubevirt.setPhase(pod, "Running");
    await plugPod(ovs.ovs, guest.port, {
      ...{ uid: pod.metadata.uid, mac: guest.mac },
      ...{ addresses: "10.20.0.5/16", network: NETWORKS[name] },
    });
    return { pod, guest };
  }

  const ask = (guest: PortGuest, path: string) => guest.ask(path, ["--max-time", "5"]);

  test("two with one address in two networks get their own documents, and a removed pod gets none", async () => {
    const [blue, red] = [await vm("blue"), await vm("red")];
    for (const [name, { guest }] of [
      ["blue", blue],
      ["red", red],
    ] as const) {
      await until(
        async () => (await ask(guest, "/openstack/latest/meta_data.json")).status === 200,
        () => `metadata of ${name}; log: ${net.log}`,
      );
      const { body } = await ask(guest, "/openstack/latest/meta_data.json");
      expect(JSON.parse(body)).toMatchObject({ uuid: FIRMWARE[name] });
      expect((await ask(guest, "/latest/meta-data/local-ipv4")).body).toBe("10.20.0.5");
      const links = JSON.parse((await ask(guest, "/openstack/latest/network_data.json")).body).links;
      expect(links).toMatchObject([{ ethernet_mac_address: guest.mac }]);
    }
    await world.kubevirt.removePod(red.pod);
    await ovs.ovs.vsctl("del-port", red.guest.port);
    await until(
      async () => (await ask(red.guest, "/openstack/latest/meta_data.json")).status !== 200,
      "it to be nobody",
    );
    expect((await ask(blue.guest, "/openstack/latest/meta_data.json")).status).toBe(200);
  });
});
