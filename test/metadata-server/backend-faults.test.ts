import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { makeCertificate } from "../harness/certificate.ts";
import { newDirectory } from "../harness/daemon.ts";
import { ask } from "../harness/metadata/server.ts";
import { until, untilSaid } from "../harness/wait.ts";
import { identity } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";
import { StandInNova } from "./stand-in-nova.ts";

const UNAVAILABLE = "The remote metadata server is temporarily unavailable. Please try again later.\n";
const SECRET = "shared";

/** A metadata server that forwards to the URL; its time-out is the shortest there is. */
async function forwarding(url: string, more: readonly string[] = []): Promise<MetadataServer> {
  const server = await MetadataServer.start((directory) => {
    writeFileSync(join(directory, "secret"), SECRET, { mode: 0o600 });
    const args = ["--nova-url", url, "--secret-file", join(directory, "secret"), "--backend-timeout-seconds", "1"];
    return [...args, ...more];
  });
  server.identity.known.set("blue 10.10.0.5", identity());
  return server;
}

describe("a backend that is not there", () => {
  test("is a 503 with a plain sentence, and guests are served as soon as it is back", async () => {
    const nova = await StandInNova.start();
    const { port, url } = nova;
    await nova.stop();
    const server = await forwarding(url);
    const answer = await server.ask("/openstack");
    expect([answer.status, answer.text]).toEqual([503, UNAVAILABLE]);
    await until(() => server.log.includes("the backend is not reachable"), "the line in the log");
    await untilSaid(() => server.log, "ECONNREFUSED");
    const back = await StandInNova.start({ port });
    expect((await server.ask("/openstack")).status).toBe(200);
    await server.stop();
    await back.stop();
  });

  test("is a 503 when its name cannot be resolved", async () => {
    const server = await forwarding("http://no-such-host.invalid:8775");
    expect((await server.ask("/openstack")).status).toBe(503);
    await server.stop();
  });
});

describe("a backend that misbehaves", () => {
  let nova: StandInNova;
  let server: MetadataServer;
  beforeAll(async () => {
    nova = await StandInNova.start();
    server = await forwarding(nova.url);
  });
  afterAll(async () => {
    await server?.stop();
    await nova?.stop();
  });
  beforeEach(() => {
    nova.misbehave = null;
    nova.requests.length = 0;
  });

  test("is a 504 after the time-out when it hangs before or within its answer, and others are answered meanwhile", async () => {
    nova.misbehave = ({ url }, response) => {
      if (url === "/openstack/half") response.writeHead(200, { "content-length": 100 }).write("half");
      if (url === "/openstack/quick") response.writeHead(200).end("quick");
    };
    const slow = ["/openstack/hang", "/openstack/half"].map((path) => server.ask(path));
    expect((await server.ask("/openstack/quick")).text).toBe("quick");
    const answers = await Promise.all(slow);
    expect(answers.map(({ status }) => status)).toEqual([504, 504]);
    await until(() => nova.abandoned >= 2, "both connections ended");
  });

  test("is a 502, without any of its answer, when it cuts its answer off", async () => {
    nova.misbehave = ({ url }, response) => {
      response.writeHead(200, url === "/openstack/length" ? { "content-length": 100 } : {});
      response.write("the first half", () => response.socket?.destroy());
    };
    for (const path of ["/openstack/length", "/openstack/chunks"]) {
      const answer = await server.ask(path);
      expect([answer.status, answer.text]).toEqual([502, expect.not.stringContaining("half")]);
    }
  });

  test("is a 502 when it closes without an answer", async () => {
    nova.misbehave = (_, response) => response.socket?.destroy();
    expect((await server.ask("/openstack")).status).toBe(502);
  });

  test("is a 502, within bounded memory, when its answer has no end", async () => {
    nova.misbehave = (_, response) => {
      const more = () => {
        while (response.writable && response.write(Buffer.alloc(1 << 16))) {}
        response.once("drain", more);
      };
      more();
    };
    expect((await server.ask("/openstack")).status).toBe(502);
    const peakMB = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]) / 1_024;
    expect(peakMB).toBeLessThan(150);
  });

  test("is passed on whole with the largest allowed answer", async () => {
    const text = "x".repeat(1 << 20);
    nova.misbehave = (_, response) => response.end(text);
    expect((await server.ask("/openstack")).text).toBe(text);
  });

  test("is a 502 when it changes the protocol", async () => {
    nova.misbehave = (_, response) =>
      response.socket?.end("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    expect((await server.ask("/openstack")).status).toBe(502);
  });

  test("is a 502 when it is no HTTP server, and its bytes are in no log", async () => {
    const stranger: Server = createServer((socket: Socket) => socket.resume().end("220 mail.example ready\r\n"));
    await new Promise<void>((resolve) => stranger.listen(0, "127.0.0.1", resolve));
    const { port } = stranger.address() as { port: number };
    const other = await forwarding(`http://127.0.0.1:${port}`);
    expect((await other.ask("/openstack")).status).toBe(502);
    expect(other.log).not.toContain("mail.example");
    await other.stop();
    await new Promise((resolve) => stranger.close(resolve));
  });

  test("has its connections kept, and one that closes while idle fails no request", async () => {
    const before = nova.connections;
    for (let n = 0; n < 10; n++) expect((await server.ask("/openstack")).status).toBe(200);
    expect(nova.connections - before).toBeLessThanOrEqual(1);
    nova.misbehave = (_, response) => {
      // Answers, says that the connection stays, and ends it at once.
      response.writeHead(200, { "content-length": 2, connection: "keep-alive" });
      response.end("ok", () => response.socket?.destroy());
    };
    for (let n = 0; n < 30; n++) expect((await server.ask("/openstack")).status).toBe(200);
  });

  test("is never sent a password twice", async () => {
    nova.misbehave = (_, response) => response.socket?.destroy();
    const sent = await server.ask("/openstack/latest/password", { method: "POST", body: "x" });
    expect([sent.status, nova.requests.length]).toEqual([502, 1]);
  });

  test("has its connection closed when the guest leaves", async () => {
    nova.misbehave = () => {};
    const before = nova.abandoned;
    const guest = ask({ socketPath: server.socket }, "/openstack/hang").catch(() => null);
    await until(() => nova.requests.length === 1, "the request at the backend");
    const leaving = new AbortController();
    // A second guest on a connection of its own, which it ends.
    const sent = request({
      socketPath: server.socket,
      path: "/openstack/hang",
      headers: { "x-holdfast-network": "blue", "x-holdfast-subject": "container/10.10.0.5/net1" },
      signal: leaving.signal,
    });
    sent.on("error", () => {});
    sent.end();
    await until(() => nova.requests.length === 2, "the second request at the backend");
    leaving.abort();
    await until(() => nova.abandoned === before + 1, "the end of the second at the backend");
    expect((await guest)?.status).toBe(504);
    expect(server.log).not.toContain("a request failed");
  });

  test("has its outcomes counted", async () => {
    await server.ask("/openstack");
    const text = await (await fetch(`${server.metrics}/metrics`)).text();
    for (const outcome of ["passed", "late", "broken", "gone"]) {
      expect(text).toMatch(
        new RegExp(`holdfast_metadata_backend_requests_total\\{kind="nova",outcome="${outcome}"\\} \\d`),
      );
    }
    expect(text).toMatch(/holdfast_metadata_requests_total\{network="blue",tree="proxied",status="504"\} \d/);
  });
});

test("a stop answers the requests under way, and does not wait for a backend that hangs", async () => {
  const nova = await StandInNova.start();
  const server = await forwarding(nova.url, ["--backend-timeout-seconds", "70"]);
  nova.misbehave = ({ url }, response) => {
    if (url === "/openstack/slow") setTimeout(() => response.end("slow"), 300);
  };
  const agent = new Agent({ keepAlive: true });
  const slow = ask({ socketPath: server.socket, agent }, "/openstack/slow");
  const hanging = ask({ socketPath: server.socket }, "/openstack/hang").catch(() => "cut");
  await until(() => nova.requests.length === 2, "both at the backend");
  const ended = server.end();
  const { text, headers } = await slow;
  expect([text, headers.connection]).toEqual(["slow", "close"]);
  expect(await hanging).toBe("cut");
  expect(await ended).toBe(0);
  await server.stop();
  await nova.stop();
  agent.destroy();
});

describe("https", () => {
  let directory = "";
  beforeAll(() => {
    directory = newDirectory();
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  test("only the configured authority is trusted, and a replaced file counts", async () => {
    const certificate = (name: string) => {
      mkdirSync(join(directory, name));
      return makeCertificate(join(directory, name));
    };
    const [right, wrong] = [certificate("right"), certificate("wrong")];
    const nova = await StandInNova.start({ certificate: right });
    const url = `https://127.0.0.1:${nova.port}`;
    const unknown = await forwarding(url);
    expect((await unknown.ask("/openstack")).status).toBe(503);
    await until(() => unknown.log.includes("SELF_SIGNED"), "the reason");
    await unknown.stop();
    const file = join(directory, "ca.pem");
    writeFileSync(file, wrong.certificate);
    const server = await forwarding(url, ["--nova-ca-file", file]);
    expect((await server.ask("/openstack")).status).toBe(503);
    expect(nova.requests).toEqual([]);
    writeFileSync(file, right.certificate);
    await until(async () => (await server.ask("/openstack")).status === 200, "the right authority");
    const path = "/openstack/latest/password";
    expect((await server.ask(path, { method: "POST", body: "x" })).status).toBe(200);
    await server.stop();
    await nova.stop();
  });
});
