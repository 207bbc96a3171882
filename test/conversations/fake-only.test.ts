/** What only the server in memory can be made to do: faults at an instant of one's choice, and the same history again. */
import { expect, test } from "vitest";
import type { Fate } from "../../kube/fake/client/link.ts";
import { FakeStage } from "./fake-stage.ts";
import { converse } from "./run.ts";
import { CONVERSATIONS } from "./tables/all.ts";
import { ALLOCATIONS, allocation } from "./tables/objects.ts";

const STORAGE = "ipam.holdfast.dev/ipallocations";

const named = (name: string) => JSON.parse(JSON.stringify(allocation(name)).replaceAll("{id}", "blue"));

function scene() {
  const stage = new FakeStage();
  const api = stage.api("admin");
  const send = (method: "GET" | "POST" | "DELETE", path: string, body?: object, ms = 20_000) =>
    stage.run(
      api.send({
        method,
        path,
        ...(body === undefined ? {} : { body }),
        priority: "add",
        deadlineMs: stage.nowMs() + ms,
      }),
    );
  const create = (name: string) => send("POST", ALLOCATIONS, named(name));
  const list = async (query: Record<string, string>, restarted?: () => void) => {
    const names: string[] = [];
    const again = () => {
      names.length = 0;
      restarted?.();
    };
    const each = (object: { metadata: { name: string } }) => names.push(object.metadata.name);
    const answer = await stage.run(api.list({ path: ALLOCATIONS, query, each, restarted: again }));
    return { answer, names };
  };
  return { stage, api, send, create, list };
}

test("the same seed is the same history, to the byte", async () => {
  for (const [index, conversation] of CONVERSATIONS.entries()) {
    const [one, two] = await Promise.all(
      [0, 1].map(async () => JSON.stringify(await converse(conversation, new FakeStage(), `talk-${index}`))),
    );
    expect(two, conversation.title).toBe(one);
  }
});

test("a cache that lags shows what was, and catches up event by event", async () => {
  const { stage, create, list } = scene();
  await create("a");
  stage.server.holdCache(STORAGE);
  await create("b");
  await create("c");
  expect((await list({ resourceVersion: "0" })).names).toEqual(["a"]);
  expect((await list({})).names).toEqual(["a", "b", "c"]);
  stage.server.releaseCache(STORAGE, 1);
  expect((await list({ resourceVersion: "0" })).names).toEqual(["a", "b"]);
  stage.server.releaseCache(STORAGE);
  expect((await list({ resourceVersion: "0" })).names).toEqual(["a", "b", "c"]);
});

test("a request that comes twice is done twice, and the second answer is heard", async () => {
  const { stage, create } = scene();
  stage.fates.push({ twice: true });
  expect(await create("a")).toMatchObject({ status: 409, body: { reason: "AlreadyExists" } });
});

test("a request that comes after its client gave up is done all the same", async () => {
  const { stage, send, create } = scene();
  stage.fates.push({ requestMs: 3_000 });
  await expect(send("POST", ALLOCATIONS, named("late"), 1_000)).rejects.toMatchObject({
    name: "ApiAway",
  });
  expect(await send("GET", `${ALLOCATIONS}/late`)).toMatchObject({ status: 404 });
  stage.fates.push({ answerMs: 4_000 });
  await create("other");
  expect(await send("GET", `${ALLOCATIONS}/late`)).toMatchObject({ status: 200 });
});

test("who gives up hears the last status, and what the server said", async () => {
  const { stage, send, list } = scene();
  const refused = { status: 429, retryAfterSeconds: 60, message: "later" } satisfies Fate;
  stage.fates.push(refused);
  await expect(send("GET", ALLOCATIONS)).rejects.toMatchObject({
    name: "ApiAway",
    status: 429,
    problem: "429 later",
  });
  stage.fates.push({ status: 403 });
  await expect(list({})).rejects.toMatchObject({
    name: "ListRefused",
    status: 403,
    problem: "403 forbidden: not yet",
  });
});

test("a 403 soon after trouble is not believed, of a request as of a list", async () => {
  const { stage, create, send, list } = scene();
  await create("a");
  stage.fates.push({ status: 503 }, { status: 403 });
  expect((await send("GET", `${ALLOCATIONS}/a`)).status).toBe(200);
  stage.fates.push({ status: 403 });
  expect((await list({})).names).toEqual(["a"]);
});

test("a watch whose reader throws fails, and leaves nothing open", async () => {
  const { stage, api, create } = scene();
  await create("a");
  const event = () => {
    throw new Error("not what was expected");
  };
  const signal = new AbortController().signal;
  const watched = api.watch({ path: ALLOCATIONS, resourceVersion: "0", event, signal });
  expect(await stage.run(watched)).toEqual({ kind: "failed", problem: "not what was expected" });
  expect(stage.server.watches.count).toBe(0);
});

test("a list that breaks off begins anew", async () => {
  const { stage, create, list } = scene();
  for (const name of ["a", "b", "c"]) await create(name);
  let restarts = 0;
  stage.fates.push({ cutAfter: 2 } satisfies Fate);
  const { names } = await list({}, () => {
    restarts += 1;
  });
  expect({ names, restarts }).toEqual({ names: ["a", "b", "c"], restarts: 1 });
});

test("a watch that has gone silent stays open, and one that is cut fails", async () => {
  const { stage, create } = scene();
  const api = stage.client("admin");
  const heard: string[] = [];
  let end: unknown = null;
  const stop = new AbortController();
  const watched = api
    .watch({
      path: ALLOCATIONS,
      resourceVersion: "0",
      event: (_, { metadata }) => heard.push(metadata.name),
      signal: stop.signal,
    })
    .then((how) => {
      end = how;
    });
  await create("a");
  await stage.until(() => heard.length === 1, "the first event");
  api.silenceWatches();
  await create("b");
  expect({ heard, end }).toEqual({ heard: ["a"], end: null });
  api.cutWatches();
  await stage.run(watched);
  expect(end).toEqual({ kind: "failed", problem: "aborted" });
  expect(stage.server.watches.count).toBe(0);
});

test("a cache that has forgotten refuses versions from before", async () => {
  const { stage, api, create } = scene();
  const { body } = await create("a");
  await create("b");
  stage.server.cacheOf(STORAGE).forget();
  const watched = api.watch({
    path: ALLOCATIONS,
    resourceVersion: body.metadata.resourceVersion,
    event: () => {},
    signal: new AbortController().signal,
  });
  expect(await stage.run(watched)).toMatchObject({ kind: "expired" });
});
