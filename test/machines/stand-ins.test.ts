/**
 * The stand-ins of Cluster API check what the real ones check, and the collector in memory goes by the rules of
 * Kubernetes.
 */
import { afterEach, describe, expect, test } from "vitest";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { Capm3, Capv } from "../harness/machines/consumers.ts";
import { IPAM_VERSIONS, type IpamVersion } from "../harness/machines/definitions.ts";
import { CutLink } from "../harness/world/cut-link.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;
let capi: ClusterApi;

async function begin(version: IpamVersion = "v1beta2"): Promise<void> {
  world = await World.start({ api: "memory" });
  capi = await world.startClusterApi({ version, kinds: ["capv", "metal3-data"] });
}
afterEach(async () => {
  await world?.stop();
});

const spec = (claim: string, more: object = {}) => ({
  address: "10.9.0.5",
  prefix: 24,
  claimRef: { name: claim },
  poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "blue" },
  ...more,
});
const now = "2026-01-01T00:00:00Z";

describe.each(IPAM_VERSIONS)("of %s", (version) => {
  test("a claim takes a status of its own version only", async () => {
    await begin(version);
    await capi.claim("one", "blue");
    const today = {
      type: "Ready",
      status: "False",
      reason: "PoolNotReady",
      message: "",
      lastTransitionTime: now,
    };
    const old = { type: "Ready", status: "True", lastTransitionTime: now };
    const says = async (status: object) => {
      const answer = await capi.publishClaim("one", status).then(
        () => "taken",
        (error: Error) => error.message,
      );
      return /taken|Required value|should be at least|Invalid value/.exec(answer)?.[0];
    };
    const isNew = version === "v1beta2";
    expect(await says({ conditions: [old] })).toBe(isNew ? "Required value" : "taken");
    expect(await says({ conditions: [today] })).toBe(isNew ? "taken" : "Invalid value");
    if (!isNew) expect(await says({ conditions: [{ ...today, message: "full" }] })).toBe("taken");
    const beside = version === "v1beta1" ? { v1beta2: { conditions: [today] } } : {};
    expect(await says({ addressRef: { name: "one" }, ...beside })).toBe("taken");
    const { status } = await capi.readClaim("one");
    expect(status.addressRef).toEqual({ name: "one" });
    expect(await capi.ready("one")).toMatchObject({ type: "Ready" });
  });

  test("an IPAddress that is no address, or of another pool than its claim, is refused", async () => {
    await begin(version);
    await capi.claim("one", "blue");
    const refusal = (more: object) =>
      capi.putAddress("one", spec("one", more)).then(
        () => "taken",
        (error: Error) => error.message,
      );
    expect(await refusal({ address: "10.9.0" })).toContain("not a valid IP address");
    expect(await refusal({ prefix: 33 })).toContain("prefix is too large for an IPv4 address");
    expect(await refusal({ gateway: "none" })).toContain("not a valid IP address");
    expect(await refusal({ poolRef: { ...spec("one").poolRef, name: "red" } })).toContain(
      "the referenced pool is different",
    );
    expect(await refusal({ address: undefined })).toContain("spec.address: Required value");
    expect(await refusal({})).toBe("taken");
    await expect(capi.editClaim("one", { spec: { poolRef: { name: "red" } } })).rejects.toThrow(
      "IPAddressClaim spec is immutable",
    );
  });
});

test("while its admission is down the server answers 500, while it refuses 422, and then it takes the address", async () => {
  await begin();
  await capi.claim("one", "blue");
  await capi.admission.become("down");
  await expect(capi.putAddress("one", spec("one"))).rejects.toThrow(" 500 ");
  await capi.admission.become("refusing");
  await expect(capi.putAddress("one", spec("one"))).rejects.toThrow(" 422 ");
  await capi.admission.become("up");
  await capi.putAddress("one", spec("one"));
});

test("an IPAddress of a claim and a pool stays when one of them goes, without its reference, and goes with the last", async () => {
  await begin();
  const pool = await capi.pool("blue", "blue");
  const claim = await capi.claim("one", "blue");
  await capi.putAddress("one", spec("one"));
  const references = [pool, claim].map(({ apiVersion, kind, metadata }) => {
    const { name, uid } = metadata;
    return { apiVersion, kind, name, uid };
  });
  const path = `/apis/ipam.cluster.x-k8s.io/v1beta2/namespaces/${NAMESPACE}/ipaddresses/one`;
  await world.cluster.api.patch(path, { metadata: { ownerReferences: references } });
  await capi.deleteClaim("one");
  const owners = async () => (await capi.address("one"))?.metadata.ownerReferences;
  await world.until(async () => (await owners()).length === 1, "the claim's reference to go");
  expect(await owners()).toEqual([references[0]]);
  await capi.deletePool("blue");
  await world.until(async () => (await capi.address("one")) === null, "the IPAddress to go");
});

test("a namespace waits for the finalizers of its claims", async () => {
  await begin();
  await world.kubevirt.createNamespace("machines");
  await capi.claim("held", "blue", { namespace: "machines", finalizers: ["example.test/held"] });
  await capi.claim("free", "blue", { namespace: "machines" });
  await world.cluster.api.delete("/api/v1/namespaces/machines");
  await world.until(async () => (await capi.readClaim("free", "machines")) === null, "the free claim to go");
  expect((await capi.readClaim("held", "machines")).metadata.deletionTimestamp).toBeDefined();
  await capi.editClaim("held", { metadata: { finalizers: [] } }, "machines");
  await world.until(
    async () => (await world.cluster.api.find("/api/v1/namespaces/machines")) === null,
    "the namespace to go",
  );
});

test("the providers read the addresses of their claims, and delete the claims", async () => {
  await begin();
  const metal3 = new Capm3(capi);
  const vsphere = new Capv(capi);
  const answer = async (name: string, address: string, status: object = {}) => {
    await capi.putAddress(name, spec(name, { address }));
    await capi.publishClaim(name, { addressRef: { name }, ...status });
  };
  const first = await metal3.claim("node-0", "blue", "prod");
  expect(await metal3.claim("node-0", "blue", "prod")).toEqual(first);
  expect(first.spec.clusterName).toBeUndefined();
  await answer("node-0-blue", "10.9.0.5");
  expect(await metal3.address("node-0", "blue")).toBe("10.9.0.5/24");
  await vsphere.claim("vm-a", "blue", "prod");
  const ready = {
    type: "Ready",
    status: "True",
    reason: "AddressAllocated",
    message: "",
    lastTransitionTime: now,
  };
  await answer("vm-a-0-0", "10.9.0.6", { conditions: [ready] });
  expect(await vsphere.address("vm-a")).toBe("10.9.0.6/24");
  await metal3.release("node-0", "blue");
  await vsphere.release("vm-a");
  expect(await capi.claims()).toEqual([]);
});

test("claims keep what their status says when another version is served", async () => {
  await begin("v1beta1");
  await capi.claim("one", "blue");
  const today = {
    type: "Ready",
    status: "False",
    reason: "PoolExhausted",
    message: "",
    lastTransitionTime: now,
  };
  const old = { type: "Ready", status: "False", lastTransitionTime: now };
  await capi.publishClaim("one", { conditions: [old], v1beta2: { conditions: [today] } });
  const { uid } = (await capi.readClaim("one")).metadata;
  await capi.switchTo("v1beta2");
  const claim = await capi.readClaim("one");
  expect(claim).toMatchObject({ apiVersion: "ipam.cluster.x-k8s.io/v1beta2", metadata: { uid } });
  expect(claim.status).toEqual({ conditions: [today], deprecated: { v1beta1: { conditions: [old] } } });
  await expect(world.cluster.api.get("/apis/ipam.cluster.x-k8s.io/v1beta1/ipaddressclaims")).rejects.toThrow(" 404 ");
  await capi.removeIpam();
  await expect(capi.claims()).rejects.toThrow(" 404 ");
  await capi.addIpam("v1alpha1");
  expect(await capi.claims()).toEqual([]);
});

test.each([true, false])(
  "a controller that is cut off at a write sends nothing more (the write is delivered: %s)",
  async (delivered) => {
    await begin();
    await world.network("blue");
    const way = new CutLink({ write: 1, delivered });
    const controller = await world.startController({ identity: "one" }, way);
    await world.until(() => way.isCut, "the first write");
    await controller.stop();
    expect(way.writes).toEqual(["POST /apis/ipam.holdfast.dev/v1alpha1/ipnetworks"]);
    expect((await world.networkObject("blue")) !== null).toBe(delivered);
    await world.startController({ identity: "one" });
    await world.until(async () => (await world.networkObject("blue"))?.status !== undefined, "the import");
  },
);
