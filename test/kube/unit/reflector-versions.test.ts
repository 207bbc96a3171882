import { afterEach, beforeEach, expect, test } from "vitest";
import { Reflector } from "../../../kube/reflector.ts";
import { until } from "../../harness/wait.ts";
import { FakeApi } from "./fake-api.ts";
import { FakeCollection, type FakeObject } from "./fake-collection.ts";

let api: FakeApi;
let collection: FakeCollection;
let reflector: Reflector<{ key: string; name: string; uid: string; resourceVersion: string }>;
/** Paths under which the collection is served. */
let served: Set<string>;
/** `+name` and `-name`, as the reflector tells them. */
let told: string[];

beforeEach(async () => {
  api = await FakeApi.start();
  collection = new FakeCollection();
  served = new Set();
  told = [];
  api.handler = (asked, answer, socket) => {
    if (served.has(asked.path)) collection.handler(asked, answer, socket);
    else answer.writeHead(404).end("404 page not found");
  };
  reflector = new Reflector({
    api: api.client(),
    path: "/v3/things",
    otherPaths: ["/v2/things", "/v1/things"],
    project: ({ metadata }: FakeObject) => ({ key: metadata.name, ...metadata }),
    onUpsert: ({ key }) => told.push(`+${key}`),
    onDelete: ({ key }) => told.push(`-${key}`),
    log: { info: () => {}, warn: () => {} },
    timings: { retryMsMin: 20, retryMsMax: 100, missingMs: 30, quickMs: 50 },
  });
});
afterEach(async () => {
  await reflector.stop();
  await api.stop();
});

test("the first version that is served is followed", async () => {
  served = new Set(["/v2/things", "/v1/things"]);
  collection.put("a");
  reflector.start();
  await until(() => collection.open.size > 0, "a watch");
  expect([reflector.servedPath, reflector.missing, told]).toEqual(["/v2/things", false, ["+a"]]);
});

test("a resource counts as missing once no version of it is served, and any version ends that", async () => {
  reflector.start();
  expect(await reflector.waitSynced()).toBe(true);
  expect(reflector.missing).toBe(true);
  expect(new Set(api.asked.map(({ path }) => path))).toEqual(new Set(["/v3/things", "/v2/things", "/v1/things"]));
  served = new Set(["/v1/things"]);
  collection.put("a");
  await until(() => told.includes("+a"), "the object");
  expect([reflector.servedPath, reflector.missing]).toEqual(["/v1/things", false]);
});

test("when its version ends, another one is followed, and no object goes or comes again", async () => {
  served = new Set(["/v2/things"]);
  collection.put("a");
  reflector.start();
  await until(() => collection.open.size > 0, "a watch");
  served = new Set(["/v3/things"]);
  collection.put("b");
  collection.endWatches();
  await until(() => reflector.servedPath === "/v3/things" && collection.open.size > 0, "the other version");
  collection.put("c");
  await until(() => told.includes("+c"), "the object");
  expect(told).toEqual(["+a", "+b", "+c"]);
});
