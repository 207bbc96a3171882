import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestCluster } from "../harness/cluster.ts";
import { ask, listening } from "../harness/metadata/server.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { until } from "../harness/wait.ts";
import { identity, UUID } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";

let cluster: TestCluster;
let server: MetadataServer;
beforeAll(async () => {
  cluster = await TestCluster.start();
  server = await MetadataServer.start(["--kubeconfig", cluster.kubeconfig("holdfast-metadata"), "--node", "node-a"]);
  server.identity.known.set("blue 10.10.0.5", identity());
});
afterAll(async () => {
  await server?.stop();
  await cluster?.stop();
});

test("with a kubeconfig the answer has what the cluster knows of the VM, from the first request on", async () => {
  const { metadata } = await cluster.api.get("/api/v1/namespaces/default");
  const answer = await server.ask("/openstack/latest/meta_data.json");
  expect([answer.status, server.log]).toEqual([200, expect.not.stringContaining("a request failed")]);
  expect(answer.json()).toMatchObject({ uuid: UUID, name: "vm1", project_id: metadata.uid });
});

test("a kubeconfig that cannot be used is named", async () => {
  const started = MetadataServer.start(["--kubeconfig", join(server.directory, "none"), "--node", "node-a"]);
  await expect(started).rejects.toThrow(join(server.directory, "none"));
});

test("while the API server is away an unknown VM gets a 503, and is served when the API server is back", async () => {
  await cluster.stopApiServer();
  try {
    await server.end();
    await server.run();
    const away = await server.ask("/openstack/latest/meta_data.json");
    expect([away.status, away.headers["retry-after"]]).toEqual([503, "1"]);
  } finally {
    await cluster.startApiServer();
  }
  await until(async () => (await server.ask("/openstack")).status === 200, "the answer of the API server");
});

test("as a pod of a Service it looks guests up in the API, and an unknown one gets a 404", async () => {
  const pod = new ProductProcess([
    "metadata",
    "--kubeconfig",
    cluster.kubeconfig("holdfast-metadata"),
    "--network",
    "cluster_udn_red",
    "--listen",
    "127.0.0.1:0",
    "--state",
    join(server.directory, "pod"),
    "--metrics-address",
    "off",
    "--node",
    "node-a",
  ]);
  try {
    const where = { host: "127.0.0.1", port: (await listening(pod)).address.port };
    await until(
      async () => (await ask(where, "/openstack")).status === 404,
      () => `a 404; log: ${pod.log}`,
    );
    expect((await ask(where, "/")).status).toBe(200);
    expect(server.identity.asked.some((query) => query.includes("cluster_udn_red"))).toBe(false);
  } finally {
    await pod.end();
  }
});

test("the server ends at once, whatever it watches", async () => {
  expect(await server.end()).toBe(0);
  await server.run();
  await until(async () => (await server.ask("/openstack")).status === 200, "the next run");
});
