import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { HOLDFAST, network, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

test("list -w shows what is there, then what changes, over a restart of the daemon, until it is interrupted", async () => {
  const daemon = await TestDaemon.start();
  const config = network("blue", { subnets: "10.10.0.0/28", cooldownSeconds: 600 });
  await daemon.cni("ADD", "web", { config });
  const watcher = spawn(process.execPath, [HOLDFAST, "list", "-w", "--socket", daemon.socket]);
  let again: TestDaemon | null = null;
  let [seen, errors] = ["", ""];
  watcher.stdout.on("data", (text) => {
    seen += text;
  });
  watcher.stderr.on("data", (text) => {
    errors += text;
  });
  const lines = () =>
    seen
      .trim()
      .split("\n")
      .map((line) => line.split(/ {2,}/));
  try {
    await until(() => lines().length === 2, "the first look");
    expect(lines()[0]?.slice(0, 2)).toEqual(["NETWORK", "ADDRESS"]);
    await daemon.cni("ADD", "db", { config });
    await until(() => lines().length === 3, "a line of its own for the new container");
    expect(lines()[2]?.[1]).toBe("10.10.0.2/28");
    await daemon.end("SIGTERM");
    await until(() => errors.includes("is not reachable"), "it to say that the daemon is away");
    again = await TestDaemon.start({ directory: daemon.directory });
    await again.cni("DEL", "web", { config });
    await until(() => lines().length === 4, "a line for what has changed");
    expect(lines()[3]?.join(" ")).toMatch(/10\.10\.0\.1\/28 .* Cooling/);
    expect(seen.match(/NETWORK/g)).toHaveLength(1);
  } finally {
    watcher.kill("SIGINT");
    const [, signal] = await once(watcher, "close");
    expect(signal).toBe("SIGINT");
    await again?.stop();
    await daemon.stop();
  }
});

test("what has no lines cannot be watched", async () => {
  const daemon = await TestDaemon.start();
  try {
    expect(await daemon.cli("list", "-w", "-o", "json")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--watch shows lines that change"),
    });
  } finally {
    await daemon.stop();
  }
});
