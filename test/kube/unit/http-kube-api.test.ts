import type { Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ApiAway, type KubeRequest } from "../../../kube/kube-api.ts";
import { machineTime, type TestTime } from "../../harness/wait.ts";
import { WorldTime } from "../../harness/world/world-time.ts";
import { FakeApi, json } from "./fake-api.ts";

let time: TestTime;
let api: FakeApi;

beforeEach(() => begin(new WorldTime()));
afterEach(() => api.stop());

async function begin(itsTime: TestTime): Promise<void> {
  time = itsTime;
  api = await FakeApi.start(undefined, time);
}

/**
 * For a queue with timers of its own (Bottleneck), and for an answer that is under way for long: while it is, time
 * would pass.
 */
async function onTheMachine(): Promise<void> {
  await api.stop();
  await begin(machineTime);
}

const within = (ms: number) => time.clock.monotonicMs() + ms;

function get(path: string, ms = 10_000): KubeRequest {
  return { method: "GET", path, priority: "add", deadlineMs: within(ms) };
}

function put(path: string, priority: KubeRequest["priority"], ms = 10_000): KubeRequest {
  return { method: "PUT", path, body: { path }, priority, deadlineMs: within(ms) };
}

test("definite answers come back, with the server's clock", async () => {
  for (const status of [200, 201, 403, 404, 409, 422]) {
    api.handler = (_asked, answer) => json(answer, status, { status }, { date: "Sat, 01 Jan 2028 00:00:00 GMT" });
    const answer = await api.client().send(get("/api/v1/pods"));
    expect(answer).toEqual({ status, body: { status }, serverMs: Date.UTC(2028, 0, 1) });
  }
  expect(api.asked).toHaveLength(6);
});

test("patches, bodies and queries are sent in the server's form", async () => {
  const client = api.client();
  const one = { priority: "add", deadlineMs: within(10_000), path: "/x" } as const;
  const query = { fieldManager: "a b&c" };
  await client.send({ ...one, method: "PATCH", patch: "json", body: [{ op: "test" }], query });
  await client.send({ ...one, method: "PATCH", patch: "merge", body: { ä: "€" } });
  await client.send({ ...one, method: "DELETE" });
  const [first, second, third] = api.asked;
  expect(first?.headers["content-type"]).toBe("application/json-patch+json");
  expect(first?.query.get("fieldManager")).toBe("a b&c");
  expect(second?.headers["content-type"]).toBe("application/merge-patch+json");
  expect(JSON.parse(second?.body ?? "")).toEqual({ ä: "€" });
  expect(third?.headers["content-type"]).toBeUndefined();
  expect(api.connections).toBe(1);
});

test("overload, server errors and resets are retried, and the hook hears of each attempt", async () => {
  const seen: (number | "away")[] = [];
  const answers = [503, 429, 0, 500, 201];
  api.handler = (_asked, answer, socket) => {
    const status = answers.shift() as number;
    if (status === 0) socket.destroy();
    else json(answer, status, {}, status === 429 ? { "retry-after": "1" } : {});
  };
  const client = api.client({ onRequest: (_verb, status) => seen.push(status) });
  const startMs = time.clock.monotonicMs();
  expect((await client.send(put("/x", "add"))).status).toBe(201);
  expect(time.clock.monotonicMs() - startMs).toBeGreaterThan(950);
  expect(seen.filter((status) => status !== "away")).toEqual([503, 429, 500, 201]);
  expect(seen).toContain("away");
});

test("a server that is starting is asked again soon, and its refusals are not believed", async () => {
  const answers = [503, 403, 200];
  api.handler = (_asked, answer) => json(answer, answers.shift() ?? 500, {}, { "retry-after": "10" });
  expect((await api.client().send(get("/x", 5_000))).status).toBe(200);
});

test("a request ends at once when the server asks for a wait beyond its deadline", async () => {
  api.handler = (_asked, answer) => json(answer, 429, { message: "too many" }, { "retry-after": "3600" });
  await expect(api.client().send(get("/x", 60_000))).rejects.toThrow(/too many/);
  expect(api.asked).toHaveLength(1);
});

test("an attempt that is never answered does not use up the deadline", async () => {
  let first = true;
  api.handler = (_asked, answer) => {
    if (!first) json(answer, 200, {});
    first = false;
  };
  expect((await api.client({ attemptMs: 100 }).send(put("/x", "add"))).status).toBe(200);
});

test("at the deadline it throws ApiAway and names the last problem", async () => {
  api.handler = (_asked, answer) => json(answer, 500, { message: "etcd is on fire" });
  const client = api.client();
  const deadlineMs = within(400);
  const failure = await client.send({ ...put("/x", "add"), deadlineMs }).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ApiAway);
  expect((failure as Error).message).toContain("500 etcd is on fire");
  expect(time.clock.monotonicMs()).toBeLessThan(deadlineMs + 2_000);
  api.handler = () => {};
  await expect(client.send(get("/x", 200))).rejects.toThrow(/nothing came/);
});

test("a kept-alive connection that the server has closed is replaced at once", async () => {
  api.handler = (_asked, answer, socket) => {
    json(answer, 200, {});
    // Ends the connection when the next request comes in on it.
    if (api.connections === 1) socket.once("data", () => socket.destroy());
  };
  const seen: unknown[] = [];
  const client = api.client({ onRequest: (_verb, status) => seen.push(status) });
  await client.send(put("/x", "add"));
  expect((await client.send(put("/x", "add"))).status).toBe(200);
  expect(seen).toEqual([200, "away", 200]);
});

test("the body of an error may be anything; that of a success must be JSON", async () => {
  api.handler = (_asked, answer) => answer.writeHead(404).end("<html>not here</html>");
  expect((await api.client().send(get("/x"))).body).toMatchObject({ message: "<html>not here</html>" });
  api.handler = (_asked, answer) => answer.writeHead(200).end("<html>welcome</html>");
  await expect(api.client().send(get("/x", 300))).rejects.toThrow(/no JSON/);
});

test("an answer that breaks off in its body, or never ends, is asked for again", async () => {
  const head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n";
  const fates: ((socket: Socket) => void)[] = [
    // In one piece with its end, before anybody reads the body; later, when somebody does; and never.
    (socket) => socket.end(`${head}{"kind":`),
    (socket) => socket.write(head, () => setImmediate(() => socket.end('{"kind":'))),
    (socket) => socket.write(`${head}{"kind":`),
  ];
  for (const fate of fates) {
    let first = true;
    api.handler = (_asked, answer, socket) => {
      if (first) fate(socket);
      else json(answer, 200, { whole: true });
      first = false;
    };
    const answer = await api.client({ attemptMs: 200 }).send(get("/x"));
    expect(answer.body).toEqual({ whole: true });
  }
  expect(api.asked).toHaveLength(2 * fates.length);
});

test("an answer that is longer than any object is cut off and asked for again", async () => {
  await onTheMachine();
  const piece = Buffer.alloc(1024 * 1024, " ");
  let pieces = 0;
  api.handler = (_asked, answer) => {
    if (pieces > 0) return json(answer, 200, { short: true });
    const more = () => {
      pieces += 1;
      if (!answer.destroyed) answer.write(piece, () => setImmediate(more));
    };
    more();
  };
  // An attempt that takes as long as it likes: nothing else ends it.
  const answer = await api.client({ attemptMs: 60_000 }).send(get("/x", 120_000));
  expect(answer.body).toEqual({ short: true });
  expect(pieces).toBeGreaterThan(64);
  expect(api.asked).toHaveLength(2);
});

test("after a 401 the credentials are read again at once, and only a second 401 backs off", async () => {
  let generation = 0;
  let renewals = 0;
  const auth = {
    authHeaders: async () => ({ headers: { Authorization: `Bearer ${generation}` }, generation }),
    renew: async () => {
      renewals += 1;
      generation += 1;
      return true;
    },
  };
  api.handler = (asked, answer) => json(answer, asked.headers.authorization === "Bearer 1" ? 200 : 401, {});
  const client = api.client({}, auth);
  expect((await client.send(get("/x"))).status).toBe(200);
  expect(renewals).toBe(1);
  api.handler = (_asked, answer) => json(answer, 401, { message: "who are you" });
  api.asked.length = 0;
  await expect(client.send(get("/x", 500))).rejects.toThrow(/401 who are you/);
  expect(api.asked.length).toBeLessThan(20);
});

test("a request waits for credentials no longer than its deadline", async () => {
  const client = api.client({}, { authHeaders: () => new Promise(() => {}) });
  await expect(client.send(get("/x", 150))).rejects.toThrow(ApiAway);
  const failing = { authHeaders: () => Promise.reject(new Error("plug-in crashed")) };
  await expect(api.client({}, failing).send(get("/x", 150))).rejects.toThrow(/plug-in crashed/);
  expect(api.asked).toEqual([]);
});

test("an ADD's write overtakes those of DELs and of housekeeping that wait; a read waits for none", async () => {
  await onTheMachine();
  const held: (() => void)[] = [];
  api.handler = (asked, answer) => {
    if (asked.method === "GET" || held.length > 0) json(answer, 200, {});
    else held.push(() => json(answer, 200, {}));
  };
  const client = api.client({ writesMax: 1 });
  const sent = [client.send(put("/first", "housekeeping"))];
  await time.until(() => held.length === 1, "the first write");
  for (const priority of ["housekeeping", "del"] as const)
    for (let index = 0; index < 20; index += 1) sent.push(client.send(put(`/${priority}`, priority)));
  sent.push(client.send(put("/add", "add")));
  expect((await client.send(get("/read"))).status).toBe(200);
  // Bottleneck takes its time to put a job in its place.
  await time.advance(300);
  held[0]?.();
  await Promise.all(sent);
  const writes = api.asked.filter(({ method }) => method === "PUT").map(({ path }) => path);
  const after = writes.slice(writes.indexOf("/add"));
  expect(after.filter((path) => path === "/del").length).toBeGreaterThan(10);
  expect(after.filter((path) => path === "/housekeeping").length).toBeGreaterThan(10);
  const afterDels = writes.slice(writes.lastIndexOf("/del"));
  expect(afterDels.filter((path) => path === "/housekeeping").length).toBeGreaterThan(10);
});

test("a deadline that passes in the queue sends nothing", async () => {
  await onTheMachine();
  const held: (() => void)[] = [];
  api.handler = (_asked, answer) => held.push(() => json(answer, 200, {}));
  const client = api.client({ writesMax: 1 });
  const first = client.send(put("/first", "add"));
  await time.until(() => held.length === 1, "the first write");
  await expect(client.send(put("/late", "add", 100))).rejects.toThrow(ApiAway);
  held[0]?.();
  await first;
  api.handler = (_asked, answer) => json(answer, 200, {});
  await client.send(put("/last", "add"));
  expect(api.asked.map(({ path }) => path)).toEqual(["/first", "/last"]);
});

test("closing ends the requests that are under way", async () => {
  api.handler = () => {};
  const client = api.client();
  const signal = new AbortController().signal;
  const sent = expect(client.send(put("/x", "add", 60_000))).rejects.toThrow(ApiAway);
  const listed = expect(client.list({ path: "/x", each: () => {} })).rejects.toThrow(ApiAway);
  const watched = client.watch({ path: "/x", resourceVersion: "1", event: () => {}, signal });
  await time.until(() => api.asked.length === 3, "three requests");
  client.close();
  await Promise.all([sent, listed]);
  expect(await watched).toEqual({ kind: "closed" });
  await expect(client.send(get("/x", 60_000))).rejects.toThrow(ApiAway);
});
