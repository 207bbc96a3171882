import { Buffer } from "node:buffer";
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import pino from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { IdentityView } from "../../identity/wire.ts";
import { BackendProxy } from "../../metadata/proxy/proxy.ts";
import { buildGuestServer } from "../../metadata/server/guest-server.ts";
import { originByConnection } from "../../metadata/server/read-request.ts";
import { ServerMetrics } from "../../metadata/server/server-metrics.ts";
import { NodeContents } from "../../metadata/tenant/node-content.ts";
import { StandaloneSource } from "../../metadata/tenant/standalone-source.ts";
import { QuietLog } from "../../platform/log.ts";
import { systemClock } from "../../platform/time.ts";
import { ask } from "../harness/metadata/server.ts";
import { identity } from "../metadata-server/fake-identity.ts";

let server: Server;
let proxy: BackendProxy;
let found: IdentityView;
beforeEach(async () => {
  found = identity();
  const errors = pino({ level: "silent" });
  const log = new QuietLog(errors, systemClock);
  proxy = new BackendProxy({ timeoutMs: 1_000, log, clock: systemClock, onOutcome: () => {} });
  const noPasswords = { read: () => null, keep: () => "kept" as const };
  server = buildGuestServer({
    identities: { find: async () => found, close: async () => {} },
    tenants: new StandaloneSource(
      noPasswords as unknown as ConstructorParameters<typeof StandaloneSource>[0],
      new NodeContents({ source: { contentOf: async () => null }, log, clock: systemClock }),
    ),
    proxy,
    defaultBackend: () => null,
    keys: () => [Buffer.alloc(32, 7)],
    origin: ({ socket }, lines) => originByConnection("blue", socket.remoteAddress, lines),
    metrics: new ServerMetrics(),
    log,
    errors,
    clock: systemClock,
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  server.close();
  await once(server, "close");
  proxy.close();
});

test("a forwarded request gets no token, however many headers precede the one that shows it", async () => {
  const { port } = server.address() as AddressInfo;
  const put = async (lines: readonly (readonly [string, string])[]) => {
    const ttl = ["X-aws-ec2-metadata-token-ttl-seconds", "60"] as const;
    const asked = { method: "PUT", lines: [ttl, ...lines] };
    return (await ask({ host: "127.0.0.1", port }, "/latest/api/token", asked)).status;
  };
  const many = Array.from({ length: 1_500 }, () => ["a", "b"] as const);
  expect(await put(many)).toBe(200);
  expect(await put([...many, ["X-Forwarded-For", "10.0.0.1"]])).toBe(403);
});

test("a network keeps requiring tokens while its definition is gone, until a definition says otherwise", async () => {
  const { port } = server.address() as AddressInfo;
  const status = async (tokens: "off" | "optional" | "required" | null) => {
    found = identity({}, { metadata: tokens && { address: "10.10.0.254", tokens } });
    return (await ask({ host: "127.0.0.1", port }, "/openstack")).status;
  };
  expect(await status(null)).toBe(200);
  expect(await status("required")).toBe(401);
  expect(await status(null)).toBe(401);
  expect(await status("optional")).toBe(200);
  expect(await status(null)).toBe(200);
});
