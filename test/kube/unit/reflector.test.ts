import { afterEach, beforeEach, expect, test } from "vitest";
import { Reflector, type ReflectorOptions, type ReflectorTimings } from "../../../kube/reflector.ts";
import { WorldTime } from "../../harness/world/world-time.ts";
import { FakeApi, json } from "./fake-api.ts";
import { FakeCollection, type FakeObject } from "./fake-collection.ts";

interface Item {
  readonly key: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly data: unknown;
}

const QUICK: Partial<ReflectorTimings> = { retryMsMin: 20, retryMsMax: 100, missingMs: 30, quickMs: 50 };

let time: WorldTime;
let api: FakeApi;
let collection: FakeCollection;
let reflector: Reflector<Item>;
/** What the reflector has reported: `+key`, `~key`, `-key`, and other callbacks by name. */
let told: string[];
let warnings: string[];

beforeEach(async () => {
  time = new WorldTime();
  api = await FakeApi.start(undefined, time);
  collection = new FakeCollection();
  api.handler = collection.handler;
  told = [];
  warnings = [];
});
afterEach(async () => {
  await time.run(reflector.stop());
  await api.stop();
});

function project({ metadata, data }: FakeObject): Item | null {
  if (data === "boring") return null;
  if (data === "nonsense") throw new Error("no such thing");
  return { key: `key-${metadata.name}`, uid: metadata.uid, resourceVersion: metadata.resourceVersion, data };
}

function reflect(options: Partial<ReflectorOptions<Item>> = {}): Reflector<Item> {
  reflector = new Reflector<Item>({
    api: api.client(),
    path: "/things",
    project,
    onUpsert: (item, previous) => told.push(`${previous ? "~" : "+"}${item.key.slice(4)}`),
    onDelete: (item) => told.push(`-${item.key.slice(4)}`),
    onSynced: () => told.push("synced"),
    log: {
      info: (message: unknown) => void (String(message).endsWith("in touch again") && told.push("in touch")),
      warn: (message: unknown) => warnings.push(String(message)),
    },
    timings: QUICK,
    ...options,
  });
  reflector.start();
  return reflector;
}

async function watching(watches = 1): Promise<void> {
  await time.until(() => collection.watches >= watches && collection.open.size > 0, "a watch");
}

const heard = (...what: string[]) => time.until(() => what.every((one) => told.includes(one)), what.join(" "));
const names = () => [...reflector.items.keys()].sort();

test("a reflector lists, reports that it has, and follows changes", async () => {
  collection.put("a");
  collection.put("b");
  reflect();
  expect(await time.run(reflector.waitSynced())).toBe(true);
  expect(told).toEqual(["+a", "+b", "synced"]);
  await watching();
  collection.put("c");
  collection.put("a", { more: 'ä€𝄞 "\\n' });
  collection.remove("b");
  await heard("+c", "~a", "-b");
  expect(names()).toEqual(["key-a", "key-c"]);
  expect(reflector.items.get("key-a")?.data).toEqual({ more: 'ä€𝄞 "\\n' });
  expect(collection.lists).toBe(1);
});

test("a watch that the server ends is resumed, with no event lost or repeated", async () => {
  collection.put("a");
  reflect();
  await watching();
  collection.put("b");
  await heard("+b");
  await time.advance(60);
  collection.endWatches();
  collection.put("c");
  await heard("+c");
  expect(told).toEqual(["+a", "synced", "+b", "+c"]);
  expect(collection.lists).toBe(1);
});

test("bookmarks advance the version, so that a watch that ends in its time survives a compaction", async () => {
  collection.put("a");
  reflect({ timings: { ...QUICK, watchSecondsMin: 1, watchSecondsMax: 1 } });
  await watching();
  collection.version += 500;
  collection.bookmark();
  collection.compact();
  await time.advance(1_000);
  collection.endWatches();
  await watching(2);
  collection.put("b");
  await heard("+b");
  expect(collection.lists).toBe(1);
});

test("after a 410 the list reports what was deleted, recreated, changed and created meanwhile", async () => {
  for (const name of ["gone", "anew", "changed", "same"]) collection.put(name);
  reflect();
  await watching();
  told.length = 0;
  collection.open.clear();
  collection.remove("gone");
  collection.remove("anew");
  collection.put("anew");
  collection.put("changed");
  collection.put("new");
  collection.compact();
  api.cut();
  await heard("+new", "in touch");
  expect(told.filter((one) => one !== "in touch")).toEqual(["-gone", "-anew", "~changed", "+anew", "+new"]);
  expect(names()).toEqual(["key-anew", "key-changed", "key-new", "key-same"]);
});

test("an ERROR event with 410 leads to a new list", async () => {
  collection.put("a");
  reflect();
  await watching();
  collection.forge("ERROR", { kind: "Status", code: 410 });
  await time.until(() => collection.lists === 2, "a second list");
});

test("another UID under a known name is a deletion and a creation, and a late deletion of the former is ignored", async () => {
  const old = collection.put("a");
  reflect();
  await watching();
  const metadata = { name: "a", uid: "another", resourceVersion: "9000" };
  collection.forge("MODIFIED", { metadata, data: {} });
  await time.until(() => told.length === 4, "two calls");
  expect(told).toEqual(["+a", "synced", "-a", "+a"]);
  collection.forge("DELETED", { ...old, metadata: { ...old.metadata, resourceVersion: "9001" } });
  collection.forge("ADDED", { metadata: { name: "z", uid: "z", resourceVersion: "9002" }, data: {} });
  await heard("+z");
  expect(reflector.items.get("key-a")?.uid).toBe("another");
});

test("an unreadable object counts as absent, is reported once, and does not end the watch", async () => {
  collection.put("bad", "nonsense");
  collection.put("good");
  reflect();
  await watching();
  collection.put("bad", "nonsense");
  collection.put("good", "nonsense");
  collection.put("fine");
  await heard("-good", "+fine");
  expect(warnings.filter((warning) => warning.startsWith("bad "))).toHaveLength(1);
  collection.put("bad", "sense");
  collection.put("fine", "boring");
  await heard("+bad", "-fine");
  expect(names()).toEqual(["key-bad"]);
});

test("a listener that throws does not end the watch", async () => {
  collection.put("a");
  reflect({
    onUpsert: (item) => {
      told.push(`+${item.key}`);
      throw new Error("my fault");
    },
  });
  await watching();
  collection.put("b");
  await heard("+key-a", "+key-b");
  expect(warnings.join()).toContain("my fault");
});

test("a server that ends every watch at once is asked with growing pauses", async () => {
  const options = { retryMsMin: 20, retryMsMax: 200, quickMs: 10_000 };
  collection.put("a");
  let watches = 0;
  api.handler = (asked, answer, socket) => {
    if (!asked.query.has("watch")) collection.handler(asked, answer, socket);
    else {
      watches += 1;
      answer.writeHead(200).end();
    }
  };
  reflect({ timings: { ...QUICK, ...options } });
  await time.run(reflector.waitSynced());
  await time.advance(1_500);
  expect(api.asked.length).toBeLessThan(40);
  // Perhaps it is the version that it does not like.
  await time.until(() => watches > 2 && collection.lists > 1, "more watches and another list");
});

test("a server that answers 410 to everything is asked with growing pauses", async () => {
  api.handler = (asked, answer, socket) => {
    if (asked.query.has("watch")) json(answer, 410, {});
    else collection.handler(asked, answer, socket);
  };
  reflect({ timings: { ...QUICK, retryMsMax: 200, quickMs: 10_000 } });
  await time.advance(1_500);
  expect(api.asked.length).toBeLessThan(50);
  await time.until(() => collection.lists > 2, "more lists");
});

test("a watch that goes silent is given up, and the events that it missed are reported", async () => {
  collection.put("a");
  reflect({ timings: { ...QUICK, stallMs: 200 } });
  await watching();
  collection.silence();
  collection.put("b");
  await heard("+b", "in touch");
  expect(collection.lists).toBe(1);
});

test("a watch that has never shown anything is asked for again without a warning: a quiet server sends no bookmarks", async () => {
  collection.put("a");
  reflect({ timings: { ...QUICK, stallMs: 200 } });
  await watching(2);
  expect(warnings).toEqual([]);
  collection.put("b");
  await heard("+b");
  collection.silence();
  await time.until(() => warnings.length > 0, "a warning");
});

test("while the server is away all objects stay known, and its return is reported", async () => {
  collection.put("a");
  const states: string[] = [];
  reflect({ onState: (state) => states.push(state) });
  await watching();
  collection.open.clear();
  api.handler = (_asked, _answer, socket) => socket.destroy();
  api.cut();
  await time.until(() => states.includes("away"), "away");
  await time.advance(300);
  expect(names()).toEqual(["key-a"]);
  expect(told).not.toContain("in touch");
  collection.put("b");
  api.handler = collection.handler;
  await heard("in touch", "+b");
  expect(states).toEqual(["listing", "watching", "away", "watching"]);
  expect(warnings).toHaveLength(1);
});

test("a watch that is refused for a while waits as long as the server asks", async () => {
  collection.put("a");
  let refused = 0;
  api.handler = (asked, answer, socket) => {
    if (asked.query.has("watch") && refused < 1) {
      refused += 1;
      json(answer, 429, { message: "busy" }, { "retry-after": "1" });
    } else collection.handler(asked, answer, socket);
  };
  const startMs = time.clock.monotonicMs();
  reflect({ timings: { ...QUICK, retryMsMax: 5_000 } });
  await watching();
  expect(time.clock.monotonicMs() - startMs).toBeGreaterThan(900);
});

test("a resource without a definition is waited for", async () => {
  api.handler = (_asked, answer) => answer.writeHead(404).end("404 page not found");
  reflect();
  expect(await time.run(reflector.waitSynced())).toBe(true);
  expect([reflector.missing, reflector.synced]).toEqual([true, false]);
  collection.put("a");
  api.handler = collection.handler;
  await heard("+a", "synced");
  expect([reflector.missing, reflector.synced]).toEqual([false, true]);
  expect(warnings).toEqual([]);
});

test("a list from the server's cache never takes the reflector back in time", async () => {
  collection.put("a");
  reflect({ query: { resourceVersion: "0", labelSelector: "x" } });
  await watching();
  collection.put("b");
  await heard("+b");
  collection.forge("ERROR", { code: 410 });
  await time.until(() => collection.lists === 2, "a second list");
  const lists = api.asked.filter(({ query }) => !query.has("watch"));
  expect(lists.map(({ query }) => query.get("resourceVersion"))).toEqual(["0", String(collection.version)]);
  expect(api.asked.every(({ query }) => query.get("labelSelector") === "x")).toBe(true);
});

test("stopping ends every request and every wait", async () => {
  collection.put("a");
  api.handler = () => {};
  reflect();
  const waited = time.run(reflector.waitSynced());
  await time.until(() => api.asked.length === 1, "the list");
  await time.run(reflector.stop());
  expect(await waited).toBe(false);
  expect(told).toEqual([]);
  const aborted = new AbortController();
  aborted.abort();
  expect(await time.run(reflector.waitSynced(aborted.signal))).toBe(false);
  expect(() => reflector.start()).toThrow("once");
});

test("without the right to list, a collection is empty where the caller allows that, and is filled once the right is there", async () => {
  collection.put("a");
  let may = false;
  api.handler = (asked, answer, socket) => {
    if (may) collection.handler(asked, answer, socket);
    else json(answer, 403, { message: "not you" });
  };
  const states: string[] = [];
  reflect({
    forbiddenIsEmpty: true,
    onState: (state, problem) => states.push(`${state} ${problem}`.trim()),
    timings: { ...QUICK, forbiddenMs: 100 },
  });
  expect(await time.run(reflector.waitSynced())).toBe(true);
  expect([reflector.synced, reflector.forbidden, reflector.items.size]).toEqual([false, true, 0]);
  expect(states).toEqual(["listing", "forbidden cannot list /things: 403 not you"]);
  may = true;
  await time.until(() => reflector.synced, "the right to count");
  expect(reflector.forbidden).toBe(false);
  expect(names()).toEqual(["key-a"]);
  // The right is withdrawn: the watch ends, and what was known is known no more.
  await watching();
  may = false;
  collection.endWatches();
  await heard("-a");
  await time.until(() => reflector.forbidden, "the refusal");
  expect(reflector.items.size).toBe(0);
});
