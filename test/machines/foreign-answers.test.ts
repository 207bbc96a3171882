/** Somebody else answers, or has the name that an answer would have: nothing of theirs is touched. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import type { World } from "../harness/world/world.ts";
import { startMachines } from "./in-world.ts";

/** Several passes of a controller in a hurry, ms. */
const PASSES_MS = 4_000;
/** Of network blue, as startMachines defines it. */
const GATEWAY = "10.1.0.1";
const IP_POOLS = `/apis/ipam.metal3.io/v1alpha1/namespaces/${NAMESPACE}/ippools`;

let world: World;
let capi: ClusterApi;

beforeAll(async () => {
  ({ world, capi } = await startMachines({ kinds: ["metal3-pools"] }));
  await capi.pool("machines", "blue");
  await capi.untilPool("machines", "Serving");
});
afterAll(async () => {
  await world?.stop();
});

const spec = (claim: string, address: string, poolRef: object = {}) => ({
  ...{ address, prefix: 24, claimRef: { name: claim } },
  poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "machines", ...poolRef },
});
const heldBy = async (uid: string) =>
  (await world.allocations({ name: "blue" })).filter((one) => one.spec.owner.uid === uid);
const ipPool = (name: string) =>
  world.cluster.api.create(IP_POOLS, {
    apiVersion: "ipam.metal3.io/v1alpha1",
    kind: "IPPool",
    metadata: { name, namespace: NAMESPACE },
    spec: { namePrefix: name },
  });

test.concurrent("a pool with the name of a Metal3 IPPool gives nothing; what it gave before stays", async () => {
  await capi.pool("shared", "blue", { ranges: ["10.1.0.64/28"] });
  await capi.claim("shared-0", "shared");
  const address = await capi.fulfilled("shared-0");
  await ipPool("shared");
  expect(await capi.untilPool("shared", "NameTaken")).toMatchObject({ status: "False" });
  const next = await capi.claim("shared-1", "shared");
  await world.until(async () => (await capi.ready("shared-1"))?.status === "False", "the claim to be told");
  await world.stays("blue", address);
  expect(await heldBy(next.metadata.uid)).toEqual([]);
  expect(await capi.fulfilled("shared-0")).toBe(address);
  await world.cluster.api.delete(`${IP_POOLS}/shared`);
  await capi.fulfilled("shared-1");
});

test.concurrent("a claim that another provider has answered is left alone", async () => {
  const annotations = { "cluster.x-k8s.io/paused": "" };
  const claim = await capi.claim("answered", "machines", { annotations });
  await capi.putAddress("other-answer", spec("answered", "192.0.2.9"));
  await capi.publishClaim("answered", { addressRef: { name: "other-answer" } });
  await capi.editClaim("answered", { metadata: { annotations: { "cluster.x-k8s.io/paused": null } } });
  await world.advance(PASSES_MS);
  expect(await heldBy(claim.metadata.uid)).toEqual([]);
  expect((await capi.readClaim("answered")).status.addressRef).toEqual({ name: "other-answer" });
  expect(await capi.address("answered")).toBeNull();
  expect((await capi.address("other-answer")).metadata.ownerReferences).toBeUndefined();
});

test.concurrent("an IPAddress of the claim's name that answers another claim is not overwritten", async () => {
  const stranger = await capi.putAddress("named", spec("somebody-else", "192.0.2.10"));
  const claim = await capi.claim("named", "machines");
  expect(await world.untilEvent(claim, "AnsweredByOther")).toContain("named");
  await world.advance(PASSES_MS);
  expect((await capi.address("named")).metadata.resourceVersion).toBe(stranger.metadata.resourceVersion);
  expect((await capi.readClaim("named")).status?.addressRef).toBeUndefined();
  await world.until(async () => {
    const held = await heldBy(claim.metadata.uid);
    return held.every(({ status }) => status.state === "Cooling");
  }, "nothing to be held for it");
  await capi.deleteAddress("named");
  await capi.fulfilled("named");
});

test.concurrent("an IPAddress that names the claim and its pool is the claim's address", async () => {
  await capi.putAddress("restored", spec("restored", "10.1.0.77"));
  const claim = await capi.claim("restored", "machines");
  expect(await capi.fulfilled("restored")).toBe("10.1.0.77/24");
  expect(await heldBy(claim.metadata.uid)).toMatchObject([{ spec: { address: "10.1.0.77/24" } }]);
  const { ownerReferences } = (await capi.address("restored")).metadata;
  expect(ownerReferences).toMatchObject([
    { kind: "IPAddressClaim", uid: claim.metadata.uid, controller: true },
    { kind: "AddressPool" },
  ]);
});

test.concurrent("an IPAddress whose address another owner holds gives its claim no other address", async () => {
  await capi.claim("holder", "machines");
  const [held = ""] = (await capi.fulfilled("holder")).split("/");
  await capi.putAddress("double", spec("double", held));
  const claim = await capi.claim("double", "machines");
  await capi.untilReady("double", "AllocationFailed");
  await world.advance(PASSES_MS);
  expect(await heldBy(claim.metadata.uid)).toEqual([]);
  expect((await world.allocation("blue", `${held}/24`)).spec.owner.name).toBe("holder");
});

test.concurrent("an IPAddress with the gateway of the network is not recorded, and its claim says so", async () => {
  await capi.putAddress("router", spec("router", GATEWAY));
  const claim = await capi.claim("router", "machines");
  await capi.untilReady("router", "AllocationFailed");
  expect((await capi.ready("router"))?.message).toContain(
    `IPAddress router has ${GATEWAY}, which is the gateway of network blue; delete the IPAddress`,
  );
  expect(await heldBy(claim.metadata.uid)).toEqual([]);
  await capi.deleteAddress("router");
  expect(await capi.fulfilled("router")).not.toContain(`${GATEWAY}/`);
});

test.concurrent("an IPAddress that is deleted by hand is recreated with the same address", async () => {
  await capi.claim("mended", "machines");
  const address = await capi.fulfilled("mended");
  const { uid } = (await capi.address("mended")).metadata;
  await capi.deleteAddress("mended");
  await world.until(async () => ![undefined, uid].includes((await capi.address("mended"))?.metadata.uid), "a new one");
  expect(await capi.fulfilled("mended")).toBe(address);
});
