import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AskedCluster } from "../../admin/cluster/main.ts";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { kubeconfigText } from "../harness/world/kubeconfig.ts";
import { FakeApi, json } from "../kube/unit/fake-api.ts";

// What the command line asks a cluster: a list of several pages, and questions that have nothing to do with each other.

let api: FakeApi;
let directory: string;
let asked: AskedCluster;

beforeEach(async () => {
  api = await FakeApi.start((request, answer) => {
    const from = Number(request.query.get("continue") ?? 0);
    if (request.path.endsWith("/pods")) json(answer, 200, { items: [], metadata: {} });
    else json(answer, 200, { items: [allocation(from)], metadata: { continue: from < 2 ? `${from + 1}` : "" } });
  });
  directory = mkdtempSync(join(tmpdir(), "holdfast-asked-"));
  const file = join(directory, "kubeconfig");
  writeFileSync(file, kubeconfigText({ user: "admin", token: "t", server: api.url, ca: "" }));
  asked = new AskedCluster({ kubeconfig: { files: [file] }, silenceMs: 5_000 });
});
afterEach(async () => {
  await api.stop();
  rmSync(directory, { recursive: true });
});

function allocation(index: number): object {
  const address = { address: { family: 4, value: BigInt(0x0a000001 + index) } as const, prefixLength: 8 };
  const owner = { kind: "Pod", namespace: "shop", name: "web", uid: `u${index}`, interface: "net1" } as const;
  return newAllocation("blue", address, { owner, attachment: null }, "2026-01-01T00:00:00Z");
}

/** The addresses of all pages. */
async function listed(network?: string): Promise<string[]> {
  const found: string[] = [];
  for (let token: string | undefined; ; ) {
    const query = { network, limit: "5000", continue: token };
    const answer = await asked.ask({ method: "GET", path: "/v1/allocations", query, body: null });
    expect(answer).toMatchObject({ kind: "answered" });
    const { body } = answer as { body: { items: { address: string }[]; continue?: string } };
    found.push(...body.items.map(({ address }) => address));
    token = body.continue;
    if (token === undefined) return found;
  }
}

test("all pages of a list come over one connection", async () => {
  expect(await listed()).toEqual(["10.0.0.1/8", "10.0.0.2/8", "10.0.0.3/8"]);
  expect(api.connections).toBe(1);
  expect(await listed()).toHaveLength(3);
  expect(api.connections).toBe(2);
});

test("what VMs ask for is read once for all pages of a network", async () => {
  expect(await listed("blue")).toHaveLength(3);
  expect(api.asked.filter(({ path }) => path.endsWith("/pods"))).toHaveLength(1);
  await listed("blue");
  expect(api.asked.filter(({ path }) => path.endsWith("/pods"))).toHaveLength(2);
});
