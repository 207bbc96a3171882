import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HOLDFAST } from "../harness/daemon.ts";
import { freePorts } from "../harness/kube-process.ts";
import { until } from "../harness/wait.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { podOwner } from "../harness/world/objects.ts";
import { World } from "../harness/world/world.ts";

let world: World;
const children: ChildProcess[] = [];

beforeAll(async () => {
  world = await World.start({ api: "memory", time: "machine" });
});
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await world?.stop();
});

function run(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
  const child = spawn(process.execPath, [HOLDFAST, "controller", ...args], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  return child;
}

async function ended(child: ChildProcess): Promise<{ code: number | null; stderr: string }> {
  let stderr = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const [code] = await once(child, "close");
  return { code, stderr };
}

async function start(identity: string): Promise<{ child: ChildProcess; port: number }> {
  const [port = 0] = await freePorts(1);
  const child = run(
    ["--kubeconfig", world.cluster.kubeconfig("holdfast-controller"), "--metrics-address", `127.0.0.1:${port}`],
    { HOLDFAST_SWEEP_INTERVAL_SECONDS: "1", HOLDFAST_SWEEP_GRACE_SECONDS: "1", HOLDFAST_IDENTITY: identity },
  );
  child.stdout?.resume();
  child.stderr?.resume();
  await until(async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null);
    return answer?.status === 200;
  }, `${identity} to be ready`);
  return { child, port };
}

test("settings that cannot be used end it with exit code 2 and their name", async () => {
  expect(await ended(run(["--sweep-grace-seconds", "0"]))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("sweepGraceSeconds"),
  });
  expect(await ended(run([], { HOLDFAST_SWEEP_GRACE: "1" }))).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("HOLDFAST_SWEEP_GRACE"),
  });
  expect(await ended(run(["--kubeconfig", "/nonexistent/kubeconfig"]))).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("/nonexistent/kubeconfig"),
  });
});

test("one that is frozen is replaced, does no harm when it goes on, and ends when asked", async () => {
  const first = await start("first");
  await world.importedNetwork("blue", { subnets: "10.1.0.0/24" });
  first.child.kill("SIGSTOP");
  const second = await start("second");
  const pod = await world.kubevirt.createPod(NAMESPACE, "web", { node: "n1" });
  await world.allocate("blue", "10.1.0.5/24", podOwner(pod));
  await world.kubevirt.endPod(pod);
  await world.becomes("blue", "10.1.0.5/24", "Cooling");
  first.child.kill("SIGCONT");
  const next = await world.claim("next", "blue", { ips: ["10.1.0.5/24"] });
  await world.becomes("blue", "10.1.0.5/24", "Bound");
  await world.stays("blue", "10.1.0.5/24");
  expect((await world.allocation("blue", "10.1.0.5/24")).spec.owner.uid).toBe(next.metadata.uid);
  for (const { child } of [first, second]) {
    const end = ended(child);
    child.kill("SIGTERM");
    expect((await end).code).toBe(0);
  }
});
