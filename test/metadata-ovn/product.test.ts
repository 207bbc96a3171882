import { rmSync } from "node:fs";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MetadataServer } from "../../metadata/server/metadata-server.ts";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { CUDNS_PATH, SERVICE_ANNOTATION } from "../../networks/udn/udn-object.ts";
import { systemClock } from "../../platform/time.ts";
import { newDirectory } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubePods, pathOf } from "../harness/kube-pods.ts";
import { metadataNet } from "../harness/metadata/parts.ts";
import type { ProductProcess } from "../harness/product-process.ts";
import { pause, until } from "../harness/wait.ts";
import type { Cluster } from "../harness/world/cluster.ts";
import { endpointOf, UdnObjects, udnDefinitions } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";
import { whyNoOvn, Zone } from "./zone.ts";

// From a reference in the cluster to the row in the node's database: `holdfast metadata` and metadata-net together.

const NODE = "node-a";
const VIP = "169.254.169.254:80";
/** Of the pod on the cluster's default network, and on its own. */
const DEFAULT_ADDRESS = "10.244.0.7";

describe.skipIf(whyNoOvn() !== null)("a network of the cluster that refers to a Service", () => {
  let world: World;
  let cluster: Cluster;
  let objects: UdnObjects;
  let zone: Zone;
  let server: MetadataServer;
  let net: ProductProcess;
  let directory: string;
  let pod: KubeObject;

  beforeAll(async () => {
    directory = newDirectory();
    world = await World.start({ api: "memory", time: "machine" });
    ({ cluster } = world);
    objects = new UdnObjects(cluster);
    await cluster.apply(udnDefinitions("pruning"));
    const kube = new KubePods(cluster.api);
    const layer2 = { role: "Primary", subnets: ["10.20.0.0/16"] };
    await objects.cudn("blue", { topology: "Layer2", layer2 }, { [SERVICE_ANNOTATION]: "shop/md" });
    await objects.cudn("green", { topology: "Layer2", layer2 });
    await objects.service("shop", "md", {
      ports: [
        { name: "http", port: 80 },
        { name: "raw", port: 5000 },
      ],
    });
    pod = await kube.createPod("shop", "md-0", { node: NODE });
    await objects.address(pod, DEFAULT_ADDRESS);
    await onNetwork("10.20.0.30");
    await objects.slice("shop", "md", "md-1", {
      endpoints: [endpointOf(pod, DEFAULT_ADDRESS)],
      ports: [
        { name: "http", port: 8080, protocol: "TCP" },
        { name: "raw", port: 9000, protocol: "TCP" },
      ],
    });
    zone = await Zone.start(NODE, { wired: false });
    await zone.network("cluster_udn_blue", { net: 20 });
    await zone.network("cluster_udn_green", { net: 20 });
    await startServer();
    net = metadataNet({
      daemonSocket: join(directory, "no-daemon.sock"),
      metadataSocket: join(directory, "m.sock"),
      runDir: join(directory, "net"),
      args: [
        "--balancers-socket",
        join(directory, "b.sock"),
        "--ovn-northbound",
        `unix:${zone.central.northbound}`,
        "--node",
        NODE,
      ],
    });
  });
  afterAll(async () => {
    await net?.end();
    await server?.stop();
    await zone?.stop();
    await world?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  async function startServer(): Promise<void> {
    // Names of events have the second, the process and a number: the server before was of this process too.
    await pause(1_000);
    const flags = {
      metadataSocket: join(directory, "m.sock"),
      identitySocket: join(directory, "identity.sock"),
      balancersSocket: join(directory, "b.sock"),
      kubeconfig: cluster.kubeconfig("holdfast-metadata"),
      node: NODE,
      state: join(directory, "state"),
      metricsAddress: "off",
      logLevel: "silent",
    };
    const log = pino({ level: "silent" });
    server = await MetadataServer.create(loadMetadataSettings(flags, {}), log, systemClock);
    await server.start();
  }

  /** Says which address the pod has on the network, as OVN-Kubernetes does. */
  async function onNetwork(address: string): Promise<void> {
    const networks = { "shop/blue": { ip_addresses: [`${address}/16`], role: "primary" } };
    const annotations = { "k8s.ovn.org/pod-networks": JSON.stringify(networks) };
    await cluster.api.patch(pathOf("shop", "pods", pod.metadata.name), { metadata: { annotations } });
  }

  const slicePath = pathOf("shop", "endpointslices", "md-1", "discovery.k8s.io/v1beta1");
  const ready = (is: boolean) =>
    cluster.api.patch(slicePath, [{ op: "replace", path: "/endpoints/0/conditions/ready", value: is }], "json");
  const vips = async () => (await zone.balancers()).map((row) => row.vips[VIP]);
  async function becomes(expected: readonly string[]): Promise<void> {
    const isSo = async () => JSON.stringify(await vips()) === JSON.stringify(expected);
    await until(isSo, `backends ${expected}`, 30_000).catch(async () => {
      expect(await vips(), net.log).toEqual(expected);
    });
  }

  test("its switch gets a row with the pod's address on the network itself, and its owner an event", async () => {
    await becomes(["10.20.0.30:8080"]);
    const [row] = await zone.balancers();
    expect(row?.name).toBe("holdfast_metadata_cluster_udn_blue_ovn_layer2_switch");
    const event = await objects.event("default", "blue", "MetadataBalancerProgrammed");
    expect(event).toMatchObject({ type: "Normal", involvedObject: { kind: "ClusterUserDefinedNetwork" } });
    expect(event.message).toBe(
      "node node-a: 169.254.169.254:80 leads to 10.20.0.30:8080; 169.254.169.254:5000 leads to 10.20.0.30:9000",
    );
    expect(row?.vips).toEqual({ [VIP]: "10.20.0.30:8080", "169.254.169.254:5000": "10.20.0.30:9000" });
  });

  test("without a ready endpoint on the node the row has no backend, and an event names the node", async () => {
    await ready(false);
    await becomes([""]);
    const event = await objects.event("default", "blue", "MetadataServiceNoLocalEndpoint");
    expect(event.message).toContain("no ready endpoint on node node-a: guests there are refused at once");
    await ready(true);
    await becomes(["10.20.0.30:8080"]);
  });

  test("while the metadata server is away the row stays, and a change of then counts when it is back", async () => {
    await server.stop();
    await ready(false);
    expect(await vips()).toEqual(["10.20.0.30:8080"]);
    await startServer();
    await becomes([""]);
    await ready(true);
    await becomes(["10.20.0.30:8080"]);
  });

  test("an event reports a switch without a router", async () => {
    await zone.central.nbctl("lsp-del", "stor-cluster_udn_blue_ovn_layer2_switch");
    const event = await objects.event("default", "blue", "MetadataBalancerNoRouter");
    expect(event.message).toContain("node node-a: switch cluster_udn_blue_ovn_layer2_switch has no router");
  });

  test("a pod that reports an address outside the network's subnets is no backend", async () => {
    await onNetwork("192.0.2.9");
    await server.stop();
    await startServer();
    await becomes([""]);
    const event = await objects.event("default", "blue", "MetadataServiceEndpointRefused");
    expect(event.message).toContain("says that it has 192.0.2.9, which is in no subnet of the network");
  });

  test("without the reference there is no row", async () => {
    await cluster.api.patch(`${CUDNS_PATH}/blue`, {
      metadata: { annotations: { [SERVICE_ANNOTATION]: null } },
    });
    await becomes([]);
  });
});
