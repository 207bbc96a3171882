/** What the watcher of the churn calls a fault, told step by step. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { NAMESPACE, nameOf } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";
import { AddressWatcher } from "./address-watcher.ts";

const ADDRESS = "10.1.0.37";

let world: World;
let capi: ClusterApi;
let watcher: AddressWatcher;
beforeEach(async () => {
  world = await World.start({ api: "memory" });
  capi = await world.startClusterApi();
  await world.network("blue", { subnets: "10.1.0.0/24" });
  watcher = new AddressWatcher((world.cluster as MemoryCluster).objects);
});
afterEach(() => world.stop());

const allocate = ({ metadata: { name, uid } }: KubeObject) =>
  world.allocate("blue", `${ADDRESS}/24`, {
    kind: "IPAddressClaim",
    namespace: NAMESPACE,
    name,
    uid,
    interface: "",
  });

/** The IPAddress of a claim, as a controller creates it. */
function tell({ metadata: { name, uid } }: KubeObject): Promise<KubeObject> {
  const apiVersion = `ipam.cluster.x-k8s.io/${capi.version}`;
  const poolRef = { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: "one" };
  return capi.putAddress(
    name,
    { address: ADDRESS, prefix: 24, claimRef: { name }, poolRef },
    {
      annotations: { "ipam.holdfast.dev/allocation": nameOf("blue", `${ADDRESS}/24`) },
      ownerReferences: [{ apiVersion, kind: "IPAddressClaim", name, uid }],
    },
  );
}

test("an IPAddress that comes when its claim has gone is nobody's, whoever has the address by then", async () => {
  const gone = await capi.claim("node-7", "one");
  await capi.deleteClaim("node-7");
  const next = await capi.claim("node-9", "one");
  await allocate(next);
  await tell(next);
  const late = await tell(gone);
  expect(watcher.faults).toEqual([]);
  expect(watcher.isLeftover(late)).toBe(true);
});

test("an address that two living claims are told is a fault", async () => {
  const one = await capi.claim("node-7", "one");
  await allocate(one);
  await tell(one);
  await tell(await capi.claim("node-9", "one"));
  expect(watcher.faults).toEqual([
    `${ADDRESS} is told to node-7 and node-9`,
    `node-9 is told ${ADDRESS}, which is held by node-7`,
  ]);
});

test("an address that is told to a new claim while the IPAddress of one that has gone tells it is a fault", async () => {
  const one = await capi.claim("node-7", "one");
  await allocate(one);
  const before = await tell(one);
  await capi.deleteClaim("node-7");
  const next = await capi.claim("node-9", "one");
  await world.cluster.api.patch(`/apis/ipam.holdfast.dev/v1alpha1/ipallocations/${nameOf("blue", `${ADDRESS}/24`)}`, {
    spec: { owner: { name: "node-9", uid: next.metadata.uid } },
  });
  await tell(next);
  expect(watcher.isLeftover(before)).toBe(false);
  expect(watcher.faults).toContain(`${ADDRESS} is told to node-7 and node-9`);
});

test("one that is told while nobody holds it is a race", async () => {
  await tell(await capi.claim("node-7", "one"));
  expect(watcher.races).toEqual([`node-7 is told ${ADDRESS}, which is nobody's`]);
  expect(watcher.faults).toEqual([]);
});
