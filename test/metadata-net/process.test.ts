import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { cleanEnv, HOLDFAST, run } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { NetNode } from "./node.ts";

describe.skipIf(whyNotReal() !== null)("metadata-net from outside", () => {
  test("reports what is missing in /readyz, and counts haproxy's requests in /metrics", async () => {
    const node = await NetNode.start(["--metrics-address", "127.0.0.1:0"]);
    const get = async (path: string) => {
      const [, port] = /"port":(\d+)/.exec(node.log) ?? [];
      const answer = await fetch(`http://127.0.0.1:${port}${path}`);
      return { status: answer.status, body: await answer.text() };
    };
    try {
      const vm = await node.guest(null, "10.30.0.5/24");
      await node.wanted(vm.on("blue"), vm.on("red", { containerId: "gone", netns: "/run/netns/nowhere" }));
      expect(await get("/healthz")).toEqual({ status: 200, body: "ok\n" });
      expect(await get("/readyz")).toEqual({ status: 503, body: "1 of 2 guests are not served\n" });
      for (let count = 0; count < 3; count += 1) await vm.ask("/");
      const { body } = await get("/metrics");
      expect(body).toContain('holdfast_metadata_net_ports{driver="ingress"} 1\n');
      expect(body).toContain('holdfast_metadata_net_lost_ports{kind="pending"} 1\n');
      expect(body).toContain('holdfast_metadata_net_requests_total{status="2xx"} 3\n');
      expect(body).toContain('holdfast_metadata_net_reloads_total{outcome="ok"} 1\n');
      await node.wanted(vm.on("blue"));
      expect(await get("/readyz")).toEqual({ status: 200, body: "ready\n" });
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });

  test("a second metadata-net on a run directory is refused, and so is one without root or with bad settings", async () => {
    const node = await NetNode.start();
    await until(() => node.log.includes("started"), "the start");
    const args = ["metadata-net", "--run-dir", node.runDir, "--metrics-address", "off"];
    const second = await run(process.execPath, [HOLDFAST, ...args]);
    expect(second).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("another holdfast metadata-net"),
    });
    const limited = await run(process.execPath, [HOLDFAST, ...args, "--rate-limit", "30"], {
      HOLDFAST_SPOOL: "/nowhere",
      HOLDFAST_KUBECONFIG: "/nowhere",
    });
    expect(limited).toMatchObject({ code: 2, stderr: expect.stringContaining("28 requests in a second") });
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as { port: number };
    const elsewhere = ["metadata-net", "--run-dir", `${node.runDir}2`, "--metrics-address", `127.0.0.1:${port}`];
    // It ends, and does not stay as a process that does nothing.
    const third = await run(process.execPath, [HOLDFAST, ...elsewhere]);
    taken.close();
    rmSync(`${node.runDir}2`, { recursive: true });
    expect(third).toMatchObject({ code: 1, stderr: expect.stringContaining("EADDRINUSE") });
    expect(await node.stop(), node.log).toEqual([]);
  });

  test("reports a haproxy that cannot be started", async () => {
    const node = await NetNode.start(["--haproxy", "/nowhere/haproxy"]);
    try {
      const vm = await node.guest(null, "10.30.0.5/24");
      expect((await node.wanted(vm.on("blue"))).node).toContain("/nowhere/haproxy cannot be run");
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });

  test("ends at SIGTERM before it has reached a daemon, and says why it cannot run without root", async () => {
    const node = await NetNode.start();
    await node.stopDaemon();
    await until(() => node.log.includes("started"), "the start");
    await node.endNet("SIGTERM");
    expect(node.process?.child.exitCode).toBe(0);
    expect(await node.stop()).toEqual([]);
    const nobody = spawn(
      "setpriv",
      ["--reuid", "65534", "--clear-groups", process.execPath, HOLDFAST, "metadata-net"],
      {
        env: cleanEnv(),
      },
    );
    let said = "";
    nobody.stderr.on("data", (chunk: Buffer) => {
      said += chunk;
    });
    const [code] = await once(nobody, "exit");
    expect(code, said).toBe(1);
    expect(said).toContain("must be root");
    rmSync(join(node.directory), { recursive: true, force: true });
  });
});
