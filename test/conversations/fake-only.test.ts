/**
 * What only the server in memory can be made to do: faults at an instant of one's choice, and the same history again.
 */
import { expect, test } from "vitest";
import type { Fate } from "../harness/kube-fake/client/link.ts";
import { MemoryServer } from "./memory-server.ts";
import { converse } from "./run.ts";
import { CONVERSATIONS } from "./tables/all.ts";
import { ALLOCATIONS, allocation } from "./tables/objects.ts";

const STORAGE = "ipam.holdfast.dev/ipallocations";

const named = (name: string) => JSON.parse(JSON.stringify(allocation(name)).replaceAll("{id}", "blue"));

function memoryServer() {
  const server = new MemoryServer();
  const api = server.api("admin");
  const send = (method: "GET" | "POST" | "DELETE", path: string, body?: object, ms = 20_000) =>
    server.run(
      api.send({
        method,
        path,
        ...(body === undefined ? {} : { body }),
        priority: "add",
        deadlineMs: server.nowMs() + ms,
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
    const answer = await server.run(api.list({ path: ALLOCATIONS, query, each, restarted: again }));
    return { answer, names };
  };
  return { server, api, send, create, list };
}

test("the same seed gives the same history, to the byte", async () => {
  for (const [index, conversation] of CONVERSATIONS.entries()) {
    const [one, two] = await Promise.all(
      [0, 1].map(async () => JSON.stringify(await converse(conversation, new MemoryServer(), `talk-${index}`))),
    );
    expect(two, conversation.title).toBe(one);
  }
});

test("a cache that lags shows an earlier state, and catches up event by event", async () => {
  const { server, create, list } = memoryServer();
  await create("a");
  server.apiServer.holdCache(STORAGE);
  await create("b");
  await create("c");
  expect((await list({ resourceVersion: "0" })).names).toEqual(["a"]);
  expect((await list({})).names).toEqual(["a", "b", "c"]);
  server.apiServer.releaseCache(STORAGE, 1);
  expect((await list({ resourceVersion: "0" })).names).toEqual(["a", "b"]);
  server.apiServer.releaseCache(STORAGE);
  expect((await list({ resourceVersion: "0" })).names).toEqual(["a", "b", "c"]);
});

test("a request that arrives twice is carried out twice, and its client gets the second answer", async () => {
  const { server, create } = memoryServer();
  server.fates.push({ twice: true });
  expect(await create("a")).toMatchObject({ status: 409, body: { reason: "AlreadyExists" } });
});

test("a request that arrives after its client has given up is carried out", async () => {
  const { server, send, create } = memoryServer();
  server.fates.push({ requestMs: 3_000 });
  await expect(send("POST", ALLOCATIONS, named("late"), 1_000)).rejects.toMatchObject({
    name: "ApiAway",
  });
  expect(await send("GET", `${ALLOCATIONS}/late`)).toMatchObject({ status: 404 });
  server.fates.push({ answerMs: 4_000 });
  await create("other");
  expect(await send("GET", `${ALLOCATIONS}/late`)).toMatchObject({ status: 200 });
});

test("a client that gives up gets the last status and the server's message", async () => {
  const { server, send, list } = memoryServer();
  const refused = { status: 429, retryAfterSeconds: 60, message: "later" } satisfies Fate;
  server.fates.push(refused);
  await expect(send("GET", ALLOCATIONS)).rejects.toMatchObject({
    name: "ApiAway",
    status: 429,
    problem: "429 later",
  });
  server.fates.push({ status: 403 });
  await expect(list({})).rejects.toMatchObject({
    name: "ListRefused",
    status: 403,
    problem: "403 forbidden: not yet",
  });
});

test("a 403 soon after a failure is not believed, for a request as for a list", async () => {
  const { server, create, send, list } = memoryServer();
  await create("a");
  server.fates.push({ status: 503 }, { status: 403 });
  expect((await send("GET", `${ALLOCATIONS}/a`)).status).toBe(200);
  server.fates.push({ status: 403 });
  expect((await list({})).names).toEqual(["a"]);
});

test("a watch whose reader throws fails, and leaves nothing open", async () => {
  const { server, api, create } = memoryServer();
  await create("a");
  const event = () => {
    throw new Error("not what was expected");
  };
  const signal = new AbortController().signal;
  const watched = api.watch({ path: ALLOCATIONS, resourceVersion: "0", event, signal });
  expect(await server.run(watched)).toEqual({ kind: "failed", problem: "not what was expected" });
  expect(server.apiServer.watches.count).toBe(0);
});

test("a list that breaks off is started again", async () => {
  const { server, create, list } = memoryServer();
  for (const name of ["a", "b", "c"]) await create(name);
  let restarts = 0;
  server.fates.push({ cutAfter: 2 } satisfies Fate);
  const { names } = await list({}, () => {
    restarts += 1;
  });
  expect({ names, restarts }).toEqual({ names: ["a", "b", "c"], restarts: 1 });
});

test("a watch that has gone silent stays open, and one that is cut fails", async () => {
  const { server, create } = memoryServer();
  const api = server.client("admin");
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
  await server.until(() => heard.length === 1, "the first event");
  api.silenceWatches();
  await create("b");
  expect({ heard, end }).toEqual({ heard: ["a"], end: null });
  api.cutWatches();
  await server.run(watched);
  expect(end).toEqual({ kind: "failed", problem: "aborted" });
  expect(server.apiServer.watches.count).toBe(0);
});

test("a cache that has lost its history refuses earlier versions", async () => {
  const { server, api, create } = memoryServer();
  const { body } = await create("a");
  await create("b");
  server.apiServer.cacheOf(STORAGE).forget();
  const watched = api.watch({
    path: ALLOCATIONS,
    resourceVersion: body.metadata.resourceVersion,
    event: () => {},
    signal: new AbortController().signal,
  });
  expect(await server.run(watched)).toMatchObject({ kind: "expired" });
});
