import { rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MetadataServer } from "../../metadata/server/metadata-server.ts";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { SERVICE_ANNOTATION } from "../../networks/udn/udn-object.ts";
import { systemClock } from "../../platform/time.ts";
import { newDirectory } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { freePorts } from "../harness/kube-process.ts";
import { KubeVirt } from "../harness/kubevirt.ts";
import type { Cluster } from "../harness/world/cluster.ts";
import { UdnObjects, udnDefinitions } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";

// The metadata server as the backend pod of a network's Service: guests are told apart by where their connections come
// from.

const FIRMWARE = "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11";
/** Of the loopback, so that a test can ask from it. */
const VM = "127.20.0.5";

let world: World;
let cluster: Cluster;
let kube: KubeVirt;
let server: MetadataServer;
let directory: string;
let port: number;
let pod: KubeObject;

beforeAll(async () => {
  world = await World.start({ api: "memory", time: "machine" });
  ({ cluster } = world);
  kube = new KubeVirt(cluster.api);
  await cluster.apply(udnDefinitions("pruning"));
  const objects = new UdnObjects(cluster);
  const layer2 = { role: "Primary", subnets: ["127.20.0.0/16"] };
  // Its own network's reference, which leads to this very server.
  await objects.cudn("blue", { topology: "Layer2", layer2 }, { [SERVICE_ANNOTATION]: "shop/md" });
  await objects.service("shop", "md");
  await kube.createNad("shop", "blue", {
    name: "cluster_udn_blue",
    type: "ovn-k8s-cni-overlay",
    netAttachDefName: "shop/blue",
    topology: "layer2",
    role: "primary",
    mtu: 1400,
  });
  pod = await startVm("web", VM);
  directory = newDirectory();
  [port = 0] = await freePorts(1);
  const flags = {
    network: "cluster_udn_blue",
    listen: `127.0.0.1:${port}`,
    kubeconfig: cluster.kubeconfig("holdfast-metadata"),
    state: join(directory, "state"),
    metricsAddress: "off",
    logLevel: "silent",
  };
  server = await MetadataServer.create(loadMetadataSettings(flags, {}), pino({ level: "silent" }), systemClock);
  await server.start();
  await world.until(async () => (await get("/openstack/latest/meta_data.json")).status === 200, "the first answer");
});
afterAll(async () => {
  await server?.stop();
  await world?.stop();
  if (directory) rmSync(directory, { recursive: true, force: true });
});

test("meta_data.json has the UUID, name and tenant of the guest", async () => {
  const { status, body } = await get("/openstack/latest/meta_data.json");
  expect(status).toBe(200);
  const [namespace] = await cluster.api.list("/api/v1/namespaces?fieldSelector=metadata.name%3Dshop");
  expect(JSON.parse(body)).toMatchObject({ uuid: FIRMWARE, name: "web", project_id: namespace.metadata.uid });
});

test("the deployment's setting tokens: required applies to its network", async () => {
  const [other = 0] = await freePorts(1);
  const flags = {
    network: "cluster_udn_blue",
    listen: `127.0.0.1:${other}`,
    kubeconfig: cluster.kubeconfig("holdfast-metadata"),
    state: join(directory, "strict"),
    metricsAddress: "off",
    logLevel: "silent",
    tokens: "required",
  };
  const strict = await MetadataServer.create(loadMetadataSettings(flags, {}), pino({ level: "silent" }), systemClock);
  await strict.start();
  try {
    const status = async () => (await get("/openstack/latest/meta_data.json", VM, {}, other)).status;
    await world.until(async () => (await status()) !== 503, "the first answer");
    expect(await status()).toBe(401);
  } finally {
    await strict.stop();
  }
});

test("network_data.json has the MAC, MTU and address of the guest", async () => {
  const { links, networks } = JSON.parse((await get("/openstack/latest/network_data.json")).body);
  expect(links).toEqual([expect.objectContaining({ ethernet_mac_address: "0a:58:7f:14:00:05", mtu: 1400 })]);
  expect(networks).toEqual([expect.objectContaining({ type: "ipv4", ip_address: VM, netmask: "255.255.0.0" })]);
});

test("an unknown source address gets a 404, and headers cannot change the source", async () => {
  const headers = {
    "x-forwarded-for": VM,
    "x-holdfast-subject": "pod/4711",
    "x-holdfast-source": VM,
    "x-holdfast-network": "cluster_udn_blue",
  };
  expect((await get("/openstack/latest/meta_data.json", "127.20.0.6", headers)).status).toBe(404);
  const spoofed = { "x-forwarded-for": "127.20.0.99", "x-instance-id": "other", "x-tenant-id": "other" };
  const own = await get("/openstack/latest/meta_data.json", VM, spoofed);
  expect(JSON.parse(own.body).uuid).toBe(FIRMWARE);
});

test("after its pod has ended the address gets a 404", async () => {
  await kube.finishPod(pod);
  await world.until(async () => (await get("/openstack/latest/meta_data.json")).status === 404, "the end");
});

async function startVm(name: string, address: string): Promise<KubeObject> {
  const vm = await kube.createVm("shop", name, []);
  const running = await kube.startVm(vm, "node-a", "Running");
  const path = pathOf("shop", "virtualmachineinstances", name, "kubevirt.io/v1");
  await cluster.api.patch(path, { spec: { domain: { firmware: { uuid: FIRMWARE } } } });
  const entry = {
    ip_addresses: [`${address}/16`],
    mac_address: "0a:58:7f:14:00:05",
    gateway_ips: ["127.20.0.1"],
    role: "primary",
  };
  await cluster.api.patch(pathOf("shop", "pods", running.pod.metadata.name), {
    metadata: { annotations: { "k8s.ovn.org/pod-networks": JSON.stringify({ "shop/blue": entry }) } },
  });
  return running.pod;
}

function get(path: string, localAddress = VM, headers = {}, at = port): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port: at, path, localAddress, headers, agent: false };
    const sent = request(options, (answer) => {
      let body = "";
      answer.on("data", (chunk) => {
        body += chunk;
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body }));
    });
    sent.on("error", reject);
    sent.end();
  });
}
