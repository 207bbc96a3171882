import { createServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import { parseHostPort } from "../../platform/host-port.ts";
import { network, TestDaemon } from "../harness/daemon.ts";
import { freePorts } from "../harness/kube-process.ts";
import { until } from "../harness/wait.ts";

let daemon: TestDaemon;
afterEach(() => daemon?.stop());

test("metrics and health are served by TCP, and nothing else is", async () => {
  const [port] = await freePorts(1);
  const address = `127.0.0.1:${port}`;
  daemon = await TestDaemon.start({ args: ["--metrics-address", address] });
  await daemon.cni("ADD", "web", { config: network("blue") });
  const metrics = await fetch(`http://${address}/metrics`);
  expect(metrics.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
  const text = await metrics.text();
  expect(text).toMatch(/^holdfast_ready 1$/m);
  expect(text).toMatch(/^process_resident_memory_bytes \d/m);
  expect((await fetch(`http://${address}/readyz`)).status).toBe(200);
  for (const path of ["/v1/networks", "/v1/allocations", "/v1/identity?address=10.10.0.1"]) {
    expect((await fetch(`http://${address}${path}`)).status, path).toBe(404);
  }
  for (const path of ["/cni", "/v1/release"]) {
    expect((await fetch(`http://${address}${path}`, { method: "POST", body: "{}" })).status, path).toBe(404);
  }
});

test("a metrics port that is in use does not stop ADDs, and is served once it is free", async () => {
  const [port] = await freePorts(1);
  const other = createServer();
  await new Promise<void>((done) => other.listen(port, "127.0.0.1", done));
  daemon = await TestDaemon.start({ env: { HOLDFAST_METRICS_ADDRESS: `127.0.0.1:${port}` } });
  expect(await daemon.cni("ADD", "web", { config: network("blue") })).toMatchObject({ code: 0 });
  await until(() => daemon.log.includes("metrics cannot be served at 127.0.0.1"), "the line in the log");
  expect(await daemon.cli("check")).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^metrics: metrics cannot be served at 127.*\n {4}fix: Set metricsAddress to /),
  });
  await new Promise((done) => other.close(done));
  const answers = async () => (await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => null))?.status === 200;
  await until(answers, "the metrics");
  expect(await daemon.cli("check")).toMatchObject({ code: 0 });
});

test.each([
  ["127.0.0.1:9807", "127.0.0.1", 9807],
  [":9807", "", 9807],
  ["[fd00::5]:9807", "fd00::5", 9807],
  ["fd00::5:9807", "fd00::5", 9807],
])("%s is host %s, port %i", (text, host, port) => {
  expect(parseHostPort(text)).toEqual({ host, port });
});
