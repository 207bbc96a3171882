import { rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MetadataServer } from "../../metadata/server/metadata-server.ts";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { SERVICE_ANNOTATION } from "../../networks/udn/udn-object.ts";
import { systemClock } from "../../platform/time.ts";
import { newDirectory } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubePods, pathOf } from "../harness/kube-pods.ts";
import { ask } from "../harness/metadata/server.ts";
import type { Cluster } from "../harness/world/cluster.ts";
import { configOf } from "../harness/world/network.ts";
import { endpointOf, UdnObjects } from "../harness/world/udn-objects.ts";
import { World } from "../harness/world/world.ts";
import { FakeIdentity, identity, UUID } from "../metadata-server/fake-identity.ts";

// From a guest's request to the pod behind the Service of its network: the API server takes no endpoint of the
// loopback.

const NODE = "node-a";
const ADDRESS = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === "IPv4" && !one.internal)?.address;

let world: World;
let cluster: Cluster;
let server: MetadataServer;
let daemon: FakeIdentity;
let backend: Server;
let directory: string;
let pod: KubeObject;
const asked: IncomingMessage[] = [];

beforeAll(async () => {
  directory = newDirectory();
  world = await World.start({ api: "memory", time: "machine" });
  ({ cluster } = world);
  const kube = new KubePods(cluster.api);
  const objects = new UdnObjects(cluster);
  backend = createServer((request, response) => {
    asked.push(request);
    response.end(`the tenant's answer to ${request.url}`);
  });
  await new Promise<void>((resolve) => backend.listen(0, ADDRESS, resolve));
  const { port } = backend.address() as AddressInfo;
  await kube.createNad("shop", "blue", configOf("blue", { subnets: "10.10.0.0/24" }));
  await cluster.api.patch(pathOf("shop", "network-attachment-definitions", "blue", "k8s.cni.cncf.io/v1"), {
    metadata: { annotations: { [SERVICE_ANNOTATION]: "md" } },
  });
  await kube.createNad("shop", "green", configOf("green", { subnets: "10.11.0.0/24" }));
  await objects.service("shop", "md");
  pod = await kube.createPod("shop", "md-0", { node: NODE });
  await objects.address(pod, ADDRESS ?? "");
  await objects.slice("shop", "md", "md-1", {
    endpoints: [endpointOf(pod, ADDRESS ?? "")],
    ports: [{ name: "http", port, protocol: "TCP" }],
  });
  daemon = await FakeIdentity.start(join(directory, "identity.sock"));
  for (const network of ["blue", "green"]) daemon.known.set(`${network} 10.10.0.5`, identity({}, { network }));
  const flags = {
    metadataSocket: join(directory, "m.sock"),
    identitySocket: join(directory, "identity.sock"),
    kubeconfig: cluster.kubeconfig("holdfast-metadata"),
    node: NODE,
    state: join(directory, "state"),
    metricsAddress: "off",
    logLevel: "silent",
  };
  server = await MetadataServer.create(loadMetadataSettings(flags, {}), pino({ level: "silent" }), systemClock);
  await server.start();
});
afterAll(async () => {
  await server?.stop();
  await daemon?.stop();
  await new Promise((resolve) => backend?.close(resolve));
  await world?.stop();
  rmSync(directory, { recursive: true, force: true });
});

const request = (target: string, lines: [string, string][] = [], network = "blue") =>
  ask({ socketPath: join(directory, "m.sock") }, target, { network, lines });

test("a guest's request reaches its tenant's pod, with an identity that the guest did not write", async () => {
  await world.until(async () => (await request("/openstack")).status === 200, "the pod to be reached");
  const answer = await request("/latest/meta-data/?x=1", [
    ["X-Instance-ID", "forged"],
    ["X_Instance_ID", "forged"],
    ["X-Forwarded-For", "10.9.9.9"],
  ]);
  expect(answer).toMatchObject({ status: 200, text: "the tenant's answer to /latest/meta-data/?x=1" });
  const headers = asked.at(-1)?.headersDistinct ?? {};
  expect(headers["x-instance-id"]).toEqual([UUID]);
  expect(headers["x-forwarded-for"]).toEqual(["10.10.0.5"]);
  expect(headers["x-holdfast-network"]).toEqual(["blue"]);
  expect(JSON.stringify(headers)).not.toContain("forged");
});

test("a network without a Service is served by Holdfast itself", async () => {
  const before = asked.length;
  const answer = await request("/openstack/latest/meta_data.json", [], "green");
  expect(answer.status).toBe(200);
  expect(answer.json().uuid).toBe(UUID);
  expect(asked).toHaveLength(before);
});

test("without a ready endpoint on the node guests get a 503 and an event is written, until an endpoint is back", async () => {
  const path = pathOf("shop", "endpointslices", "md-1", "discovery.k8s.io/v1beta1");
  const ready = (is: boolean) =>
    cluster.api.patch(path, [{ op: "replace", path: "/endpoints/0/conditions/ready", value: is }], "json");
  await ready(false);
  await world.until(async () => (await request("/openstack")).status === 503, "503");
  const event = await new UdnObjects(cluster).event("shop", "blue", "MetadataServiceNoLocalEndpoint");
  expect(event.message).toContain(`node ${NODE}`);
  await ready(true);
  await world.until(async () => (await request("/openstack")).status === 200, "answers again");
});
