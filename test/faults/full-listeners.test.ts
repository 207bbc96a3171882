import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { DESCRIPTORS_KEPT } from "../../platform/listeners/bounded-server.ts";
import { LISTENERS, type ListenerName } from "../../platform/listeners/listeners.ts";
import { ConnectionLoad } from "../harness/connection-load.ts";
import { network, TestDaemon } from "../harness/daemon.ts";
import { freePorts } from "../harness/kube-process.ts";
import { ListenerProcess } from "../harness/listener-process.ts";
import { metadataNet, removeLeft } from "../harness/metadata/parts.ts";
import { TestMetadataServer } from "../harness/metadata/server.ts";
import { ProductProcess } from "../harness/product-process.ts";
import { World } from "../harness/world/world.ts";
import { whyNotReal } from "../network/containers.ts";
import { peakBytes, question, shipped, type Where } from "./shipped.ts";

const CONNECTIONS = 2_000;
const QUESTIONS = 50;
const ADDS = 50;
const ending: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

async function load(where: Where, kind: "idle" | "slow"): Promise<void> {
  const options = "port" in where ? where : { path: where.socketPath };
  const started = await ConnectionLoad.start({ where: options, kind, count: CONNECTIONS });
  ending.push(() => started.stop());
}

/** What each of the questions, one after another on connections of their own, is answered: a status, or an error. */
async function ask(where: Where, paths: readonly string[]): Promise<readonly (number | string | undefined)[]> {
  const answers = [];
  for (let index = 0; index < QUESTIONS; index += 1)
    answers.push(await question(where, paths[index % paths.length] as string));
  return answers;
}

const NAMES = (Object.keys(LISTENERS) as (keyof typeof LISTENERS)[]).filter((name) => name !== "haproxy");
const ALL_ANSWERED = Array.from({ length: QUESTIONS }, () => 200);

describe.each(NAMES)("the server of %s", (name: ListenerName) => {
  test.each(["idle", "slow"] as const)("answers whoever asks beside 2,000 %s connections", async (kind) => {
    const server = await ListenerProcess.start(name);
    ending.push(() => server.stop());
    const where = { port: server.port, host: "127.0.0.1" };
    await load(where, kind);
    expect(await ask(where, ["/"])).toEqual(ALL_ANSWERED);
    const open = readdirSync(`/proc/${server.pid}/fd`).length;
    // One more while it is accepted.
    expect(open).toBeLessThan(LISTENERS[name].connectionsMax + DESCRIPTORS_KEPT);
  });
});

test.each(["metrics", "s.sock", "readonly.sock", "identity.sock"])(
  "a daemon with 1,024 descriptors serves probes, scrapes and ADDs beside 2,000 connections to %s",
  async (listener) => {
    const [port = 0] = await freePorts(1);
    const daemon = await TestDaemon.start({
      args: ["--metrics-address", `127.0.0.1:${port}`, "--read-group", String(process.getgid?.())],
      wrapper: ["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"],
    });
    ending.push(() => daemon.stop());
    const metrics = { port, host: "127.0.0.1" };
    await load(listener === "metrics" ? metrics : { socketPath: join(daemon.directory, listener) }, "slow");
    expect(await ask(metrics, ["/readyz", "/metrics"])).toEqual(ALL_ANSWERED);
    for (let index = 0; index < ADDS; index += 1)
      expect(await daemon.cni("ADD", `c${index}`, { config: network("blue") })).toMatchObject({ code: 0 });
    expect(daemon.log).not.toContain("EMFILE");
    expect(await daemon.cli("check")).toMatchObject({ code: 0 });
  },
);

interface Attacked {
  readonly pid: number | undefined;
  readonly listener: Where;
  /** Where its probes and scrapes come to. */
  readonly health: Where;
  readonly paths?: readonly string[];
  readonly memoryBytes: number;
}

const HEALTH = ["/healthz", "/metrics"];

async function daemon(listener: string): Promise<Attacked> {
  const { within, memoryBytes } = shipped("daemonset.yaml", "daemon");
  const [port = 0] = await freePorts(1);
  const started = await TestDaemon.start({
    args: ["--metrics-address", `127.0.0.1:${port}`, "--read-group", String(process.getgid?.())],
    wrapper: within,
  });
  ending.push(() => started.stop());
  const health = { port, host: "127.0.0.1" };
  const where = listener === "metrics" ? health : { socketPath: join(started.directory, listener) };
  return { pid: started.process.pid, listener: where, health, memoryBytes };
}

async function product(args: readonly string[], within: readonly string[]): Promise<ProductProcess> {
  const started = new ProductProcess(args, within);
  ending.push(async () => void (await started.end("SIGKILL")));
  return started;
}

async function controller(): Promise<Attacked> {
  const { within, memoryBytes } = shipped("deployment.yaml", "controller");
  const world = await World.start({ api: "memory", time: "machine" });
  ending.push(() => world.stop());
  const [port = 0] = await freePorts(1);
  const health = { port, host: "127.0.0.1" };
  const kubeconfig = world.cluster.kubeconfig("holdfast-controller");
  const words = ["controller", "--kubeconfig", kubeconfig, "--metrics-address", `127.0.0.1:${port}`];
  const started = await product(words, within);
  await started.until(async () => (await question(health, "/readyz")) === 200, "readiness");
  return { pid: started.child.pid, listener: health, health, memoryBytes };
}

/** With Kubernetes, where it has all its sockets; `listener`: a file name, or "metrics". */
async function metadataServer(listener: string): Promise<Attacked> {
  const { within, memoryBytes } = shipped("metadata/daemonset.yaml", "metadata");
  const world = await World.start({ api: "memory", time: "machine" });
  ending.push(() => world.stop());
  const asked = await daemon("identity.sock");
  const { socketPath: identity } = asked.listener as { socketPath: string };
  const server = new TestMetadataServer(dirname(identity), {
    within,
    args: [
      "--kubeconfig",
      world.cluster.kubeconfig("holdfast-metadata"),
      "--node",
      "n1",
      "--balancers-socket",
      join(dirname(identity), "balancers.sock"),
    ],
  });
  ending.push(async () => void (await server.end("SIGKILL")));
  await server.run();
  const health = { port: Number(new URL(server.metrics).port), host: "127.0.0.1" };
  const where = listener === "metrics" ? health : { socketPath: join(dirname(identity), listener) };
  return { pid: server.pid, listener: where, health, memoryBytes };
}

async function metadataNetworks(): Promise<Attacked> {
  const { within, memoryBytes } = shipped("metadata/daemonset.yaml", "metadata-net");
  const { listener } = await daemon("s.sock");
  const { socketPath: daemonSocket } = listener as { socketPath: string };
  const [port = 0] = await freePorts(1);
  const health = { port, host: "127.0.0.1" };
  const runDir = join(dirname(daemonSocket), "net");
  const args = ["--metrics-address", `127.0.0.1:${port}`];
  const started = metadataNet({
    daemonSocket,
    metadataSocket: join(dirname(daemonSocket), "metadata.sock"),
    runDir,
    args,
    within,
  });
  ending.push(() => removeLeft({ runDir, args }));
  ending.push(async () => void (await started.end()));
  await started.until(async () => (await question(health, "/readyz")) === 200, "readiness");
  return { pid: started.child.pid, listener: health, health, memoryBytes };
}

/** It runs where its reader is, without a limit: the smallest of the others is enough for it. */
async function page(): Promise<Attacked> {
  const { memoryBytes } = shipped("metadata/daemonset.yaml", "metadata-net");
  const asked = await daemon("readonly.sock");
  const { socketPath } = asked.listener as { socketPath: string };
  const started = await product(["ui", "--no-open", "--socket", socketPath], []);
  await started.until(() => /http:\S+:\d+/.test(started.log), "its address");
  const where = { port: Number(/http:[^\s:]+:(\d+)/.exec(started.log)?.[1]), host: "127.0.0.1" };
  return { pid: started.child.pid, listener: where, health: where, paths: ["/"], memoryBytes };
}

test.each<[string, () => Promise<Attacked>]>([
  ...["metrics", "s.sock", "readonly.sock", "identity.sock"].map((one): [string, () => Promise<Attacked>] => [
    `${one} of a daemon`,
    () => daemon(one),
  ]),
  ["metrics of a controller", controller],
  ...["metrics", "metadata.sock", "relay.sock", "balancers.sock"].map((one): [string, () => Promise<Attacked>] => [
    `${one} of a metadata server`,
    () => metadataServer(one),
  ]),
  ["the page's port", page],
])("%s: as shipped, beside 2,000 idle and 2,000 slow connections, in its memory", (_, start) => withstands(start));

test.skipIf(whyNotReal() !== null)(
  "metrics of metadata-net: as shipped, beside 2,000 idle and 2,000 slow connections, in its memory",
  () => withstands(metadataNetworks),
);

async function withstands(start: () => Promise<Attacked>): Promise<void> {
  const { pid, listener, health, paths = HEALTH, memoryBytes } = await start();
  await load(listener, "idle");
  await load(listener, "slow");
  expect(await ask(health, paths)).toEqual(ALL_ANSWERED);
  expect(peakBytes(pid)).toBeLessThan(memoryBytes);
}
