/** Owners of kinds that only a later release knows, while a cluster is being upgraded: nothing of theirs is touched. */
import { expect, test } from "vitest";
import { parseAddress } from "../../ipam/space/address.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { NODE, StoreNode } from "./store-node.ts";
import { want } from "./subjects.ts";

const ADDRESS = parseAddress("10.0.0.3");
const OWNER = { kind: "LaterKind", namespace: "shop", name: "one", uid: "uid-later", interface: "" };

/** A node whose cluster has one such allocation. */
async function withLaterOwner(attachments: object): Promise<StoreNode> {
  const node = new StoreNode();
  node.api.put(ALLOCATIONS_PATH, {
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPAllocation",
    metadata: {
      name: allocationName("blue", ADDRESS),
      labels: { "ipam.holdfast.dev/network": "blue", "ipam.holdfast.dev/owner": OWNER.uid },
    },
    spec: { network: "blue", address: "10.0.0.3/29", owner: OWNER },
    status: { state: "Bound", attachments },
  });
  await node.open();
  await node.settle();
  return node;
}

test("a journal that was lost does not take over the attachments of such an owner", async () => {
  const attachment = { node: NODE, since: "2026-01-01T00:00:00Z" };
  const node = await withLaterOwner({ "c1/eth0": attachment });
  expect(node.journal).toEqual([]);
  expect(node.bound).toEqual(["10.0.0.3/29: c1/eth0"]);
});

test.each([{ force: false }, { force: true }])("release with %o is refused, and names the owner", async ({ force }) => {
  const node = await withLaterOwner({});
  const outcome = await node.store.release({ network: "blue", address: ADDRESS, force });
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "IN_USE" } });
  expect(JSON.stringify(outcome)).toContain("LaterKind shop/one");
  expect(node.bound).toEqual(["10.0.0.3/29: "]);
});

test("an ADD that requests its address is refused with the owner", async () => {
  const node = await withLaterOwner({});
  const outcome = await node.store.attach(want("a", { pod: "a", requested: ["10.0.0.3"] }));
  const message = expect.stringContaining("LaterKind shop/one");
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "ADDRESS_TAKEN", message } });
});
