import { afterEach, beforeEach, expect, test } from "vitest";
import { ApiAway, type ListedPage } from "../../../kube/kube-api.ts";
import { FakeApi, json, within } from "./fake-api.ts";
import { FakeCollection } from "./fake-collection.ts";

let api: FakeApi;

beforeEach(async () => {
  api = await FakeApi.start();
});
afterEach(() => api.stop());

function filled(count: number): FakeCollection {
  const collection = new FakeCollection();
  for (let index = 0; index < count; index += 1) collection.put(`o${index}`, { text: 'ä€𝄞 "}],{' });
  return collection;
}

async function names(query: Record<string, string> = {}): Promise<{ answer: unknown; got: string[] }> {
  const got: string[] = [];
  const answer = await api.client().list({
    path: "/x",
    query,
    each: ({ metadata }) => got.push(metadata.name),
    restarted: () => {
      got.length = 0;
    },
  });
  return { answer, got };
}

test("a list is read page by page, and from the server's cache in one piece", async () => {
  const collection = filled(1_234);
  api.handler = collection.handler;
  const { answer, got } = await names();
  expect(answer).toEqual({ kind: "listed", resourceVersion: String(collection.version) });
  expect(got).toEqual([...collection.objects.keys()]);
  expect(api.asked.map(({ query }) => query.get("limit"))).toEqual(["500", "500", "500"]);
  api.asked.length = 0;
  expect((await names({ resourceVersion: "0" })).got).toHaveLength(1_234);
  expect(api.asked.map(({ query }) => query.get("limit"))).toEqual([null]);
});

test("every request for a page is counted, with the bytes that were sent and the objects that arrived", async () => {
  const pageOf = (names: readonly string[], next: string) =>
    JSON.stringify({ items: names.map((name) => ({ metadata: { name } })), metadata: { continue: next } });
  const [first, second] = [pageOf(["ä", "b"], "2"), pageOf(["c"], "")];
  const cut = first.slice(0, first.indexOf('"b"'));
  const answers = [first, null, cut, first, second];
  api.handler = (_asked, answer, socket) => {
    const text = answers.shift();
    if (typeof text !== "string") return json(answer, 503, {});
    const length = Buffer.byteLength(text === cut ? first : text);
    answer.writeHead(200, { "content-type": "application/json", "content-length": length });
    if (text === cut) answer.write(text, () => setTimeout(() => socket.destroy(), 50));
    else answer.end(text);
  };
  const pages: ListedPage[] = [];
  const path = "/apis/k8s.cni.cncf.io/v1/namespaces/shop/things";
  const client = api.client({ onList: (page) => pages.push(page) });
  await client.list({ path, query: { labelSelector: "a=b" }, each: () => {}, restarted: () => {} });
  const what = { resource: "things", selector: "label", source: "quorum" };
  expect(pages).toEqual([
    { ...what, objects: 2, bytes: Buffer.byteLength(first) },
    { ...what, objects: 0, bytes: 0 },
    { ...what, objects: 1, bytes: Buffer.byteLength(cut) },
    { ...what, objects: 2, bytes: Buffer.byteLength(first) },
    { ...what, objects: 1, bytes: Buffer.byteLength(second) },
  ]);
  pages.length = 0;
  api.handler = filled(1).handler;
  for (const [where, query] of [
    ["/api/v1/pods", { fieldSelector: "spec.nodeName=a", resourceVersion: "0" }],
    ["/api/v1/namespaces", {}],
    ["/apis/k8s.cni.cncf.io/v1/things", {}],
  ] as const)
    await client.list({ path: where, query, each: () => {} });
  expect(pages.map(({ resource, selector, source }) => `${resource} ${selector} ${source}`)).toEqual([
    "pods field cache",
    "namespaces none quorum",
    "things none quorum",
  ]);
});

test("a list that expires between its pages is started again", async () => {
  const collection = filled(1_200);
  let expired = false;
  api.handler = (asked, answer, socket) => {
    if (asked.query.get("continue") === "500" && !expired) {
      expired = true;
      collection.remove("o3");
      json(answer, 410, { message: "the continue token is too old" });
    } else collection.handler(asked, answer, socket);
  };
  const { got } = await names();
  expect(got).toEqual([...collection.objects.keys()]);
  expect(got).not.toContain("o3");
});

test("a caller that cannot restart its list gets ApiAway when the list expires", async () => {
  const collection = filled(600);
  api.handler = (asked, answer, socket) => {
    if (asked.query.has("continue")) json(answer, 410, {});
    else collection.handler(asked, answer, socket);
  };
  await expect(api.client().list({ path: "/x", each: () => {} })).rejects.toThrow(ApiAway);
  await expect(names()).rejects.toThrow("cannot list /x: 410");
  expect(api.asked.length).toBeLessThan(12);
});

test("a page that breaks off is read again, and no object is reported twice", async () => {
  const collection = filled(700);
  let broken = 0;
  api.handler = (asked, answer, socket) => {
    if (broken < 2) {
      broken += 1;
      answer.writeHead(200, { "content-type": "application/json", "content-length": "100000" });
      answer.write('{"items":[{"metadata":{"name":"ghost"}},{"metadata":', () => socket.destroy());
    } else collection.handler(asked, answer, socket);
  };
  expect((await names()).got).toEqual([...collection.objects.keys()]);
});

test("a version too old for the cache is read from the store", async () => {
  const collection = filled(3);
  api.handler = (asked, answer, socket) => {
    if (asked.query.has("resourceVersion")) json(answer, 410, {});
    else collection.handler(asked, answer, socket);
  };
  expect((await names({ resourceVersion: "5" })).got).toHaveLength(3);
});

test('a resource without a definition is "missing", and a refusal is ApiAway at once', async () => {
  api.handler = (_asked, answer) => answer.writeHead(404).end("404 page not found");
  expect((await names()).answer).toEqual({ kind: "missing" });
  api.handler = (_asked, answer) => json(answer, 403, { message: "not you" });
  api.asked.length = 0;
  await expect(names()).rejects.toThrow("403 not you");
  expect(api.asked).toHaveLength(1);
});

test("overload and server errors are retried until the deadline", async () => {
  const collection = filled(2);
  const answers = [503, 429];
  api.handler = (asked, answer, socket) => {
    const status = answers.shift();
    if (status) json(answer, status, {});
    else collection.handler(asked, answer, socket);
  };
  expect((await names()).got).toHaveLength(2);
  api.handler = (_asked, answer) => json(answer, 503, { message: "busy" });
  const late = api.client().list({ path: "/x", each: () => {}, deadlineMs: within(300) });
  await expect(late).rejects.toThrow(/busy/);
});

test("an error that the caller throws ends the list and reaches the caller", async () => {
  api.handler = filled(5).handler;
  const each = () => {
    throw new TypeError("mine");
  };
  await expect(api.client().list({ path: "/x", each })).rejects.toThrow(TypeError);
  expect(api.asked).toHaveLength(1);
});

test("a list of metadata alone is requested as PartialObjectMetadataList", async () => {
  const collection = filled(1);
  api.handler = collection.handler;
  await api.client().list({ path: "/x", metadataOnly: true, each: () => {} });
  expect(api.asked[0]?.headers.accept).toBe(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
  );
});

/** A server that has not reached the version that is asked for: it has waited for it already. */
const BEHIND = {
  reason: "Timeout",
  message: "Too large resource version: 7, current: 5",
  details: { causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }] },
};

function notOlderThan(version: string): Promise<unknown> {
  const got: string[] = [];
  const query = { labelSelector: "a=b" };
  const each = ({ metadata }: { metadata: { name: string } }) => got.push(metadata.name);
  return api
    .client()
    .list({ path: "/x", query, notOlderThan: version, each })
    .then((answer) => ({ answer, got }));
}

const asked = () => api.asked.map(({ query }) => Object.fromEntries(query));

test("a list that may not be older than a version comes from the server's cache, in one piece", async () => {
  const collection = filled(1_200);
  api.handler = collection.handler;
  const { got } = (await notOlderThan("7")) as { got: string[] };
  expect(got).toHaveLength(1_200);
  expect(asked()).toEqual([{ labelSelector: "a=b", resourceVersion: "7", resourceVersionMatch: "NotOlderThan" }]);
});

test("where the cache has not reached that version the list is a quorum read, in pages, and the cache is not asked again", async () => {
  const collection = filled(700);
  api.handler = (one, answer, socket) => {
    if (one.query.has("resourceVersion")) json(answer, 504, BEHIND);
    else collection.handler(one, answer, socket);
  };
  const { got } = (await notOlderThan("7")) as { got: string[] };
  expect(got).toEqual([...collection.objects.keys()]);
  expect(asked()).toEqual([
    { labelSelector: "a=b", resourceVersion: "7", resourceVersionMatch: "NotOlderThan" },
    { labelSelector: "a=b", limit: "500" },
    { labelSelector: "a=b", limit: "500", continue: "500" },
  ]);
});

test("a quorum read that is behind, too, is ApiAway: nobody waits for a version that may never come", async () => {
  api.handler = (_asked, answer) => json(answer, 504, BEHIND);
  await expect(notOlderThan("7")).rejects.toThrow(ApiAway);
  expect(asked()).toHaveLength(2);
});

test("a version that the cache has forgotten is read from the store, whatever is there now", async () => {
  const collection = filled(3);
  api.handler = (one, answer, socket) => {
    if (one.query.has("resourceVersion")) json(answer, 410, {});
    else collection.handler(one, answer, socket);
  };
  const { got } = (await notOlderThan("7")) as { got: string[] };
  expect(got).toHaveLength(3);
  expect(asked()).toEqual([
    { labelSelector: "a=b", resourceVersion: "7", resourceVersionMatch: "NotOlderThan" },
    { labelSelector: "a=b", limit: "500" },
  ]);
});
