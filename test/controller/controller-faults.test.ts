import { afterAll, beforeAll, expect, test } from "vitest";
import { CLAIMS_PATH } from "../../kube/objects.ts";
import { ApiProxy } from "../harness/api-proxy.ts";
import { configOf, NAMESPACE } from "../harness/world/network.ts";
import { attachmentOf, claimOwner, podOwner } from "../harness/world/objects.ts";
import { World } from "../harness/world/world.ts";

let world: World;
let proxy: ApiProxy;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  proxy = await ApiProxy.start(world.cluster);
  await world.kubevirt.createNode("n1");
});
afterAll(async () => {
  await proxy?.stop();
  await world?.stop();
});

async function text(port: number, path: string): Promise<{ status: number; body: string }> {
  // Answers take turns, in the world's time.
  const answer = await world.time.run(fetch(`http://127.0.0.1:${port}${path}`));
  return { status: answer.status, body: await world.time.run(answer.text()) };
}

test("an IPAllocation is deleted when its cool-down is over", async () => {
  const controller = await world.startController({ coolingKeepSeconds: 0, identity: "deletes" });
  await world.importedNetwork("short", { subnets: "10.1.0.0/24", cooldownSeconds: 1 });
  const pod = await world.kubevirt.createPod(NAMESPACE, "short", { node: "n1" });
  await world.allocate("short", "10.1.0.5/24", podOwner(pod));
  await world.kubevirt.endPod(pod);
  await world.becomes("short", "10.1.0.5/24", "none");
  const { body } = await text(controller.port, "/metrics");
  expect(body).toMatch(/holdfast_controller_carried_out_total\{verdict="release",why="pod-gone"\} 1/);
  expect(body).toMatch(/holdfast_controller_carried_out_total\{verdict="delete",why="cooling-expired"\} 1/);
  expect(body).toMatch(/holdfast_controller_leader 1/);
  expect(body).toMatch(/holdfast_cluster_network_size_addresses\{network="short"\} 256/);
  expect((await text(controller.port, "/healthz")).status).toBe(200);
  const startMs = world.time.clock.monotonicMs();
  await controller.stop();
  expect(world.time.clock.monotonicMs() - startMs).toBeLessThan(3_000);
});

test("podGoneReleaseSeconds after its pod is gone an address on an unreachable node is released", async () => {
  const controller = await world.startController({ podGoneReleaseSeconds: 2 });
  await world.importedNetwork("timed", { subnets: "10.2.0.0/24" });
  await world.kubevirt.createNode("n2");
  const pod = await world.kubevirt.createPod(NAMESPACE, "timed", { node: "n2" });
  await world.allocate("timed", "10.2.0.5/24", podOwner(pod), attachmentOf(pod));
  await world.kubevirt.removePod(pod);
  // A node that answers ends its attachments itself, and would put this one back.
  await world.stays("timed", "10.2.0.5/24");
  await world.kubevirt.reportReady("n2", "False");
  await world.stays("timed", "10.2.0.5/24");
  await world.kubevirt.reportReady("n2", "Unknown");
  await world.becomes("timed", "10.2.0.5/24", "Cooling");
  await controller.stop();
});

test("two controllers without a lease release each address once, and no address in use", async () => {
  const leaseless = { when: ({ path }: { path: string }) => path.includes("/leases"), act: { status: 403 } };
  proxy.rule(leaseless);
  const kubeconfig = world.cluster.kubeconfig("holdfast-controller", proxy.url, proxy.ca);
  const both = [await world.startController({ kubeconfig }), await world.startController({ kubeconfig })];
  await world.importedNetwork("twice", { subnets: "10.3.0.0/24" });
  const addresses = Array.from({ length: 20 }, (_, i) => `10.3.0.${i + 10}/24`);
  const claims = await Promise.all(addresses.map((ip, index) => world.claim(`twice-${index}`, "twice", { ips: [ip] })));
  for (const address of addresses) await world.becomes("twice", address, "Bound");
  for (const gone of claims.slice(0, 10)) await world.deleteClaim(gone.metadata.name);
  for (const address of addresses.slice(0, 10)) await world.becomes("twice", address, "Cooling");
  for (const [index, kept] of [...claims.entries()].slice(10)) {
    const address = addresses[index] as string;
    expect((await world.allocation("twice", address)).spec.owner.uid).toBe(kept.metadata.uid);
    expect(await world.state("twice", address)).toBe("Bound");
  }
  const metrics = await Promise.all(both.map((one) => text(one.port, "/metrics")));
  const released = metrics.map(({ body }) =>
    Number(/carried_out_total\{verdict="release",why="claim-gone"\} (\d+)/.exec(body)?.[1] ?? 0),
  );
  expect(
    released.reduce((a, b) => a + b, 0),
    `${released}`,
  ).toBe(10);
  await Promise.all(both.map((one) => one.stop()));
  proxy.clear();
});

test("only the lease holder of two controllers works, and the other one takes over when it stops", async () => {
  const first = await world.startController({ identity: "first" });
  const holder = async () =>
    (await world.cluster.api.find("/apis/coordination.k8s.io/v1/namespaces/holdfast-system/leases/holdfast-controller"))
      ?.spec.holderIdentity;
  await world.until(async () => (await holder()) === "first", "the first to lead");
  const second = await world.startController({ identity: "second" });
  await world.importedNetwork("led", { subnets: "10.4.0.0/24" });
  await world.until(async () => (await text(second.port, "/readyz")).status === 200, "the second to be ready");
  const { body } = await text(second.port, "/metrics");
  expect(body).toMatch(/holdfast_controller_leader 0/);
  expect(body).toMatch(/^process_resident_memory_bytes \d/m);
  await first.stop();
  await world.until(async () => (await holder()) === "second", "the second to lead");
  await world.claim("led", "led", { ips: ["10.4.0.9/24"] });
  await world.becomes("led", "10.4.0.9/24", "Bound");
  await second.stop();
});

test("no address is released while the API server is unreachable or refuses reads, and it is released afterwards", async () => {
  const kubeconfig = world.cluster.kubeconfig("holdfast-controller", proxy.url, proxy.ca);
  const controller = await world.startController({ kubeconfig });
  await world.importedNetwork("away", { subnets: "10.5.0.0/24" });
  const claim = await world.claim("away", "away");
  await world.allocate("away", "10.5.0.7/24", claimOwner(claim));
  const isRead = ({ method, path }: { method: string; path: string }) =>
    method === "GET" && /\/ipamclaims\/away|\/namespaces\/shop\/pods/.test(path);
  proxy.rule({ when: isRead, act: { status: 403, body: { kind: "Status", reason: "Forbidden" } } });
  await world.deleteClaim("away");
  await world.stays("away", "10.5.0.7/24");
  proxy.clear();
  proxy.rule({ when: isRead, act: { status: 500 } });
  await world.stays("away", "10.5.0.7/24");
  proxy.clear();
  proxy.rule({ when: () => true, act: "drop-request" });
  proxy.cutConnections();
  await world.stays("away", "10.5.0.7/24");
  await world.until(async () => (await text(controller.port, "/readyz")).status === 503, "it to say so");
  proxy.clear();
  await world.becomes("away", "10.5.0.7/24", "Cooling");
  await controller.stop();
});

test("the controller stops in time even if the API server never answers", async () => {
  const kubeconfig = world.cluster.kubeconfig("holdfast-controller", proxy.url, proxy.ca);
  const controller = await world.startController({ kubeconfig });
  await world.until(async () => (await text(controller.port, "/readyz")).status === 200, "readiness");
  proxy.rule({ when: () => true, act: "hang" });
  const startMs = world.time.clock.monotonicMs();
  await controller.stop();
  expect(world.time.clock.monotonicMs() - startMs).toBeLessThan(3_500);
  proxy.clear();
});

test("a second NAD of a network has the addresses of its pods imported", async () => {
  const controller = await world.startController();
  await world.importedNetwork("joined", { subnets: "10.7.0.0/24" });
  const status = [{ name: `${NAMESPACE}/joins`, interface: "net1", ips: ["10.7.0.77"] }];
  await world.kubevirt.createPod(NAMESPACE, "joins", {
    node: "n1",
    annotations: { "k8s.v1.cni.cncf.io/network-status": JSON.stringify(status) },
  });
  await world.kubevirt.createNad(NAMESPACE, "joins", configOf("joined", { subnets: "10.7.0.0/24" }));
  await world.becomes("joined", "10.7.0.77/24", "Bound");
  await controller.stop();
});

// The last one: it takes every claim away.
test("while the definition of claims is not installed, their addresses are kept", async () => {
  const controller = await world.startController();
  await world.importedNetwork("bare", { subnets: "10.8.0.0/24" });
  const pod = await world.kubevirt.createPod(NAMESPACE, "bare", { node: "n1" });
  await world.allocate("bare", "10.8.0.8/24", podOwner(pod));
  const claim = await world.claim("bare", "bare");
  await world.allocate("bare", "10.8.0.7/24", claimOwner(claim));
  await world.cluster.api.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ipamclaims.k8s.cni.cncf.io");
  await world.until(async () => (await world.cluster.api.call("GET", CLAIMS_PATH)).status === 404, "it to be gone");
  await controller.stop();
  const next = await world.startController();
  await world.until(async () => (await text(next.port, "/readyz")).status === 200, "it to have seen the pod");
  await world.kubevirt.endPod(pod);
  await world.becomes("bare", "10.8.0.8/24", "Cooling");
  await world.stays("bare", "10.8.0.7/24");
  await next.stop();
});
