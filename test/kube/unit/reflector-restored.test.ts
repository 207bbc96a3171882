/** A reflector whose API server is restored from a backup, with the revisions of then. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { PODS_PATH } from "../../../kube/objects.ts";
import { Reflector } from "../../../kube/reflector.ts";
import { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { FakeKubeApi } from "../../harness/kube-fake/client/fake-kube-api.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";

const PODS = "/api/v1/namespaces/shop/pods";

let time: VirtualTime;
let server: ApiServer;
let api: FakeKubeApi;
let reflector: Reflector<{ key: string; uid: string; resourceVersion: string; node: string }>;
/** The version that each list asked for; "": what etcd has. */
let lists: string[];
let watches: string[];
/** What the server answers to lists instead of serving them; null: it serves them. */
let refusal: 429 | 500 | null;

beforeEach(async () => {
  time = new VirtualTime();
  const clock = time.clock();
  server = new ApiServer({ clock });
  lists = [];
  watches = [];
  refusal = null;
  api = new FakeKubeApi({
    clock,
    server: () => server,
    link: {
      reached: ({ query = {} }, verb) => {
        if (verb === "list") lists.push(query.resourceVersion ?? "");
        if (verb === "watch") watches.push(query.resourceVersion ?? "");
        return verb === "list" && refusal !== null ? { status: refusal } : undefined;
      },
    },
  });
  reflector = new Reflector({
    api,
    path: PODS_PATH,
    project: ({ metadata, spec }) => ({ key: metadata.name, ...metadata, node: spec.nodeName }),
    onUpsert: () => {},
    onDelete: () => {},
    log: { info: () => {}, warn: () => {} },
  });
  put("kept");
  put("gone");
  reflector.start();
  await time.run(reflector.waitSynced());
  await time.pass(1_000);
});
afterEach(async () => {
  const stopped = reflector.stop();
  api.close();
  await time.run(stopped);
});

const put = (name: string, node = "node-a") =>
  server.put(PODS, { metadata: { name, namespace: "shop" }, spec: { nodeName: node } });
const remove = (name: string) => server.remove(`${PODS}/${name}`);
/** The pods and their nodes, as the copy has them. */
const copy = () => [...reflector.items.values()].map(({ key, node }) => `${key} ${node}`).sort();
const present = () =>
  server.etcd.range("/pods", "").map(({ object }) => `${object.metadata.name} ${object.spec.nodeName}`);
const version = () => server.etcd.revision;

/** As etcd's documents have it: the servers are stopped meanwhile. */
function restore(saved: ReturnType<ApiServer["save"]>, happens = () => {}): void {
  server.etcd.restore(saved);
  happens();
  server.restart();
}

test("a restored server that has reached the copy's version a second time is listed again", async () => {
  const saved = server.save();
  remove("gone");
  put("lost");
  await time.pass(1_000);
  expect(copy()).toEqual(["kept node-a", "lost node-a"]);
  const seen = version();
  restore(saved);
  while (version() < seen + 2) put("other", `node-${version()}`);
  await time.pass(20_000);
  expect(copy()).toEqual(present());
  expect(copy()).toContain("gone node-a");
});

test("a restored server that continues from an older version is listed before it reaches the known one", async () => {
  const saved = server.save();
  for (let i = 0; i < 20; i += 1) put("lost", `node-${i}`);
  await time.pass(1_000);
  restore(saved);
  await time.pass(20_000);
  expect(copy()).toEqual(["gone node-a", "kept node-a"]);
  put("new");
  await time.pass(100);
  expect(copy()).toEqual(present());
});

test("a version that another change of the same object has after the restore is not taken for the one before", async () => {
  const saved = server.save();
  put("gone", "node-b");
  put("kept", "node-c");
  await time.pass(1_000);
  const seen = version();
  restore(saved, () => put("gone", "node-d"));
  // The cache of the server begins before it.
  put("kept", "node-e");
  expect(version()).toBe(seen);
  await time.pass(20_000);
  expect(copy()).toEqual(["gone node-d", "kept node-e"]);
});

test("an object that has its version of before and other content is taken over from the list", async () => {
  const saved = server.save();
  put("gone", "node-b");
  await time.pass(1_000);
  const before = server.at(`${PODS}/gone`);
  restore(saved, () => put("gone", "node-c"));
  expect(server.at(`${PODS}/gone`)?.metadata).toEqual(before?.metadata);
  await time.pass(20_000);
  expect(copy()).toEqual(["gone node-c", "kept node-a"]);
});

test("after a cut connection the watch resumes from the last change without a list", async () => {
  const before = version();
  put("new");
  await time.pass(1_000);
  api.cutWatches();
  remove("kept");
  await time.pass(20_000);
  expect(copy()).toEqual(["gone node-a", "new node-a"]);
  expect(watches.at(-1)).toBe(`${before}`);
  expect(lists).toEqual([""]);
});

test("a server that no longer remembers the last change is listed from its cache, not from etcd", async () => {
  put("new");
  await time.pass(1_000);
  const seen = version();
  server.restart();
  await time.pass(20_000);
  expect(copy()).toEqual(present());
  expect(lists).toEqual(["", `${seen}`]);
});

test.each([
  { status: 429, what: "is too busy for a list goes on being asked from its cache", isCached: true },
  { status: 500, what: "cannot list is asked for what etcd has", isCached: false },
] as const)("a server that $what", async ({ status, isCached }) => {
  put("new");
  await time.pass(1_000);
  const seen = version();
  refusal = status;
  server.restart();
  await time.pass(120_000);
  refusal = null;
  await time.pass(60_000);
  expect(copy()).toEqual(present());
  expect(lists.length).toBeGreaterThan(5);
  expect(lists.slice(1).every((asked) => asked === `${seen}`)).toBe(isCached);
});

test("a watch that ends at its time limit resumes where it was", async () => {
  put("new");
  await time.pass(1_000);
  server.etcd.bump(50);
  server.cacheOf("/pods").forget();
  // Watches last ten minutes at most.
  await time.pass(1_500_000);
  expect(watches.length).toBeGreaterThan(2);
  expect(lists).toEqual([""]);
});
