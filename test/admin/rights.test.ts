import { beforeEach, expect, test } from "vitest";
import { AskingApi } from "../../admin/cluster/asking/asking-api.ts";
import { ClusterAdmin } from "../../admin/cluster/cluster-admin.ts";
import { answerInProcess } from "../../admin/in-process.ts";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ListRefused } from "../../kube/kube-api.ts";
import { ALLOCATIONS_PATH, CLAIMS_PATH, NADS_PATH, namespacedPath, PODS_PATH } from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

/** Users whose rights end before pods: the questions that pods only add to are answered without them. */

const TIME = "2026-01-01T00:00:00Z";
let time: VirtualTime;
let admin: ClusterAdmin;
let refused: number;

beforeEach(() => {
  time = new VirtualTime();
  refused = 0;
  const api = new KubeInMemory(time.clock());
  const config = { cniVersion: "1.0.0", name: "blue", type: "bridge" };
  api.put(namespacedPath(NADS_PATH, "shop"), {
    metadata: { name: "blue", namespace: "shop" },
    spec: { config: JSON.stringify({ ...config, ipam: { type: "holdfast-ipam", subnets: "10.3.0.0/24" } }) },
  });
  const claim = api.put(namespacedPath(CLAIMS_PATH, "shop"), {
    metadata: { name: "vm1.blue", namespace: "shop" },
    spec: { network: "blue", interface: "net1" },
    status: { ips: ["10.3.0.9/24"] },
  });
  const owner = {
    kind: "IPAMClaim",
    namespace: "shop",
    name: "vm1.blue",
    uid: claim.metadata.uid,
    interface: "net1",
  } as const;
  const holder = { owner, attachment: null };
  api.put(ALLOCATIONS_PATH, newAllocation("blue", parseInterfaceAddress("10.3.0.9/24"), holder, TIME));
  const [send, list] = [api.send.bind(api), api.list.bind(api)];
  api.send = async (request) => {
    if (request.path !== PODS_PATH) return send(request);
    refused += 1;
    return { status: 403, body: { message: "pods is forbidden" }, serverMs: null };
  };
  api.list = async (request) => {
    if (request.path !== PODS_PATH) return list(request);
    refused += 1;
    throw new ListRefused("pods is forbidden", 403);
  };
  admin = new ClusterAdmin({ api: new AskingApi(api, { server: "there", silenceMs: 0 }), silenceMs: 0 });
});

const ask = (path: string, query = {}) => time.run(answerInProcess(admin, { method: "GET", path, query, body: null }));

test.each([
  ["claims", "/v1/claims", {}, { items: [{ metadata: { name: "vm1.blue" } }] }],
  [
    "show's holders",
    "/v1/allocations",
    { network: "blue" },
    { items: [{ address: "10.3.0.9/24", owner: { name: "vm1.blue" } }] },
  ],
])("%s are shown to a user who may not list pods", async (_, path, query, answer) => {
  expect(await ask(path, query)).toMatchObject(answer);
  expect(refused).toBeGreaterThan(0);
});

test("list needs no pods at all", async () => {
  expect(await ask("/v1/allocations")).toMatchObject({ items: [{ address: "10.3.0.9/24" }] });
  expect(refused).toBe(0);
});
