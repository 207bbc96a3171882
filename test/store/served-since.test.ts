import { afterEach, beforeEach, expect, test } from "vitest";
import { hasServedSince } from "../../store/cluster/allocations/served-since.ts";
import { FakeApi, json } from "../claims/fake-api.ts";
import { FakeCollection, type FakeObject } from "../claims/fake-collection.ts";

/** Longer than any answer of the fake takes; shorter than the test may take, for what is never answered, ms. */
const MS_MAX = 10_000;

let api: FakeApi;
let collection: FakeCollection;

beforeEach(async () => {
  api = await FakeApi.start();
  collection = new FakeCollection();
  // The server has started at this version: what is older is refused.
  collection.compact();
  api.handler = collection.handler;
});
afterEach(() => api.stop());

function reaches({ metadata: { name, uid, resourceVersion } }: FakeObject): Promise<boolean> {
  return hasServedSince(api.client(), { name, uid, version: BigInt(resourceVersion) }, MS_MAX);
}

test("a server that still shows the creation has run since then, even when the object is gone", async () => {
  const object = collection.put("blue-1");
  collection.put("blue-1", { more: 1 });
  collection.remove("blue-1");
  expect(await reaches(object)).toBe(true);
  const before = `${Number(object.metadata.resourceVersion) - 1}`;
  expect(api.asked.map(({ query }) => query.get("resourceVersion")).sort()).toEqual(["1", before]);
  for (const { query } of api.asked)
    expect(Object.fromEntries(query)).toMatchObject({ watch: "true", fieldSelector: "metadata.name=blue-1" });
});

test("a server that started later refuses the watch", async () => {
  const object = collection.put("blue-1");
  collection.compact();
  expect(await reaches(object)).toBe(false);
});

test("a server that shows the creation of another object of that name at the version was restored", async () => {
  const { metadata, data } = collection.put("blue-1");
  expect(await reaches({ metadata: { ...metadata, uid: "another" }, data })).toBe(false);
});

test("a server that shows an update of the object at the version may have been restored", async () => {
  collection.put("blue-1");
  expect(await reaches(collection.put("blue-1", { more: 1 }))).toBe(false);
});

test("a later event of the same object is not its creation", async () => {
  const created = collection.put("blue-1");
  const written = collection.put("blue-1", { more: 1 });
  const { resourceVersion } = written.metadata;
  expect(await reaches({ ...created, metadata: { ...created.metadata, resourceVersion } })).toBe(false);
});

test.each<[string, () => void]>([
  ["shows everything since the first version", () => {}],
  [
    "refuses the first version in the words of etcd",
    () => {
      const message = "The resourceVersion for the provided watch is too old.";
      api.handler = (asked, answer, socket) =>
        asked.query.get("resourceVersion") === "1"
          ? json(answer, 410, { kind: "Status", code: 410, reason: "Expired", message })
          : collection.handler(asked, answer, socket);
    },
  ],
])("a server without a cache, which %s, may have been restored", async (_what, set) => {
  collection.compactedTo = 0;
  const object = collection.put("blue-1");
  set();
  expect(await reaches(object)).toBe(false);
});

test("a server that does not answer leaves it open", async () => {
  const object = collection.put("blue-1");
  api.handler = (_asked, _answer, socket) => socket.destroy();
  expect(await reaches(object)).toBe(false);
});
