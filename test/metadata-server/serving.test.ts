import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { identity, otherVm, UUID } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";

let server: MetadataServer;
beforeAll(async () => {
  server = await MetadataServer.start();
});
afterAll(() => server?.stop());
beforeEach(() => {
  server.identity.fault = null;
  server.identity.known.clear();
  server.identity.known.set("blue 10.10.0.5", identity());
});

describe("a guest's request", () => {
  test.each([
    ["/", "latest"],
    ["/openstack", "2018-08-27"],
    ["/openstack/latest", "meta_data.json"],
    ["/openstack/latest/meta_data.json", `"uuid":"${UUID}"`],
    ["/openstack/latest/network_data.json", '"ip_address":"10.10.0.5"'],
    ["/openstack/latest/vendor_data.json", "{}"],
    ["/latest/meta-data/local-ipv4", "10.10.0.5"],
    ["/latest/meta-data/instance-id", `i-${UUID.replaceAll("-", "")}`],
    ["/nocloud/meta-data", UUID],
    ["/nocloud/network-config", "52:54:00:de:5b:bf"],
    ["http://evil.example/openstack/latest/meta_data.json", UUID],
    ["//openstack/../openstack//latest/meta_data.json", UUID],
  ])("%s", async (target, part) => {
    const { status, text } = await server.ask(target);
    expect([status, text]).toEqual([200, expect.stringContaining(part)]);
  });

  test("with HEAD has the headers of GET and no body", async () => {
    const path = "/openstack/latest/network_data.json";
    const [got, head] = await Promise.all([server.ask(path), server.ask(path, { method: "HEAD" })]);
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers["content-length"]).toBe(got.headers["content-length"]);
    expect(head.headers["content-type"]).toBe(got.headers["content-type"]);
  });

  test("for an unknown path is a 404", async () => {
    expect((await server.ask("/openstack/1999-01-01")).status).toBe(404);
    expect((await server.ask("/openstack/latest/user_data")).status).toBe(404);
    expect((await server.ask("/openstack", { method: "DELETE" })).status).toBe(405);
  });

  test("is answered without keep-alive times or the server's name", async () => {
    const { headers } = await server.ask("/");
    expect(Object.keys(headers).sort()).toEqual(["connection", "content-length", "content-type", "date"]);
  });
});

describe("the asking guest", () => {
  test("is who the listener says, whatever path, host or headers it sends", async () => {
    server.identity.known.set("red 10.10.0.5", otherVm("99999999-9999-4999-8999-999999999999"));
    const lines = [
      ["X-Forwarded-For", "10.10.0.9"],
      ["X-Instance-ID", "00000000-0000-4000-8000-000000000000"],
    ] as const;
    const blue = await server.ask("/openstack/latest/meta_data.json", { lines });
    const red = await server.ask("/openstack/latest/meta_data.json", { lines, network: "red" });
    expect([blue.json().uuid, red.json().uuid]).toEqual([UUID, "99999999-9999-4999-8999-999999999999"]);
  });

  test("gets a 404 for everything but the list of versions when it is unknown", async () => {
    for (const target of ["/openstack", "/latest/meta-data/", "/nocloud/meta-data", "/latest/api/token"]) {
      expect((await server.ask(target, { source: "10.10.0.99" })).status, target).toBe(404);
    }
    expect((await server.ask("/", { source: "10.10.0.99" })).text).toContain("2009-04-04");
  });

  test.each(["stopped", "released-recently"] as const)("is not a VM that is %s", async (state) => {
    server.identity.known.set("blue 10.10.0.5", identity({ state }));
    expect((await server.ask("/openstack")).status).toBe(404);
    server.identity.known.set("blue 10.10.0.5", identity({ state: "migrating" }));
    expect((await server.ask("/openstack")).status).toBe(200);
  });

  test("gets nothing when several match", async () => {
    server.identity.fault = { status: 409, code: "ADDRESS_AMBIGUOUS" };
    expect((await server.ask("/openstack")).status).toBe(404);
  });

  test("is the new VM at the next request after its address has changed the owner", async () => {
    for (let turn = 0; turn < 50; turn++) {
      const uuid = `99999999-9999-4999-8999-${String(turn).padStart(12, "0")}`;
      server.identity.known.set("blue 10.10.0.5", otherVm(uuid));
      expect((await server.ask("/openstack/latest/meta_data.json")).json().uuid).toBe(uuid);
    }
    server.identity.known.clear();
    expect((await server.ask("/openstack/latest/meta_data.json")).status).toBe(404);
  });

  test.each([
    ["no network", { network: null }],
    ["no subject", { subject: null }],
    ["an empty network", { network: "" }],
    ["two networks", { lines: [["X-Holdfast-Network", "red"]] }],
    ["two sources", { lines: [["x-holdfast-source", "10.10.0.5"]] }],
    ["a source that is none", { source: "10.10.0" }],
    ["a source in another spelling", { source: "010.10.0.5" }],
  ] as const)("is refused with %s, and the daemon is not asked", async (_, asked) => {
    const before = server.identity.asked.length;
    const { status } = await server.ask("/", asked);
    expect([status, server.identity.asked.length]).toEqual([400, before]);
  });
});

describe("while the daemon is away", () => {
  test.each([
    [503, "NOT_READY"],
    [500, "INTERNAL_ERROR"],
    [400, "REQUEST_INVALID"],
  ])("or answers %s %s, the guest is told to retry", async (status, code) => {
    server.identity.fault = { status, code };
    const answer = await server.ask("/openstack");
    expect([answer.status, answer.headers["retry-after"]]).toEqual([503, "1"]);
    expect(answer.text).toBe("The metadata server is temporarily unavailable. Please try again later.\n");
  });

  test("requests fail, and none after it is back", async () => {
    expect((await server.ask("/openstack")).status).toBe(200);
    await server.identity.stop();
    expect((await server.ask("/openstack")).status).toBe(503);
    await server.identity.listen();
    for (let n = 0; n < 5; n++) expect((await server.ask("/openstack")).status).toBe(200);
  });

  test("between two requests, and back on a new process, no request fails", async () => {
    await Promise.all(Array.from({ length: 20 }, () => server.ask("/openstack")));
    await server.identity.stop();
    await server.identity.listen();
    const answers = await Promise.all(Array.from({ length: 40 }, () => server.ask("/openstack")));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });
});

describe("the body of a request", () => {
  test("is refused beyond 64 KiB, with or without a length", async () => {
    const body = Buffer.alloc((64 << 10) + 1, "a");
    expect((await server.ask("/openstack/latest/password", { method: "POST", body })).status).toBe(413);
    const raw = await rawRequest(
      `POST /openstack/latest/password HTTP/1.1\r\nHost: x\r\nX-Holdfast-Network: blue\r\nX-Holdfast-Subject: container/10.10.0.5/net1\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n${"a".repeat(0x10001)}\r\n0\r\n\r\n`,
    );
    expect(raw).toMatch(/^HTTP\/1\.1 413 /);
  });

  test("may end in the middle without harm to others", async () => {
    const socket = connect(server.socket);
    socket.write(
      "POST /openstack/latest/password HTTP/1.1\r\nHost: x\r\nX-Holdfast-Network: blue\r\nX-Holdfast-Subject: container/10.10.0.5/net1\r\nContent-Length: 10\r\n\r\nabc",
    );
    await pause(50);
    socket.destroy();
    expect((await server.ask("/openstack")).status).toBe(200);
    expect(server.log).not.toContain("a request failed");
  });

  test.each([
    ["both lengths", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"],
    ["two lengths", "Content-Length: 4\r\nContent-Length: 5\r\n"],
    ["a length that is none", "Content-Length: +4\r\n"],
    ["a folded header", "X-A: b\r\n c\r\n"],
    ["a space before the colon", "X-A : b\r\n"],
  ])("is refused with %s", async (_, header) => {
    const raw = await rawRequest(
      `POST / HTTP/1.1\r\nHost: x\r\nX-Holdfast-Network: blue\r\nX-Holdfast-Subject: container/10.10.0.5/net1\r\n${header}\r\n0\r\n\r\n`,
    );
    expect(raw).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(raw.split("HTTP/1.1 ")).toHaveLength(2);
  });
});

describe("metrics and health", () => {
  test("count requests and look-ups, and report readiness", async () => {
    await server.ask("/openstack/latest/meta_data.json");
    await server.ask("/latest/api/token", {
      method: "PUT",
      lines: [["X-aws-ec2-metadata-token-ttl-seconds", "60"]],
    });
    const text = await (await fetch(`${server.metrics}/metrics`)).text();
    expect(text).toMatch(/holdfast_metadata_requests_total\{network="blue",tree="openstack",status="200"\} \d/);
    expect(text).toMatch(/holdfast_metadata_requests_total\{network="blue",tree="token",status="200"\} 1/);
    expect(text).toMatch(/holdfast_metadata_identity_lookups_total\{outcome="found"\} \d/);
    expect(text).toContain("holdfast_metadata_request_seconds_bucket");
    expect((await fetch(`${server.metrics}/healthz`)).status).toBe(200);
    expect((await fetch(`${server.metrics}/readyz`)).status).toBe(200);
    await server.identity.stop();
    const away = await fetch(`${server.metrics}/readyz`);
    expect([away.status, await away.text()]).toEqual([503, expect.stringContaining("identity.sock")]);
    await server.identity.listen();
    await until(async () => (await fetch(`${server.metrics}/readyz`)).status === 200, "readiness");
  });

  test("show that 1,000 VMs do not make the process larger", async () => {
    const rss = () => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]) / 1_024;
    for (let n = 0; n < 1_000; n++) {
      const uuid = `99999999-9999-4999-8999-${String(n).padStart(12, "0")}`;
      server.identity.known.set(`blue 10.20.${n >> 8}.${n & 255}`, otherVm(uuid, `vm${n}`));
    }
    for (let from = 0; from < 1_000; from += 50) {
      await Promise.all(
        Array.from({ length: 50 }, (_, n) =>
          server.ask("/openstack/latest/meta_data.json", {
            source: `10.20.${(from + n) >> 8}.${(from + n) & 255}`,
          }),
        ),
      );
    }
    console.log(`memory after 1,000 VMs: ${Math.round(rss())} MB`);
    expect(rss()).toBeLessThanOrEqual(100);
  });
});

/** Bytes as they are, to the end of the connection or a moment of silence. */
function rawRequest(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(server.socket);
    let got = "";
    socket.setTimeout(2_000, () => socket.destroy());
    socket.on("data", (chunk) => {
      got += chunk;
      socket.setTimeout(200);
    });
    socket.on("close", () => resolve(got));
    socket.on("error", (error: NodeJS.ErrnoException) => (got === "" ? reject(error) : resolve(got)));
    socket.write(text);
  });
}
