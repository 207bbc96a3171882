import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { signInstanceId } from "../../metadata/proxy/signature.ts";
import { until, untilSaid } from "../harness/wait.ts";
import { identity, otherVm, UUID } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";
import { StandInNova } from "./stand-in-nova.ts";

const SECRET = "S3cret-shared-by-both";
let nova: StandInNova;
let server: MetadataServer;
let secretFile: string;
beforeAll(async () => {
  nova = await StandInNova.start();
  server = await MetadataServer.start((directory) => {
    secretFile = join(directory, "secret");
    writeFileSync(secretFile, `${SECRET}\n`, { mode: 0o600 });
    return ["--nova-url", nova.url, "--secret-file", secretFile, "--backend-timeout-seconds", "5"];
  });
});
afterAll(async () => {
  await server?.stop();
  await nova?.stop();
});
beforeEach(() => {
  nova.misbehave = null;
  nova.requests.length = 0;
  server.identity.known.clear();
  server.identity.known.set("blue 10.10.0.5", identity());
});

describe("a request to Nova", () => {
  test("says who asks, signed, in headers that are all ours", async () => {
    const answer = await server.ask("/openstack/latest/meta_data.json?x=1&y=%2F", {
      lines: [
        ["User-Agent", "Cloud-Init/24.4"],
        ["X-aws-ec2-metadata-token", "abc"],
        ["Range", "bytes=0-1"],
        ["Accept-Encoding", "gzip"],
        ["Cookie", "a=b"],
      ],
    });
    expect([answer.status, answer.text]).toEqual([200, `GET /openstack/latest/meta_data.json?x=1&y=%2F for ${UUID}`]);
    const [{ rawHeaders } = { rawHeaders: [] }] = nova.requests;
    const names = rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
    expect(names.sort()).toEqual([
      "connection",
      "host",
      "x-forwarded-for",
      "x-instance-id",
      "x-instance-id-signature",
      "x-neutron-network-id",
      "x-ovn-network-id",
      "x-tenant-id",
    ]);
    expect(nova.sent("x-forwarded-for")).toEqual(["10.10.0.5"]);
    expect(nova.sent("x-tenant-id")).toEqual(["default"]);
    expect(nova.sent("x-neutron-network-id")).toEqual(["blue"]);
    expect(nova.sent("x-ovn-network-id")).toEqual(["blue"]);
    expect(nova.sent("x-instance-id-signature")).toEqual([signInstanceId(Buffer.from(SECRET), UUID)]);
    expect(nova.sent("host")).toEqual([`127.0.0.1:${nova.port}`]);
  });

  test("is answered with the body and type of Nova's answer", async () => {
    const { headers } = await server.ask("/openstack");
    expect(Object.keys(headers).sort()).toEqual(["connection", "content-length", "content-type", "date"]);
    expect(headers["content-type"]).toBe("text/plain; charset=UTF-8");
  });

  test("has the guest's body where a password is posted", async () => {
    const { status } = await server.ask("/openstack/latest/password", {
      method: "POST",
      body: "cipher text",
    });
    expect([status, nova.requests]).toMatchObject([200, [{ method: "POST", body: "cipher text" }]]);
    expect(nova.sent("content-length")).toEqual(["11"]);
  });

  test.each([
    ...["PUT", "DELETE", "OPTIONS", "PATCH"].map((method) => [method, "/openstack/latest/password"]),
    ...["POST", "PUT", "DELETE", "OPTIONS", "PATCH"].flatMap((method) => [
      [method, "/openstack/latest/meta_data.json"],
      [method, "/openstack/latest/password/more"],
      [method, "/latest/api/token"],
      [method, "/"],
    ]),
  ] as [string, string][])("is not sent for what does not read: %s %s", async (method, target) => {
    const { status, headers } = await server.ask(target, { method, body: "x" });
    expect([status, nova.requests]).toEqual([405, []]);
    expect(headers.allow).toMatch(/^GET, HEAD/);
  });

  test("never becomes two by its body", async () => {
    const body = "GET /openstack/smuggled HTTP/1.1\r\nHost: x\r\nX-Instance-ID: evil\r\n\r\n";
    const path = "/openstack/latest/password";
    for (const method of ["GET", "HEAD", "POST"]) {
      await server.ask(path, { method, body });
      await server.ask(path);
    }
    expect(nova.requests).toHaveLength(6);
    expect(nova.requests.every(({ url }) => url === path)).toBe(true);
  });

  test("is answered to HEAD with the length of the body", async () => {
    nova.misbehave = (_, response) => response.writeHead(200, { "content-length": 77 }).end();
    const { status, headers, text } = await server.ask("/openstack", { method: "HEAD" });
    expect([status, headers["content-length"], text]).toEqual([200, "77", ""]);
  });

  test("is never a TRACE, which would show the signature", async () => {
    expect((await server.ask("/openstack", { method: "TRACE" })).status).toBe(405);
    expect(nova.requests).toEqual([]);
  });

  test.each([
    ["//openstack//latest", "/openstack/latest"],
    ["/latest/meta-data/", "/latest/meta-data/"],
    ["/2009-04-04/meta-data/public-keys/0=my%20key@host/", "/2009-04-04/meta-data/public-keys/0=my%20key@host/"],
    ["/openstack/latest/x/../meta_data.json", "/openstack/latest/meta_data.json"],
    ["/v2/servers/../../latest", "/latest"],
    ["/openstack/%252e%252e/%252e%252e/v2", "/openstack/%252e%252e/%252e%252e/v2"],
    ["/openstack/a%20X-Tenant-ID:%20evil", "/openstack/a%20X-Tenant-ID:%20evil"],
    ["/openstack/..%5c..%5cv2", "/openstack/..%5C..%5Cv2"],
    ["http://evil.example:1/openstack", "/openstack"],
    ["HTTP://user:pw@evil.example?x", "/?x"],
    [`/openstack?${"x".repeat(4_000)}`, `/openstack?${"x".repeat(4_000)}`],
    ["/openstack?/../../v2", "/openstack?/../../v2"],
  ])("has the guest's path, resolved: %s", async (target, path) => {
    await server.ask(target);
    expect(nova.requests.map(({ url }) => url)).toEqual([path]);
  });

  test.each([
    ["/openstack/latest/../../v2/servers", 404],
    ["/openstack/latest/../../../v2/servers", 404],
    ["/openstack/%2e%2e/v2/servers", 404],
    ["/openstack/%2E%2E%2Fv2%2fservers", 404],
    ["/latest/.%2e/v2", 404],
    ["/latest/..%2fv2/../v2", 404],
    ["//v2/servers", 404],
    ["/v2.1/servers", 404],
    ["/latest-secret", 404],
    ["/openstack/%0d%0aX-Tenant-ID:%20evil", 400],
    ["/openstack/%00", 400],
    ["/openstack/%ff", 400],
  ])("is not sent for what is no path of Nova's metadata: %s", async (target, status) => {
    expect([await rawStatus(target), nova.requests]).toEqual([status, []]);
  });

  test.each([
    ["*", 400],
    ["/a\u00e9", 400],
    [`/${"x".repeat(9_000)}`, 414],
  ])("is not sent for what is no path: %s", async (target, status) => {
    const raw = await rawStatus(target);
    expect([raw, nova.requests]).toEqual([status, []]);
  });
});

describe("identity headers of a guest", () => {
  const NAMES = [
    "X-Instance-ID",
    "X-Instance-ID-Signature",
    "X-Tenant-ID",
    "X-Forwarded-For",
    "X-Metadata-Provider",
    "X-Metadata-Provider-Signature",
    "X-Neutron-Network-ID",
    "X-Neutron-Router-ID",
    "X-OVN-Network-ID",
    "X-Project-ID",
    "X-Real-IP",
    "Forwarded",
    "X-Holdfast-Instance",
  ];
  const SPELLINGS: readonly ((name: string) => string)[] = [
    (name) => name,
    (name) => name.toUpperCase(),
    (name) => name.toLowerCase(),
    (name) => name.replaceAll("-", "_"),
    (name) => name.replace("-", "_"),
    (name) => name.replaceAll("-", "."),
  ];

  test.each(NAMES)("%s, in every spelling, once and repeated, does not reach Nova", async (name) => {
    for (const spell of SPELLINGS) {
      const lines = [
        [spell(name), "evil"],
        [spell(name), "evil2"],
      ] as const;
      const { status } = await server.ask("/openstack", { lines });
      expect(status, spell(name)).toBe(200);
      expect(nova.requests.at(-1)?.rawHeaders.join("\n"), spell(name)).not.toContain("evil");
    }
  });

  test("cannot remove our headers by naming them in Connection", async () => {
    await server.ask("/openstack", { lines: [["Connection", "close, X-Instance-ID, X-Tenant-ID"]] });
    expect(nova.sent("x-instance-id")).toEqual([UUID]);
    expect(nova.sent("x-tenant-id")).toEqual(["default"]);
  });
});

describe("a status of Nova's", () => {
  test.each([400, 403, 404, 409, 500, 502, 503, 504])("%i is passed on in our words", async (status) => {
    nova.misbehave = (_, response) => response.writeHead(status).end("its own words");
    const answer = await server.ask("/openstack");
    expect([answer.status, answer.text]).toEqual([status, expect.not.stringContaining("its own words")]);
  });

  test.each([201, 204, 206, 301, 302, 401, 405, 418, 429])(
    "%i is a 502, because the set-up is wrong",
    async (status) => {
      nova.misbehave = (_, response) =>
        response.writeHead(status, { location: "http://169.254.169.254/elsewhere" }).end();
      const answer = await server.ask("/openstack");
      expect([answer.status, answer.headers.location]).toEqual([502, undefined]);
      expect(nova.requests).toHaveLength(1);
    },
  );
});

describe("an unknown guest", () => {
  test("gets a 404, and Nova is not asked, not even for the version list", async () => {
    for (const target of ["/", "/openstack", "/latest/meta-data/"]) {
      expect((await server.ask(target, { source: "10.10.0.66" })).status).toBe(404);
    }
    expect(nova.requests).toEqual([]);
  });

  test("is not asked about at Nova when several match or the daemon is away", async () => {
    server.identity.fault = { status: 409, code: "ADDRESS_AMBIGUOUS" };
    expect((await server.ask("/openstack")).status).toBe(404);
    server.identity.fault = { status: 503, code: "NOT_READY" };
    expect((await server.ask("/openstack")).status).toBe(503);
    server.identity.fault = null;
    expect(nova.requests).toEqual([]);
  });

  test("is never mistaken for the former VM at its address", async () => {
    for (let turn = 0; turn < 20; turn++) {
      const uuid = `99999999-9999-4999-8999-${String(turn).padStart(12, "0")}`;
      server.identity.known.set("blue 10.10.0.5", otherVm(uuid));
      expect((await server.ask("/openstack")).text).toContain(uuid);
    }
  });
});

describe("the secret", () => {
  test("is read again when its file changes, and an unusable file changes nothing", async () => {
    const works = async (secret: string) => {
      await server.ask("/openstack");
      return nova.sent("x-instance-id-signature")[0] === signInstanceId(Buffer.from(secret), UUID);
    };
    writeFileSync(secretFile, "the next one\r\n");
    await until(() => works("the next one"), "the new secret");
    writeFileSync(secretFile, "\n");
    await until(() => server.log.includes("the file is empty"), "the complaint");
    expect(await works("the next one")).toBe(true);
    writeFileSync(secretFile, SECRET);
    await until(() => works(SECRET), "the old secret");
    expect(server.log).not.toContain(SECRET);
    expect(server.log).not.toContain("the next one");
  });

  test("is warned of when anybody may read its file", async () => {
    const second = await MetadataServer.start((directory) => {
      writeFileSync(join(directory, "secret"), SECRET, { mode: 0o644 });
      return ["--nova-url", nova.url, "--secret-file", join(directory, "secret")];
    });
    await untilSaid(() => second.log, "anybody on this machine may read the file of --secret-file");
    await second.stop();
  });

  test("is on no command line and in no environment", () => {
    for (const file of ["cmdline", "environ"]) {
      expect(readFileSync(`/proc/${server.pid}/${file}`, "utf8")).not.toContain(SECRET);
    }
  });
});

/** The status of a request line with any bytes in it. */
function rawStatus(target: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(server.socket);
    socket.on("data", (chunk) => {
      resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(chunk.toString())?.[1]));
      socket.destroy();
    });
    socket.on("error", reject);
    const head = `GET ${target} HTTP/1.1\r\nHost: x\r\nX-Holdfast-Network: blue\r\nX-Holdfast-Subject: container/10.10.0.5/net1\r\n\r\n`;
    socket.write(Buffer.from(head, "latin1"));
  });
}
