import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import pino from "pino";
import { afterEach, expect, test } from "vitest";
import { HealthServer, type HealthServerOptions } from "../../platform/health-server.ts";
import { systemClock } from "../../platform/time.ts";

const LOCALHOST = { host: "127.0.0.1", port: 0 };
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

function healthServer(options: Partial<HealthServerOptions> = {}): HealthServer {
  const server = new HealthServer({
    address: LOCALHOST,
    metrics: { text: async () => ({ contentType: "text/plain; version=0.0.4", body: "up 1\n" }) },
    notReady: () => null,
    log: pino({ level: "silent" }),
    clock: systemClock,
    ...options,
  });
  closing.push(() => server.close());
  return server;
}

async function ask(server: HealthServer, path: string, method = "GET") {
  const answer = await fetch(`http://127.0.0.1:${server.address?.port}${path}`, { method });
  return [answer.status, await answer.text()];
}

async function taken(): Promise<{ port: number; server: Server }> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(LOCALHOST, resolve));
  closing.push(async () => server.close());
  return { port: (server.address() as AddressInfo).port, server };
}

test("three paths are served, and nothing else", async () => {
  const server = healthServer();
  await server.start();
  expect(await ask(server, "/healthz")).toEqual([200, "ok\n"]);
  expect(await ask(server, "/readyz")).toEqual([200, "ready\n"]);
  expect(await ask(server, "/metrics?name=up")).toEqual([200, "up 1\n"]);
  expect(await ask(server, "/metrics", "HEAD")).toEqual([200, ""]);
  expect(await ask(server, "/metrics", "POST")).toEqual([405, "only GET\n"]);
  expect(await ask(server, "/v1/networks")).toEqual([404, "there are /healthz, /readyz and /metrics\n"]);
});

test.each([
  ["at once", () => "it is starting"],
  ["later", async () => "it is starting"],
])("a process that is not ready says why, %s", async (_when, notReady) => {
  const server = healthServer({ notReady });
  await server.start();
  expect(await ask(server, "/readyz")).toEqual([503, "it is starting\n"]);
  expect(await ask(server, "/healthz")).toEqual([200, "ok\n"]);
});

test("metrics that cannot be collected are answered with an error", async () => {
  const server = healthServer({
    metrics: {
      text: async () => {
        throw new Error("no counters");
      },
    },
  });
  await server.start();
  expect(await ask(server, "/metrics")).toEqual([500, "no counters\n"]);
});

test('with "off" nothing listens', async () => {
  const server = healthServer({ address: null });
  await server.start();
  expect(server.address).toBeNull();
});

test("an address that is in use is an error", async () => {
  const { port } = await taken();
  await expect(healthServer({ address: { ...LOCALHOST, port } }).start()).rejects.toThrow("EADDRINUSE");
});

test("a process that keeps trying starts while the address is in use, and says so", async () => {
  const { port } = await taken();
  const server = healthServer({ address: { ...LOCALHOST, port }, keepsTrying: true });
  await server.start();
  expect(server.findings()).toEqual([
    {
      invariant: "metrics",
      message: expect.stringContaining(`metrics cannot be served at 127.0.0.1:${port}: `),
      hint: expect.stringContaining("Set metricsAddress"),
    },
  ]);
});
