import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { run as examine } from "../../cli/doctor/run.ts";
import { ask } from "../../guests/haproxy/command-socket.ts";
import { run } from "../../guests/kernel/run.ts";
import { DAEMON, exchange, METADATA_SERVER } from "../../guests/long-poll.ts";
import { BALANCERS_PATH, readWantedBalancers } from "../../guests/ovn/balancers-wire.ts";
import { PORTS_PATH, readWantedPorts } from "../../guests/ports/wire.ts";
import { LeanConnection } from "../../identity/lean-get.ts";
import { createBoundedServer } from "../../platform/listeners/bounded-server.ts";
import { LISTENERS, type ListenerName } from "../../platform/listeners/listeners.ts";

let directory: string;
let path: string;
let server: Server;
/** What the other end writes, chunk after chunk, once somebody has asked. */
let answer: () => Iterable<string>;
let sentBytes: number;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-bounds-"));
  path = join(directory, "sock");
  sentBytes = 0;
  server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {});
    socket.once("data", () => void write(socket));
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
});

afterEach(async () => {
  await new Promise((resolve) => server.close(resolve));
  rmSync(directory, { recursive: true });
});

async function write(socket: Socket): Promise<void> {
  for (const chunk of answer()) {
    if (socket.destroyed) return;
    sentBytes += chunk.length;
    if (!socket.write(chunk))
      await new Promise<void>((resolve) => {
        socket.once("drain", resolve);
        socket.once("close", resolve);
      });
  }
  socket.end();
}

const MEGABYTE = "a".repeat(1 << 20);

/** An answer of HTTP that never ends, by itself. */
function* endless(): Generator<string> {
  yield "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
  for (let count = 0; count < 64; count += 1) yield MEGABYTE;
}

function* words(): Generator<string> {
  for (let count = 0; count < 64; count += 1) yield MEGABYTE;
}

const REPORT = { waitMs: 0, applied: null, networks: [], written: [], problems: [] };

describe("an answer without end is given up at its limit, and the next one is read", () => {
  const never = new AbortController().signal;
  const question = (to: string) => ({ socket: path, path: to, report: REPORT, signal: never });
  const askDaemon = () => exchange(DAEMON, question(PORTS_PATH), readWantedPorts);
  const askMetadata = () => exchange(METADATA_SERVER, question(BALANCERS_PATH), readWantedBalancers);

  test("the daemon's", async () => {
    answer = endless;
    await expect(askDaemon()).rejects.toThrow(`the daemon's answer has more than ${4 << 20} characters`);
    expect(sentBytes).toBeLessThan(32 << 20);
    answer = () => ['HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"version":"1","ports":[],"ovnNetworks":[]}'];
    await expect(askDaemon()).resolves.toMatchObject({ version: "1" });
  });

  test("the metadata server's", async () => {
    answer = endless;
    await expect(askMetadata()).rejects.toThrow("longer than any can be");
    expect(sentBytes).toBeLessThan(32 << 20);
    answer = () => ['HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"version":"1","node":"n","balancers":[]}'];
    await expect(askMetadata()).resolves.toMatchObject({ node: "n" });
  });

  test("haproxy's", async () => {
    answer = words;
    await expect(ask(path, "show stat")).rejects.toThrow(`its answer has more than ${1 << 20} characters`);
    expect(sentBytes).toBeLessThan(32 << 20);
    answer = () => ["one\n", "two\n"];
    await expect(ask(path, "show stat")).resolves.toBe("one\ntwo\n");
  });

  test("a command's", async () => {
    const ran = await run("yes", [], "", { outputMax: 1 << 20 });
    expect(ran).toMatchObject({ code: null, stderr: `yes printed more than ${1 << 20} characters` });
    expect(ran.stdout.length).toBeLessThanOrEqual(1 << 20);
  });
});

test("a program that holdfast doctor runs fails when it prints without end", async () => {
  const { code, stdout } = await examine("yes", []);
  expect(code).toBeNull();
  expect(stdout.length).toBeLessThanOrEqual(1 << 20);
});

/** Fastify's own server has the same row. */
test.each(Object.keys(LISTENERS) as ListenerName[])("a head without end is refused: %s", async (name) => {
  const listener = createBoundedServer(name, (_, response) => response.end());
  const own = join(directory, "listener");
  await new Promise<void>((resolve) => listener.listen(own, resolve));
  try {
    const answerTo = (head: string) =>
      new Promise<string>((resolve) => {
        let text = "";
        const socket = connect(own, () => socket.write(head));
        socket.on("data", (chunk) => {
          text += chunk;
        });
        socket.on("error", () => {});
        socket.on("close", () => resolve(text));
      });
    const head = (bytes: number) => `GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: ${"a".repeat(bytes)}\r\n\r\n`;
    await expect(answerTo(head(10))).resolves.toMatch(/^HTTP\/1.1 200 /);
    await expect(answerTo(head(LISTENERS[name].headerBytesMax + 1))).resolves.toMatch(/^HTTP\/1.1 431 /);
  } finally {
    await new Promise((resolve) => listener.close(resolve));
  }
});

describe("a daemon's answer about an identity", () => {
  const connection = () => new LeanConnection(path, { timeoutMs: 60_000, ended: () => {} });
  const reply = (head: string, body: readonly string[]) => () => [`HTTP/1.1 200 OK\r\n`, `${head}\r\n\r\n`, ...body];

  test("in many pieces is whole, and the next one on the same connection too", async () => {
    const pieces = Array.from({ length: 5_000 }, (_, at) => `${at},`);
    const body = pieces.join("");
    answer = reply(`content-length: ${body.length}`, pieces);
    const lean = connection();
    await expect(lean.get("/")).resolves.toEqual({ status: 200, body });
    lean.close();
  });

  test("is refused by the length that it says, and by a head without end", async () => {
    answer = reply(`content-length: ${(8 << 20) + 1}`, []);
    await expect(connection().get("/")).rejects.toThrow("its answer is too long");
    answer = words;
    await expect(connection().get("/")).rejects.toThrow("its answer has no end of the head");
  });
});
