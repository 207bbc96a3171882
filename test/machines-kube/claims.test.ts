/** Claims of machines on a real API server, with the shipped rights and the admission that guards owner references. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { Capm3, Capv } from "../harness/machines/consumers.ts";
import { until } from "../harness/wait.ts";
import { World } from "../harness/world/world.ts";

const SPACE = "machines";
const CLAIMS = 100;

let world: World;
let capi: ClusterApi;
/** Requests that were refused before ours: a server that starts refuses everything until it has read its roles. */
let refusedBefore: ReadonlyMap<string, number>;

beforeAll(async () => {
  world = await World.start({
    api: "server",
    cluster: { apiServerArgs: ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"] },
  });
  capi = await world.startClusterApi({ version: "v1beta1", kinds: ["capv", "metal3-data"] });
  refusedBefore = await refusals();
  await world.startController();
  await world.network("blue", { subnets: "10.1.0.0/22" });
  await capi.pool("machines", "blue");
  await capi.untilPool("machines", "Serving");
  await capi.capiCluster("prod");
});
afterAll(async () => {
  await world?.stop();
});

test("providers get addresses and release them, with claims of v1beta1 and of v1beta2", async () => {
  const metal3 = new Capm3(capi);
  const vsphere = new Capv(capi);
  await metal3.claim("node-0", "machines", "prod");
  await vsphere.claim("vm-a", "machines", "prod");
  const given = [await metal3.address("node-0", "machines"), await vsphere.address("vm-a")];
  await world.settled();
  await capi.switchTo("v1beta2");
  await metal3.claim("node-1", "machines", "prod");
  await vsphere.claim("vm-b", "machines", "prod");
  given.push(await metal3.address("node-1", "machines"), await vsphere.address("vm-b"));
  expect(new Set(given).size).toBe(4);
  expect(await metal3.address("node-0", "machines")).toBe(given[0]);
  await world.settled();
  for (const data of ["node-0", "node-1"]) await metal3.release(data, "machines");
  for (const vm of ["vm-a", "vm-b"]) await vsphere.release(vm);
  for (const address of given) await world.becomes("blue", address, "Cooling");
  await until(async () => (await capi.addresses()).length === 0, "the IPAddresses to go");
  await world.settled();
});

test("the kept address is published once admission is back", async () => {
  await capi.admission.become("down");
  const claim = await capi.claim("early", "machines");
  const held = async () =>
    (await world.bound({ name: "blue" })).find((text) => text.endsWith(claim.metadata.uid))?.split(" ")[0];
  await until(async () => (await held()) !== undefined, "an allocation");
  const address = await held();
  await capi.admission.become("up");
  expect(await capi.fulfilled("early")).toBe(address);
  await world.settled();
});

test("a namespace with claims can be deleted, and their addresses cool down", async () => {
  await world.kubevirt.createNamespace(SPACE);
  await capi.pool("machines", "blue", {}, { namespace: SPACE });
  const names = Array.from({ length: CLAIMS }, (_, index) => `node-${index}`);
  await Promise.all(names.map((name) => capi.claim(name, "machines", { namespace: SPACE })));
  const given = await Promise.all(names.map((name) => capi.fulfilled(name, SPACE)));
  expect(new Set(given).size).toBe(CLAIMS);
  const path = `/api/v1/namespaces/${SPACE}`;
  await world.cluster.api.delete(path);
  await until(async () => (await world.cluster.api.find(path)) === null, "the namespace to go");
  const rests = ({ spec, status }: KubeObject) => spec.owner.namespace !== SPACE || status.state === "Cooling";
  await until(async () => (await world.allocations({ name: "blue" })).every(rests), "their addresses to cool down");
  await world.settled();
});

test("the API server has refused no request for missing rights", async () => {
  const refused = [...(await refusals())].filter(([what, count]) => count > (refusedBefore.get(what) ?? 0));
  expect(refused).toEqual([]);
});

/**
 * How many requests of each kind were answered 403. A namespace that ends takes no new objects, and says so by the
 * same.
 */
async function refusals(): Promise<Map<string, number>> {
  const metrics: string = await world.cluster.api.get("/metrics");
  const lines = metrics
    .split("\n")
    .filter((line) => line.startsWith("apiserver_request_total{") && line.includes('code="403"'))
    .filter((line) => !(/resource="(ipaddresses|events)"/.test(line) && line.includes('verb="POST"')));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.split(" ").at(-1))]));
}
