import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { whyNotReal } from "./containers.ts";

const DEMO = join(import.meta.dirname, "../../examples/demo/run.mjs");
const real = whyNotReal() === null;

test("the demo tells its story and exits 0", async () => {
  const { code, stdout } = await run(process.execPath, [DEMO]);
  expect(stdout).toContain(real ? "The real bridge plugin" : "Driving the plugin binary directly");
  expect(stdout).toContain("The VM kept its addresses across stop, crash and start");
  expect(code, stdout).toBe(0);
});

test.skipIf(!real)("the demo without root drives the plugin binary directly, and says so", async () => {
  const { code, stdout, stderr } = await run("setpriv", [
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    process.execPath,
    DEMO,
  ]);
  expect(stdout, stderr).toContain("this needs root");
  expect(code, stdout + stderr).toBe(0);
});

test("the demo exits 1 and names the step when anything differs", async () => {
  const { code, stdout } = await run(process.execPath, [DEMO], { HOLDFAST_KILL_POINT: "before-answer:2" });
  expect(stdout).toContain(`FAILED in step "attach the VM's interface and two plain pods"`);
  expect(code).toBe(1);
});
