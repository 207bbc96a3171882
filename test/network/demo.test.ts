import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cleanEnv, run } from "../harness/daemon.ts";
import { whyNotReal } from "./containers.ts";

const DEMO = join(import.meta.dirname, "../../examples/demo/run.mjs");
const real = whyNotReal() === null;
const NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups";

/**
 * The demo looks for what it made by name, and fails where something is left: the directory is what a stranger can see.
 */
const demoDirectories = () => readdirSync(tmpdir()).filter((name) => name.startsWith("holdfast-demo-"));

test("on a terminal of 80 columns the demo tells its story, removes everything and exits 0", async () => {
  const command = `stty columns 80 && exec '${process.execPath}' '${DEMO}'`;
  const { code, stdout: typed } = await run("script", ["-qec", command, "/dev/null"]);
  const stdout = typed.replaceAll("\r\n", "\n");
  expect(stdout).toContain(real ? "The real bridge plugin" : "Driving the plugin binary directly");
  expect(stdout).toMatch(/answered again after \d+\.\d s/);
  expect(stdout).toMatch(/The VM kept \S+ and \S+ across stop, crash and start/);
  if (real) expect(stdout).toContain("A VM found its identity");
  expect(stdout).toContain("Everything is removed again");
  expect(stdout.split("\nNext:\n")[1]?.trimEnd().split("\n")).toHaveLength(4);
  expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  expect(stdout).toContain("columns that this terminal has no room for are left out: NODE, NETWORK");
  expect(code, stdout).toBe(0);
});

test.skipIf(!real)("the demo passes without root where only root may read /var/lib/cni", async () => {
  const hide = "mount -t tmpfs tmpfs /var/lib && mkdir -m 0700 /var/lib/cni";
  const script = `${hide} && exec ${NOBODY} "$@"`;
  const { code, stdout, stderr } = await run("unshare", ["-m", "sh", "-c", script, "sh", process.execPath, DEMO]);
  expect(stdout, stderr).toContain("this needs root");
  expect(stdout).toContain("The VM kept");
  expect(stdout).toContain("Everything is removed again");
  expect(code, stdout + stderr).toBe(0);
});

test("the demo exits 1, names the step and removes everything when anything differs", async () => {
  const { code, stdout } = await run(process.execPath, [DEMO], { HOLDFAST_KILL_POINT: "before-answer:2" });
  expect(stdout).toContain(`FAILED in step "attach the VM's interface and two plain pods"`);
  expect(stdout).toContain("Everything is removed again");
  expect(code).toBe(1);
});

test("an interrupted demo removes everything", async () => {
  const before = demoDirectories();
  const child = spawn(process.execPath, [DEMO], { env: cleanEnv() });
  let stdout = "";
  child.stdout.on("data", (chunk) => {
    stdout += chunk;
    if (!child.killed && stdout.includes("==> attach the VM")) child.kill("SIGINT");
  });
  const [code] = await once(child, "exit");
  expect(stdout).toContain("Interrupted");
  expect(stdout).toContain("Everything is removed again");
  expect(demoDirectories().filter((name) => !before.includes(name))).toEqual([]);
  expect(code, stdout).toBe(130);
});
