import { spawn } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { PROCESSES, type Process } from "../../platform/settings/processes.ts";
import { flagOf } from "../../platform/settings/setting.ts";
import { HOLDFAST, newDirectory, run, TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";

test.each(Object.entries<Process>(PROCESSES))("holdfast %s --help shows its settings", async (name, { settings }) => {
  const { stdout } = await run(process.execPath, [HOLDFAST, name, "--help"]);
  const flags = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag as string);
  const shown = Object.keys(settings).filter((key) => !settings[key]?.hidden);
  const ofEveryCommand = ["--config", "--help", "--version", "--timeout", "--socket", "--kubeconfig"];
  // What this command does instead of running, and how it prints that.
  const instead = name === "metadata-net" ? ["--probe", "--close", "--remove", "--output"] : [];
  const notSettings = [...ofEveryCommand, ...instead];
  const own = (all: readonly string[]) => all.filter((flag) => !notSettings.includes(flag)).sort();
  expect(flags).toEqual(expect.arrayContaining(instead));
  expect(own(flags)).toEqual(own(shown.map(flagOf)));
});

test("flags reach the daemon, and win over its file", async () => {
  const directory = newDirectory();
  const config = join(directory, "daemon.yaml");
  writeFileSync(config, "node: from-file\nlogLevel: error\n");
  const daemon = await TestDaemon.start({ directory, args: ["--config", config, "--log-level", "info"] });
  // What the daemon has printed may come after its first answer.
  await until(() => daemon.log.includes('"node":"from-file"'), "the node's name in the log");
  await daemon.stop();
});

test("a setting that cannot be used exits 2", async () => {
  const { code, stderr } = await run(process.execPath, [HOLDFAST, "daemon", "--add-deadline-ms", "soon"]);
  expect(code).toBe(2);
  expect(stderr).toContain("addDeadlineMs");
});

test("wait --pid ends after the process whose settings are refused, so that systemd sees that one fail", async () => {
  const directory = newDirectory();
  writeFileSync(join(directory, "daemon.yaml"), "addDeadlineMs: soon\n");
  const daemon = spawn("sleep", ["1.5"]);
  try {
    const env = { HOLDFAST_CONFIG: join(directory, "daemon.yaml") };
    const answer = await run(process.execPath, [HOLDFAST, "wait", "--pid", `${daemon.pid}`], env);
    expect(daemon.exitCode).toBe(0);
    expect(answer.code).toBe(2);
    expect(answer.stderr).toContain("addDeadlineMs");
  } finally {
    daemon.kill();
    rmSync(directory, { recursive: true });
  }
});

test("the command line does not carry what only the daemon needs", () => {
  const bundle = readFileSync(join(dirname(HOLDFAST), "../lib/command-line.cjs"), "utf8");
  const required = new Set(
    [...bundle.matchAll(/\b(?:require|import)\("([^"]+)"\)/g)].map((match) => match[1] as string),
  );
  const outside = [...required].filter((name) => !isBuiltin(name));
  expect(outside).toEqual(["./yaml.cjs", "./jsonpath.cjs"]);
  for (const daemons of ["better_sqlite3", "fastify", "@prometheus-io"]) expect(bundle).not.toContain(daemons);
});

test("no process carries the clients and models of the Kubernetes client, of which only the kubeconfig is used", () => {
  for (const name of ["daemon", "controller", "metadata", "cluster"]) {
    const bundle = readFileSync(join(dirname(HOLDFAST), "../lib", `${name}.cjs`), "utf8");
    expect(bundle.includes("certificate-authority-data"), name).toBe(true);
    for (const unused of ["V1PodSpec", "fetch failed", "SocksClientError"])
      expect(bundle.includes(unused), `${unused} in ${name}`).toBe(false);
  }
});
