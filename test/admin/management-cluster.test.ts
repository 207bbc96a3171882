import { beforeEach, expect, test } from "vitest";
import { AskingApi } from "../../admin/cluster/asking/asking-api.ts";
import { ClusterAdmin } from "../../admin/cluster/cluster-admin.ts";
import { answerInProcess } from "../../admin/in-process.ts";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ADDRESS_POOLS_PATH, ALLOCATIONS_PATH, NETWORKS_PATH, namespacedPath } from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

/*
 * A cluster that has Holdfast's definitions alone: a management cluster without Multus, whose networks AddressPools
 * define.
 */

const TIME = "2026-01-01T00:00:00Z";
/** Groups that a cluster with Holdfast always has; all others are defined by other projects. */
const OURS = new Set(["", "ipam.holdfast.dev", "apiextensions.k8s.io", "coordination.k8s.io"]);

let time: VirtualTime;
let api: KubeInMemory;
let admin: ClusterAdmin;

beforeEach(() => {
  time = new VirtualTime();
  api = new KubeInMemory(time.clock());
  for (const { group } of api.server.served.all) if (!OURS.has(group)) api.missing.add(`/apis/${group}`);
  const pool = {
    metadata: { name: "machines" },
    spec: { network: "metal", definition: { subnets: "10.3.0.0/24" } },
  };
  const { metadata } = api.put(namespacedPath(ADDRESS_POOLS_PATH, "shop"), pool);
  const importedFrom = [{ definition: "AddressPool shop/machines", uid: metadata.uid, generation: 1 }];
  const conditions = [{ type: "Imported", status: "True", lastTransitionTime: TIME }];
  api.put(NETWORKS_PATH, {
    metadata: { name: "metal" },
    spec: { network: "metal", definedIn: "shop" },
    status: { conditions, importedFrom, allocated: "1", cooling: "0", free: "252", size: "253" },
  });
  const owner = {
    kind: "IPAddressClaim",
    namespace: "shop",
    name: "node-0",
    uid: "u",
    interface: "",
  } as const;
  const holder = { owner, attachment: null };
  api.put(ALLOCATIONS_PATH, newAllocation("metal", parseInterfaceAddress("10.3.0.9/24"), holder, TIME));
  admin = new ClusterAdmin({ api: new AskingApi(api, { server: "there", silenceMs: 0 }), silenceMs: 0 });
});

const ask = (path: string, query = {}) => time.run(answerInProcess(admin, { method: "GET", path, query, body: null }));

test("networks shows the networks of AddressPools", async () => {
  expect(await ask("/v1/networks")).toMatchObject({
    items: [{ name: "metal" }],
  });
});

test("show lists a network's holders", async () => {
  const query = { network: "metal" };
  expect(await ask("/v1/allocations", query)).toMatchObject({ items: [{ owner: { name: "node-0" } }] });
});

test("claims shows none", async () => {
  expect(await ask("/v1/claims")).toEqual({ items: [] });
});

test("check finds nothing wrong with what is not there", async () => {
  expect(await ask("/v1/check", { grace: "0" })).toMatchObject({ findings: [] });
});

test("Holdfast's own definitions are required, and the message says how to install them", async () => {
  api.missing.add(ALLOCATIONS_PATH);
  await expect(ask("/v1/networks")).rejects.toMatchObject({
    message: "the cluster does not know ipallocations.ipam.holdfast.dev: Holdfast is not installed there",
  });
});
