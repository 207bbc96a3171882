import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { newFolder, run } from "../harness/daemon.ts";

const ROOT = join(import.meta.dirname, "../..");
const STEPS = `set -uo pipefail; say() { echo "$*" >&2; }; log=log; cd "$FOLDER"; . ${ROOT}/tools/steps.sh`;
let folder: string;
let env: Record<string, string>;

beforeEach(() => {
  folder = newFolder();
  mkdirSync(join(folder, "bin"));
  env = { FOLDER: folder, PATH: `${join(folder, "bin")}:${process.env.PATH}` };
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A command that is found before the system's. */
function command(name: string, script: string): void {
  const path = join(folder, "bin", name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

const SYSTEMS: [title: string, name: string, script: string, says: string][] = [
  [
    "macOS",
    "uname",
    "echo Darwin arm64",
    "holdfast runs on Linux on x86_64 and aarch64; this is Darwin arm64",
  ],
  ["another processor", "uname", "echo Linux riscv64", "this is Linux riscv64"],
  ["musl", "getconf", "exit 1", "holdfast needs the GNU C library"],
  [
    "a Node too old for npm",
    "node",
    "echo v16.20.2",
    "Node 18 or newer to install holdfast, and runs with v16.20.2",
  ],
];
for (const [title, name, script, says] of SYSTEMS) {
  test(`check-tools refuses ${title} in one line`, async () => {
    command(name, script);
    const { code, stdout, stderr } = await run(join(ROOT, "tools/check-tools"), [], env);
    expect(stderr).toContain(says);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  });
}

test("make says what to do when npm leaves out the runtime without a word", async () => {
  for (const name of ["Makefile", "package.json", "package-lock.json", "tools"])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  command("npm", 'echo "$*" >"$FOLDER/npm"');
  const { code, stderr } = await run("make", ["-C", folder, "node_modules/.installed"], env);
  expect(readFileSync(join(folder, "npm"), "utf8")).toContain("--include=dev --include=optional");
  expect(stderr).toContain("npm has not installed a Node that runs here");
  expect(stderr).toContain("rm -rf node_modules && make build");
  expect(code).toBe(2);
  expect(existsSync(join(folder, "node_modules/.installed"))).toBe(false);
});

test("system-packages accepts the three sets and nothing else", async () => {
  const { code, stderr } = await run(join(ROOT, "tools/system-packages"), ["everything"]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: "usage: system-packages demo|test|test-all\n" });
});

test("apt-get is tried again while another package manager has a lock, and the log says which", async () => {
  const held = "Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (unattended-upgr)";
  command(
    "apt-get",
    `test -e "$FOLDER/tried" || { touch "$FOLDER/tried"; echo "E: ${held}" >&2; exit 100; }; echo "done: $*"`,
  );
  const { code, stdout } = await run("bash", ["-c", `${STEPS}; apt_get install x`], env);
  expect(stdout).toContain(
    "waiting for another package manager: /var/lib/dpkg/lock-frontend. It is held by process 7",
  );
  expect(stdout).toContain("done: install x");
  expect(code).toBe(0);
});

test("apt-get is not tried again after another failure", async () => {
  command("apt-get", "echo E: no network >&2; exit 100");
  const { code, stdout } = await run("bash", ["-c", `${STEPS}; apt_get install x`], env);
  expect({ code, stdout }).toEqual({ code: 100, stdout: "E: no network\n" });
});

test("a step shows on a terminal every five seconds what its log says last", async () => {
  const script = `${STEPS}; step compiling bash -c "echo first; echo second; sleep 6"`;
  writeFileSync(join(folder, "script"), script);
  const { code, stdout } = await run("script", ["-qec", `bash ${join(folder, "script")}`, "/dev/null"], env);
  expect(stdout).toContain("compiling");
  expect(stdout).toMatch(/… [5-7] s: second/);
  expect(code).toBe(0);
});

test("a step that fails prints the end of its log", async () => {
  const { code, stderr } = await run(
    "bash",
    ["-c", `${STEPS}; step compiling bash -c "echo what; exit 3"`],
    env,
  );
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: "compiling\nwhat\nfailed: compiling (all of it in log)\n",
  });
});
