import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";

const RUN = join(import.meta.dirname, "run.mjs");
/** Only ends what hangs. */
const LIMIT_MS = 600_000;
const directory = mkdtempSync(join(tmpdir(), "holdfast-soak-"));
const skipped = whyNotReal() !== null;

afterAll(() => rmSync(directory, { recursive: true }));

/** What a run makes on a machine, as everybody else would see it. */
async function traces(): Promise<string> {
  const [links, namespaces, mounts] = await Promise.all([
    run("ip", ["-brief", "link"]),
    run("ip", ["netns", "list"]),
    run("grep", ["soak", "/proc/self/mounts"]),
  ]);
  const processes = readdirSync("/proc").filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(directory);
    } catch {
      return false;
    }
  });
  const made = /br-(tight|roomy)|hft-.*sandbox/;
  const seen = `${links.stdout}${namespaces.stdout}`.split("\n").filter((line) => made.test(line));
  return [...seen, mounts.stdout, ...processes].join("");
}

test.skipIf(skipped)(
  "a run of less than a minute injects most kinds of faults, and finds nothing lost and nothing left",
  async () => {
    const report = join(directory, "report.json");
    const seed = process.env.HOLDFAST_TEST_SEED ?? String(Date.now() % 1_000_000_007);
    console.log(`soak: repeat with HOLDFAST_TEST_SEED=${seed}`);
    const args = ["--minutes", "0.7", "--nodes", "3", "--switches", "1", "--seed", seed, "--report", report];
    const { code, stdout, stderr } = await run(process.execPath, [RUN, ...args], forwarded());
    expect(code, stdout + stderr).toBe(0);
    const found = JSON.parse(readFileSync(report, "utf8"));
    expect(found).toMatchObject({ seed: Number(seed), verdict: "clean", violations: [] });
    expect(Object.keys(found.faults).length).toBeGreaterThan(8);
    expect(Object.keys(found.requests)).toEqual(expect.arrayContaining(["create", "get", "list", "update", "watch"]));
    expect(found.processes.map(({ name }: { name: string }) => name)).toEqual([
      ...["node-0", "node-1", "node-2", "controller-0", "controller-1"],
    ]);
    for (const { samples } of found.processes) expect(samples.length).toBeGreaterThan(5);
    expect(stdout).toContain(`seed ${seed}: clean`);
    expect(await traces()).toBe("");
  },
  LIMIT_MS,
);

test.skipIf(skipped)(
  "a run that is interrupted ends with everything that it made",
  async () => {
    const child = spawn(process.execPath, [RUN, "--report", join(directory, "none.json")], {
      env: { ...process.env, ...forwarded() },
      stdio: ["ignore", "pipe", "inherit"],
    });
    let stdout = "";
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += chunk;
    });
    await until(() => stdout.includes("repeat with"), "the run to begin");
    expect(await traces()).not.toBe("");
    child.kill("SIGTERM");
    const [code] = await once(child, "exit");
    expect(code).toBe(130);
    await until(async () => (await traces()) === "", "nothing to be left");
  },
  LIMIT_MS,
);

/** Settings that a run needs and that the tests' own processes do not get. */
function forwarded(): Record<string, string> {
  const { HOLDFAST_KUBE_ASSETS } = process.env;
  return HOLDFAST_KUBE_ASSETS === undefined ? {} : { HOLDFAST_KUBE_ASSETS };
}
