import { connect, type Socket } from "node:net";
import { describe, expect, onTestFinished } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { expectServing, processTest, restart, test } from "./fixtures.ts";

/** Whatever is written to the socket, the daemon goes on: the next ADD is served, and it stops when it is told to. */

async function open(daemon: ServedDaemon, bytes: string | Buffer = ""): Promise<Socket> {
  const socket = connect(daemon.socket);
  socket.on("error", () => {}); // the daemon hangs up
  onTestFinished(() => {
    socket.destroy();
  });
  await new Promise((done) => socket.once("connect", done));
  if (bytes.length > 0) socket.write(bytes);
  return socket;
}

/** What the daemon answers before it hangs up. */
async function answerTo(daemon: ServedDaemon, bytes: string | Buffer): Promise<string> {
  const socket = await open(daemon, bytes);
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString();
  });
  await new Promise((done) => socket.once("close", done));
  return text;
}

/** A POST /cni with this body. */
const post = (body: string | Buffer, headers = "Content-Type: application/json\r\n") =>
  `POST /cni HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

describe("bytes that are no request", () => {
  const NOISE: [string, string | Buffer][] = [
    ["zeros", Buffer.alloc(4_096)],
    ["every byte there is", Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
    ["the beginning of TLS", Buffer.from("16030100c2010000be0303", "hex")],
    ["another protocol", "EHLO blue\r\n\r\n"],
    ["an unknown version", "GET /healthz HTTP/9.9\r\n\r\n"],
    ["an unknown method", "ALLOCATE /cni HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["a bare line feed and nothing", "\n\n\n\n"],
    ["a header without end", `GET /healthz HTTP/1.1\r\nX: ${"x".repeat(100_000)}\r\n\r\n`],
    ["ten thousand headers", `GET /healthz HTTP/1.1\r\n${"X: y\r\n".repeat(10_000)}\r\n`],
    ["two lengths", "POST /cni HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"],
    [
      "a length and chunks",
      "POST /cni HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ["a length that is no number", "POST /cni HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n"],
    ["a length below zero", "POST /cni HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"],
    // The daemon answers and hangs up before it has read all of it, so the answer may be lost.
    ["a body above the limit", post(`"${"x".repeat(4 * 1024 * 1024)}"`)],
    ["broken chunks", "POST /cni HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n"],
  ];
  test("are answered with an error or a closed connection", async ({ daemon }) => {
    for (const [reason, bytes] of NOISE) {
      const socket = await open(daemon, bytes);
      socket.end();
      const text = await new Promise<string>((done) => {
        let all = "";
        socket.on("data", (chunk) => {
          all += chunk.toString();
        });
        socket.once("close", () => done(all));
      });
      expect(text, reason).toMatch(/^(HTTP\/1\.1 4\d\d |$)/);
      await expectServing(daemon);
    }
  });
});

describe("requests that are no CNI call", () => {
  const BODY = '{"command":"STATUS"}';
  const REQUESTS: [string, string][] = [
    ["no JSON", post("hello")],
    ["cut off JSON", post('{"command":"ADD"')],
    ["nothing", post("")],
    ["another content type", post(BODY, "Content-Type: text/plain\r\n")],
    ["no content type", post(BODY, "")],
    ["a form", post("command=ADD", "Content-Type: application/x-www-form-urlencoded\r\n")],
    ["a key that would alter objects in JavaScript", post('{"__proto__":{"command":"ADD"}}')],
    ["a constructor that would", post('{"constructor":{"prototype":{"command":"ADD"}}}')],
    ["nested a hundred thousand deep", post(`${"[".repeat(100_000)}${"]".repeat(100_000)}`)],
    [
      "a length above the limit, and no body",
      "POST /cni HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n",
    ],
  ];
  test("are refused with a CNI error object", async ({ daemon }) => {
    for (const [reason, request] of REQUESTS) {
      const answer = await answerTo(daemon, request);
      const [head, body] = answer.split("\r\n\r\n") as [string, string];
      expect(head, reason).toMatch(/^HTTP\/1\.1 4\d\d /);
      const error = JSON.parse(body);
      expect(Object.keys(error), reason).toEqual(["cniVersion", "code", "msg", "details"]);
      expect(error.code, reason).not.toBe(999);
      await expectServing(daemon);
    }
  });

  test("to GET /cni or an unknown route are a 404 with an error object", async ({ daemon }) => {
    for (const path of ["/cni", "/", "/v1", "/v1/nothing", "/v1/../cni", `/${"x".repeat(5_000)}`, "/%00", "/%"]) {
      const answer = await daemon.get(path);
      expect(answer.status, path).toBeGreaterThanOrEqual(400);
      expect(answer.status, path).toBeLessThan(500);
      expect(Object.keys(answer.json()), path).toEqual(["code", "message", "hint"]);
    }
    await expectServing(daemon);
  });
});

describe("connections that do nothing", () => {
  const HALVES = [
    "POST /cni HTTP/1.1\r\nHost: x\r\n",
    'POST /cni HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"command":',
  ];

  test("two hundred idle ones and two hundred half requests do not delay an ADD", async ({ daemon }) => {
    const sockets = [];
    for (let i = 0; i < 400; i++) sockets.push(await open(daemon, i < 200 ? "" : HALVES[i % 2]));
    await expectServing(daemon);
    for (const socket of sockets) socket.destroy();
  });

  processTest("may be closed within a request, or before its answer", async ({ daemon }) => {
    for (let i = 0; i < 50; i++) (await open(daemon, HALVES[i % 2])).destroy();
    for (let i = 0; i < 50; i++) (await open(daemon, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).destroy();
    await expectServing(daemon);
  });

  processTest("do not keep the daemon from stopping", async ({ daemon }) => {
    await open(daemon);
    for (const half of HALVES) await open(daemon, half);
    await expectServing(daemon);
    expect(await daemon.end("SIGTERM")).toBe(0);
    await restart(daemon, "SIGTERM");
    await expectServing(daemon);
  });
});
