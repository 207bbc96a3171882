import { rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { IdentityClient } from "../../identity/client.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { BackendProxy } from "../../metadata/proxy/proxy.ts";
import { signInstanceId } from "../../metadata/proxy/signature.ts";
import { buildGuestServer } from "../../metadata/server/guest-server.ts";
import { originByListener } from "../../metadata/server/read-request.ts";
import { ServerMetrics } from "../../metadata/server/server-metrics.ts";
import { NodeContents } from "../../metadata/tenant/node-content.ts";
import { Passwords } from "../../metadata/tenant/passwords.ts";
import { StandaloneSource } from "../../metadata/tenant/standalone-source.ts";
import type { Backend } from "../../metadata/tenant/tenant-source.ts";
import { QuietLog } from "../../platform/log.ts";
import { systemClock } from "../../platform/time.ts";
import { newDirectory } from "../harness/daemon.ts";
import { type Asked, ask } from "../harness/metadata/server.ts";
import { FakeIdentity, identity, UUID } from "./fake-identity.ts";

/** A pod of the tenant: says its name, and keeps what it was asked. */
class Pod {
  readonly #server: Server;
  readonly asked: IncomingMessage[] = [];
  readonly bodies: string[] = [];
  answer: ((request: IncomingMessage, response: ServerResponse) => void) | null = null;

  private constructor(name: string) {
    this.#server = createServer((request, response) => {
      this.asked.push(request);
      let body = "";
      request.on("data", (chunk) => {
        body += chunk;
      });
      request.on("end", () => {
        this.bodies.push(body);
        if (this.answer) this.answer(request, response);
        else response.end(name);
      });
    });
  }

  static async start(name: string): Promise<Pod> {
    const pod = new Pod(name);
    await new Promise<void>((resolve) => pod.#server.listen(0, "127.0.0.1", resolve));
    return pod;
  }

  get endpoint(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  header(name: string): readonly string[] {
    return this.asked.at(-1)?.headersDistinct[name] ?? [];
  }

  async stop(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }
}

let directory: string;
let known: FakeIdentity;
let server: Server;
let proxy: BackendProxy;
let client: IdentityClient;
let pods: Pod[];
let backend: Extract<Backend, { kind: "service" }>;
let apiAway = false;
const log: string[] = [];
const SECRET = Buffer.from("between the service and us");

beforeAll(async () => {
  directory = newDirectory();
  known = await FakeIdentity.start(join(directory, "identity.sock"));
  const errors = pino({ level: "info" }, { write: (line: string) => void log.push(line) });
  const quiet = new QuietLog(errors, systemClock);
  proxy = new BackendProxy({ timeoutMs: 1_000, log: quiet, clock: systemClock, onOutcome: () => {} });
  client = new IdentityClient(join(directory, "identity.sock"), systemClock);
  const contents = new NodeContents({ source: client, log: quiet, clock: systemClock });
  const tenants = new StandaloneSource(new Passwords(directory, systemClock), contents);
  tenants.backendOf = async () => {
    if (apiAway) throw new ApiAway("not known yet");
    return backend;
  };
  server = buildGuestServer({
    identities: client,
    tenants,
    proxy,
    defaultBackend: () => ({ kind: "nova", url: "http://127.0.0.1:9", secret: Buffer.alloc(0), ca: null }),
    keys: () => [],
    origin: (_, lines) => originByListener(lines),
    metrics: new ServerMetrics(),
    log: quiet,
    errors,
    clock: systemClock,
  });
  await new Promise<void>((resolve) => server.listen(join(directory, "m.sock"), resolve));
});
afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  proxy.close();
  await client.close();
  await known.stop();
  rmSync(directory, { recursive: true, force: true });
});
beforeEach(async () => {
  for (const pod of pods ?? []) await pod.stop();
  pods = await Promise.all(["a", "b", "c"].map((name) => Pod.start(name)));
  const endpoints = pods.map(({ endpoint }) => endpoint);
  backend = { kind: "service", service: "shop/metadata", endpoints, secret: SECRET };
  known.known.set("blue 10.10.0.5", identity());
  apiAway = false;
});
afterAll(async () => {
  for (const pod of pods) await pod.stop();
});

const guest = (target: string, asked: Asked = {}) => ask({ socketPath: join(directory, "m.sock") }, target, asked);
const only = (pod: Pod | undefined) => {
  backend = { ...backend, endpoints: [pod?.endpoint ?? ""] };
  return pod as Pod;
};

describe("a request to a Service", () => {
  test("has the guest's headers, and who asks in ours", async () => {
    const pod = only(pods[0]);
    await guest("/v1/token?x=1", {
      method: "POST",
      body: "{}",
      lines: [
        ["Content-Type", "application/json"],
        ["X-Vault-Token", "abc"],
        ["Accept", "a"],
        ["Accept", "b"],
        ["If-None-Match", '"1"'],
        ["X-Forwarded-For", "6.6.6.6"],
        ["X_Instance_ID", "evil"],
        ["x-tenant-id", "evil"],
        ["X-Holdfast-Client-Forwarded", "1"],
        ["X-HTTP-Method-Override", "DELETE"],
        ["Connection", "X-Instance-ID"],
      ],
    });
    const [request] = pod.asked;
    expect([request?.method, request?.url, pod.bodies]).toEqual(["POST", "/v1/token?x=1", ["{}"]]);
    expect(request?.headersDistinct).toEqual({
      accept: ["a", "b"],
      connection: ["close"],
      "content-length": ["2"],
      "content-type": ["application/json"],
      host: ["169.254.169.254"],
      "x-forwarded-for": ["10.10.0.5"],
      "x-holdfast-network": ["blue"],
      "x-instance-id": [UUID],
      "x-instance-id-signature": [signInstanceId(SECRET, UUID)],
      "x-neutron-network-id": ["blue"],
      "x-ovn-network-id": ["blue"],
      "x-tenant-id": ["default"],
      "x-vault-token": ["abc"],
    });
  });

  test("is unsigned without a secret", async () => {
    const pod = only(pods[0]);
    backend = { ...backend, secret: null };
    await guest("/");
    expect(pod.header("x-instance-id-signature")).toEqual([]);
    expect(pod.header("x-instance-id")).toEqual([UUID]);
  });

  test("is not sent for an unknown guest, who gets a 404", async () => {
    const pod = only(pods[0]);
    expect((await guest("/", { source: "10.10.0.66" })).status).toBe(404);
    expect(pod.asked).toEqual([]);
  });
});

describe("the answer of a Service", () => {
  test.each([200, 201, 206, 400, 401, 404, 418, 429, 500, 503])(
    "with status %i is passed on, with headers and body",
    async (status) => {
      only(pods[0]).answer = (_, response) => {
        response.writeHead(status, {
          "content-type": "text/x",
          "set-cookie": ["a=1", "b=2"],
          etag: '"1"',
          "keep-alive": "timeout=99",
          "retry-after": "7",
        });
        response.end("its own words");
      };
      const { headers, text, status: got } = await guest("/");
      expect([got, text]).toEqual([status, "its own words"]);
      expect(headers).toMatchObject({
        "content-type": "text/x",
        "set-cookie": ["a=1", "b=2"],
        etag: '"1"',
        "retry-after": "7",
      });
      expect(headers["keep-alive"]).toBeUndefined();
    },
  );

  test("with status 204 has neither body nor length", async () => {
    only(pods[0]).answer = (_, response) => response.writeHead(204).end();
    const { headers, status } = await guest("/");
    expect([status, headers["content-length"]]).toEqual([204, undefined]);
  });

  test("with a redirection becomes a 502, because the guest cannot follow it", async () => {
    only(pods[0]).answer = (_, response) => response.writeHead(302, { location: "http://10.244.0.1/" }).end();
    const { headers, status } = await guest("/");
    expect([status, headers.location]).toEqual([502, undefined]);
  });

  test("may have a header called __proto__", async () => {
    only(pods[0]).answer = (_, response) => {
      response.socket?.end("HTTP/1.1 200 OK\r\n__proto__: x\r\nContent-Length: 2\r\n\r\nok");
    };
    expect((await guest("/", { lines: [["__proto__", "y"]] })).text).toBe("ok");
  });
});

describe("endpoints", () => {
  test("take turns", async () => {
    const answers: string[] = [];
    for (let n = 0; n < 6; n++) answers.push((await guest("/")).text);
    expect(answers.slice(0, 3).toSorted()).toEqual(["a", "b", "c"]);
    expect(answers.slice(3)).toEqual(answers.slice(0, 3));
  });

  test("that refuse the connection are skipped for every method, because nothing was sent", async () => {
    await pods[1]?.stop();
    for (const method of ["GET", "POST", "PUT"]) {
      for (let n = 0; n < 3; n++) expect((await guest("/", { method, body: "x" })).status).toBe(200);
    }
    expect([...(pods[0]?.bodies ?? []), ...(pods[2]?.bodies ?? [])]).toHaveLength(9);
  });

  test("that close the connection after the request are not skipped, because another would repeat it", async () => {
    for (const pod of pods) pod.answer = (_, response) => response.socket?.destroy();
    expect((await guest("/", { method: "POST", body: "x" })).status).toBe(502);
    expect(pods.flatMap(({ bodies }) => bodies)).toHaveLength(1);
  });

  test("are a 503 when there is none, even beside a Nova", async () => {
    for (const pod of pods) await pod.stop();
    expect((await guest("/")).status).toBe(503);
    backend = { ...backend, endpoints: [] };
    expect((await guest("/")).status).toBe(503);
    expect(log.join("")).toContain("no ready endpoint on this node");
  });

  test("that hang are a 504 after one time-out", async () => {
    for (const pod of pods) pod.answer = () => {};
    expect((await guest("/")).status).toBe(504);
  });

  test("are a 503 with Retry-After while they are not known yet", async () => {
    apiAway = true;
    const { status, headers } = await guest("/");
    expect([status, headers["retry-after"]]).toEqual([503, "1"]);
  });
});

test("the secret is in no log", () => {
  expect(log.join("")).not.toContain(SECRET.toString());
  expect(log.join("")).not.toContain(signInstanceId(SECRET, UUID));
});
