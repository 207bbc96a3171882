import { afterAll, beforeAll, expect, test } from "vitest";
import { pathOf } from "../harness/kube-pods.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { attachmentOf, claimOwner, podOwner } from "../harness/world/objects.ts";
import { World } from "../harness/world/world.ts";

let world: World;

beforeAll(async () => {
  world = await World.start({ api: "memory" });
  await world.kubevirt.createNode("n1");
  await world.startController();
  await world.importedNetwork("blue", { subnets: "10.1.0.0/24" });
});
afterAll(async () => {
  await world?.stop();
});

const naming = (claim: string) => [{ name: "blue", "ipam-claim-reference": claim }];

test.concurrent("the address of a deleted claim goes to Cooling and loses its finalizer", async () => {
  const claim = await world.claim("deleted", "blue", { ips: ["10.1.0.10/24"] });
  await world.becomes("blue", "10.1.0.10/24", "Bound");
  await world.deleteClaim("deleted");
  await world.becomes("blue", "10.1.0.10/24", "Cooling");
  const object = await world.allocation("blue", "10.1.0.10/24");
  expect(object.metadata.finalizers ?? []).toEqual([]);
  expect(object.metadata.labels["ipam.holdfast.dev/state"]).toBe("Cooling");
  expect(object.spec.owner.uid).toBe(claim.metadata.uid);
});

test.concurrent("a deleted claim keeps its address while a living pod names the claim", async () => {
  const pod = await world.kubevirt.createPod(NAMESPACE, "naming", { node: "n1", networks: naming("held") });
  await world.claim("held", "blue", { ips: ["10.1.0.11/24"] });
  await world.becomes("blue", "10.1.0.11/24", "Bound");
  await world.deleteClaim("held");
  await world.stays("blue", "10.1.0.11/24");
  await world.kubevirt.removePod(pod);
  await world.becomes("blue", "10.1.0.11/24", "Cooling");
});

test.concurrent("a recreated claim keeps its address, and the address of the deleted one is released", async () => {
  await world.claim("anew", "blue", { ips: ["10.1.0.12/24"] });
  await world.becomes("blue", "10.1.0.12/24", "Bound");
  await world.deleteClaim("anew");
  const next = await world.claim("anew", "blue");
  await world.allocate("blue", "10.1.0.13/24", claimOwner(next));
  await world.publish("anew", { ips: ["10.1.0.13/24"] });
  await world.becomes("blue", "10.1.0.12/24", "Cooling");
  expect(await world.state("blue", "10.1.0.13/24")).toBe("Bound");
});

test.concurrent("the address of a completed pod is released, that of a running pod is kept", async () => {
  const done = await world.kubevirt.createPod(NAMESPACE, "done", { node: "n1" });
  const runs = await world.kubevirt.createPod(NAMESPACE, "runs", { node: "n1" });
  await world.allocate("blue", "10.1.0.14/24", podOwner(done), attachmentOf(done));
  await world.allocate("blue", "10.1.0.15/24", podOwner(runs), attachmentOf(runs));
  await world.kubevirt.finishPod(done);
  await world.becomes("blue", "10.1.0.14/24", "Cooling");
  await world.stays("blue", "10.1.0.15/24");
});

test.concurrent("the address of a force-deleted pod is released only when its node is deleted", async () => {
  await world.kubevirt.createNode("n2");
  const pod = await world.kubevirt.createPod(NAMESPACE, "forced", { node: "n2" });
  await world.allocate("blue", "10.1.0.16/24", podOwner(pod), attachmentOf(pod));
  await world.kubevirt.removePod(pod);
  await world.stays("blue", "10.1.0.16/24");
  await world.kubevirt.deleteNode("n2");
  await world.becomes("blue", "10.1.0.16/24", "Cooling");
});

test.concurrent("deleting the node of a stopped VM removes the attachment and keeps the address", async () => {
  await world.kubevirt.createNode("n3");
  const pod = await world.kubevirt.createPod(NAMESPACE, "launcher", { node: "n3" });
  const claim = await world.claim("vm", "blue");
  await world.allocate("blue", "10.1.0.17/24", claimOwner(claim), attachmentOf(pod));
  await world.publish("vm", { ips: ["10.1.0.17/24"] });
  await world.kubevirt.removePod(pod);
  await world.kubevirt.deleteNode("n3");
  await world.until(
    async () => Object.keys((await world.allocation("blue", "10.1.0.17/24")).status.attachments ?? {}).length === 0,
    "the attachment to go",
  );
  expect(await world.state("blue", "10.1.0.17/24")).toBe("Bound");
});

test.concurrent("of two addresses of one subnet the one that a claim does not list is released; all it has is listed", async () => {
  const published = await world.claim("published", "blue");
  const unpublished = await world.claim("unpublished", "blue");
  await world.allocate("blue", "10.1.0.18/24", claimOwner(published));
  await world.allocate("blue", "10.1.0.19/24", claimOwner(published));
  await world.allocate("blue", "10.1.0.20/24", claimOwner(unpublished));
  await world.publish("published", { ips: ["10.1.0.18/24"] });
  await world.becomes("blue", "10.1.0.19/24", "Cooling");
  await world.untilLists("unpublished", ["10.1.0.20/24"]);
  await world.stays("blue", "10.1.0.20/24");
  expect(await world.state("blue", "10.1.0.18/24")).toBe("Bound");
});

test.concurrent("of two addresses of one subnet the one that a pod reports counts, and not one that it has of another network", async () => {
  await world.importedNetwork("overlapping", { subnets: "10.1.0.0/24" });
  const claimOf = async (name: string, [listed, attached]: readonly [string, string], nad: string) => {
    const claim = await world.claim(name, "blue");
    const pod = await world.kubevirt.createPod(NAMESPACE, name, { node: "n1" });
    const ips = [attached.split("/")[0]];
    const status = JSON.stringify([{ name: `${NAMESPACE}/${nad}`, interface: "net2", ips }]);
    const annotations = { "k8s.v1.cni.cncf.io/network-status": status };
    await world.cluster.api.patch(pathOf(NAMESPACE, "pods", name), { metadata: { annotations } });
    await world.allocate("blue", listed, claimOwner(claim));
    await world.allocate("blue", attached, claimOwner(claim), attachmentOf(pod));
    await world.publish(name, { ips: [listed] });
    return pod;
  };
  await claimOf("reported", ["10.1.0.60/24", "10.1.0.61/24"], "blue");
  const pod = await claimOf("elsewhere", ["10.1.0.62/24", "10.1.0.63/24"], "overlapping");
  await world.untilLists("reported", ["10.1.0.61/24"]);
  await world.becomes("blue", "10.1.0.60/24", "Cooling");
  await world.untilLists("elsewhere", ["10.1.0.62/24", "10.1.0.63/24"]);
  await world.stays("blue", "10.1.0.63/24");
  await world.kubevirt.finishPod(pod);
  await world.becomes("blue", "10.1.0.63/24", "Cooling");
  await world.untilLists("elsewhere", ["10.1.0.62/24"]);
  for (const ip of ["10.1.0.61/24", "10.1.0.62/24"]) expect(await world.state("blue", ip)).toBe("Bound");
});

test.concurrent("what a new claim lists is reserved as an ADD could give it: the first of each subnet, with its prefix length", async () => {
  const ips = ["172.16.0.1/16", "10.1.0.255/24", "10.1.0.21/16", "10.1.0.28/24"];
  const claim = await world.claim("filled", "blue", { ips: ips.toSpliced(1, 1) });
  await world.claim("unusable", "blue", { ips });
  await world.untilLists("filled", ["10.1.0.21/24"]);
  const { spec } = await world.allocation("blue", "10.1.0.21/24");
  expect(spec).toEqual({
    network: "blue",
    address: "10.1.0.21/24",
    owner: { kind: "IPAMClaim", namespace: NAMESPACE, name: "filled", uid: claim.metadata.uid, interface: "" },
  });
  for (const ip of ["172.16.0.1/16", "10.1.0.255/24", "10.1.0.28/24"])
    expect(await world.state("blue", ip)).toBe("none");
  expect((await world.readClaim("unusable")).status.ips).toEqual(ips);
});

test.concurrent("a claim that lists another claim's address gets a condition and an event, and the address once it is free", async () => {
  await world.claim("first", "blue", { ips: ["10.1.0.22/24"] });
  await world.becomes("blue", "10.1.0.22/24", "Bound");
  await world.claim("second", "blue", { ips: ["10.1.0.22/24"] });
  const condition = async () => (await world.readClaim("second")).status.conditions?.[0];
  await world.until(async () => (await condition())?.reason === "IPAddressConflict", "the condition");
  expect(await condition()).toMatchObject({ type: "IPsAllocated", status: "False" });
  expect((await condition()).message).toContain(`${NAMESPACE}/first`);
  await world.until(async () => {
    const events = await world.cluster.api.list(`/api/v1/namespaces/${NAMESPACE}/events`);
    return events.some(({ reason, involvedObject: { name } }) => reason === "IPAddressConflict" && name === "second");
  }, "the event");
  expect((await world.readClaim("second")).status.ips).toEqual(["10.1.0.22/24"]);
  await world.deleteClaim("first");
  await world.until(async () => (await condition()).status === "True", "the address to be the second's");
  expect((await world.allocation("blue", "10.1.0.22/24")).spec.owner.name).toBe("second");
});

test.concurrent("a claim of a network that Holdfast does not serve is not changed", async () => {
  await world.claim("foreign", "red", { ips: ["10.9.0.1/24"] });
  await world.claim("marker", "blue", { ips: ["10.1.0.23/24"] });
  await world.becomes("blue", "10.1.0.23/24", "Bound");
  expect(await world.allocation("red", "10.9.0.1/24")).toBeNull();
  expect((await world.readClaim("foreign")).status).toEqual({ ips: ["10.9.0.1/24"] });
});

test.concurrent("unreadable claims, pods, allocations and definitions do not stop the controller", async () => {
  const claim = await world.claim("sane", "blue", { ips: ["10.1.0.24/24", "nonsense", "10.1.0.999/24"] });
  await world.kubevirt.createPod(NAMESPACE, "odd", {
    node: "n1",
    annotations: { "k8s.v1.cni.cncf.io/networks": "{", "k8s.v1.cni.cncf.io/network-status": "[1,{}]" },
  });
  const owner = claimOwner(claim);
  await world.cluster.api.create("/apis/ipam.holdfast.dev/v1alpha1/ipallocations", {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPAllocation",
    metadata: { name: "made-by-hand" },
    spec: { network: "blue", address: "not an address", owner },
  });
  await world.kubevirt.createNad(NAMESPACE, "broken", "{");
  await world.becomes("blue", "10.1.0.24/24", "Bound");
  await world.stays("blue", "10.1.0.24/24");
  expect(await world.cluster.api.find("/apis/ipam.holdfast.dev/v1alpha1/ipallocations/made-by-hand")).not.toBeNull();
});

test.concurrent("the status of an IPNetwork counts addresses without a limit on the numbers", async () => {
  await world.importedNetwork("wide", { subnets: "10.2.0.0/24,fd10::/64" });
  const pod = await world.kubevirt.createPod(NAMESPACE, "wide-pod", { node: "n1" });
  await world.allocate("wide", "10.2.0.9/24", podOwner(pod));
  await world.allocate("wide", "fd10::9/64", podOwner(pod));
  await world.until(async () => (await world.networkObject("wide")).status.allocated === "2", "the counts");
  expect((await world.networkObject("wide")).status).toMatchObject({
    subnets: "10.2.0.0/24,fd10::/64",
    definedBy: `${NAMESPACE}/wide`,
    size: `${256n + (1n << 64n)}`,
    cooling: "0",
    free: `${256n - 3n + (1n << 64n) - 2n}`,
  });
});
