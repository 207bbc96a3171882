import { execFileSync } from "node:child_process";
import { createHash, randomBytes, randomUUID } from "node:crypto";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseKeys } from "../../metadata/server/key-ring.ts";
import { newDirectory, run, runShim } from "../harness/daemon.ts";
import { readManifests } from "../harness/kube-manifests.ts";
import { requireRoot } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";

const ROOT = join(import.meta.dirname, "../..");
const UNIT = join(ROOT, "deploy/systemd/holdfast.service");
/** Of nobody, whatever the system calls it. */
const NOBODY = 65_534;
let target: string;
beforeAll(() => {
  target = newDirectory();
  // Without DESTDIR, which is for files that are moved to where they belong later: these run where they are.
  const places = [`PREFIX=${join(target, "usr/local")}`, `CNI_BIN=${join(target, "opt/cni/bin")}`];
  execFileSync("make", ["-C", ROOT, "install", ...places, "UNITS=", "SYSUSERS="], { stdio: "pipe" });
});
afterAll(() => rmSync(target, { recursive: true, force: true }));

test("what is installed runs without the source tree: daemon, plugin binary, command line", async () => {
  const holdfast = join(target, "usr/local/bin/holdfast");
  const socket = join(target, "s.sock");
  const daemon = run(holdfast, ["daemon", "--state", join(target, "state"), "--socket", socket]);
  await until(async () => (await run(holdfast, ["networks", "--socket", socket])).code === 0, "the installed daemon");
  const shim = join(target, "opt/cni/bin/holdfast-ipam");
  const answer = await runShim("ADD", "c1", { socket, spool: join(target, "state/spool"), shim });
  expect(answer.json().ips).toHaveLength(1);
  const { stdout } = await run(holdfast, ["list", "--socket", socket]);
  expect(stdout).toContain("container c1 (eth0)");
  const pid = execFileSync("pgrep", ["-f", join(target, "state")], { encoding: "utf8" })
    .trim()
    .split("\n")[0];
  process.kill(Number(pid), "SIGTERM");
  expect((await daemon).code).toBe(0);
});

test("licences of others and the SBOM are installed beside what they are about", () => {
  for (const file of ["THIRD-PARTY-NOTICES", "sbom.cdx.json"]) {
    const installed = readFileSync(join(target, "usr/local/lib/holdfast", file), "utf8");
    expect(installed).toBe(readFileSync(join(ROOT, "dist", file), "utf8"));
  }
});

test("all bundles are installed with their compiled code caches", () => {
  const digest = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");
  const files = (directory: string) =>
    Object.fromEntries(
      readdirSync(directory, { recursive: true, encoding: "utf8" })
        .filter((name) => name !== "ui")
        .map((name) => [name, digest(join(directory, name))]),
    );
  const built = files(join(ROOT, "dist/lib"));
  expect(Object.keys(built)).toEqual(expect.arrayContaining(["daemon.cjs.cache", "ui/page.js"]));
  expect(files(join(target, "usr/local/lib/holdfast/lib"))).toEqual(built);
});

test("what is installed runs with the Node that it brings, whatever is in PATH", async () => {
  const { stdout, code } = await run(join(target, "usr/local/bin/holdfast"), ["--help"], {
    PATH: "/nonexistent",
  });
  expect(stdout).toMatch(/^Usage: holdfast /);
  expect(code).toBe(0);
});

test("an SQLite module that cannot be loaded is named, with the remedy", async () => {
  const addon = join(target, "usr/local/lib/holdfast/lib/better_sqlite3.node");
  const kept = readFileSync(addon);
  const state = join(target, "other-state");
  try {
    writeFileSync(addon, "of another system");
    const { code, stderr } = await run(join(target, "usr/local/bin/holdfast"), [
      "daemon",
      ...["--state", state, "--socket", join(target, "o.sock")],
    ]);
    expect(stderr).toMatch(
      /^holdfast daemon: the SQLite module of Holdfast cannot be loaded \(.*\): install Holdfast again; the state directory was not opened/,
    );
    expect(code).toBe(1);
  } finally {
    writeFileSync(addon, kept);
  }
});

test("the systemd unit is sound, and starts what make install puts there", async () => {
  const text = readFileSync(UNIT, "utf8");
  const installed = join(target, "usr/local/bin/holdfast");
  expect(text).toContain("ExecStart=/usr/local/bin/holdfast daemon\n");
  const copy = join(target, "holdfast.service");
  writeFileSync(copy, text.replace("/usr/local/bin/holdfast daemon", `${installed} daemon`));
  const { code, stdout, stderr } = await run("systemd-analyze", ["verify", "--man=no", copy]);
  expect(`${stdout}${stderr}`.split("\n").filter((line) => line.includes("holdfast"))).toEqual([]);
  expect(code).toBe(0);
});

test("all units are installed, for the prefix that was asked for, with the user of the metadata server", () => {
  const elsewhere = join(target, "elsewhere");
  const options = [`DESTDIR=${elsewhere}`, "PREFIX=/opt/holdfast"];
  execFileSync("make", ["-C", ROOT, "install", ...options], { stdio: "pipe" });
  const units = readdirSync(join(ROOT, "deploy/systemd")).filter((name) => /\.(service|socket|target)$/.test(name));
  const installed = (name: string) => readFileSync(join(elsewhere, "etc/systemd/system", name), "utf8");
  for (const name of units)
    for (const [, path] of installed(name).matchAll(/^Exec\w+=[-+]*(\S+)/gm))
      if (path !== "/bin/sh") expect(readFileSync(join(elsewhere, path as string)).length).toBeGreaterThan(0);
  const sysusers = readFileSync(join(elsewhere, "usr/lib/sysusers.d/holdfast.conf"), "utf8");
  for (const user of ["holdfast-metadata", "holdfast-haproxy"]) expect(sysusers).toContain(`u ${user} `);
  const unit = readFileSync(join(elsewhere, "etc/systemd/system/holdfast.service"), "utf8");
  const groups = /^SupplementaryGroups=(.*)$/m.exec(unit)?.[1]?.split(" ");
  expect(groups).toEqual(["holdfast", "holdfast-metadata"]);
  for (const group of groups ?? []) expect(sysusers).toMatch(new RegExp(`^[gu] ${group} `, "m"));
  execFileSync("make", ["-C", ROOT, "uninstall", ...options], { stdio: "pipe" });
  const left = execFileSync("find", [elsewhere, "-type", "f"], { encoding: "utf8" });
  expect(left).toBe("");
});

test("units without the metadata server's group are installed on no machine that runs systemd: the daemon would not start", async () => {
  const elsewhere = join(target, "no-group");
  const stubs = join(target, "stubs");
  mkdirSync(stubs);
  writeFileSync(join(stubs, "getent"), "#!/bin/sh\nexit 2\n", { mode: 0o755 });
  const make = (...more: string[]) =>
    run(
      "make",
      [
        ...["-C", ROOT, "-o", "build", "SYSUSERS=", "SYSTEMD=running", `PREFIX=${elsewhere}/usr/local`],
        ...[`CNI_BIN=${elsewhere}/cni`, ...more],
      ],
      { PATH: `${stubs}:${process.env.PATH}` },
    );
  const refused = await make("install", `UNITS=${elsewhere}/units`);
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain("there is no group holdfast,");
  expect(existsSync(join(elsewhere, "units"))).toBe(false);
  expect(await make("install", "UNITS=")).toMatchObject({ code: 0 });
  const { stdout } = await make("-n", "uninstall", "UNITS=", `DESTDIR=${elsewhere}`);
  expect(stdout).toContain("holdfast-ipam");
  expect(stdout).not.toMatch(/\.service|\.conf/);
});

test("token keys are created once, and never where a key file exists or is configured", async () => {
  const file = join(target, "keys/metadata.keys");
  const script = join(target, "usr/local/lib/holdfast/bin/make-metadata-keys");
  const make = (env = {}) => run(script, [file, "root"], { PATH: process.env.PATH ?? "", ...env });
  expect(await make({ HOLDFAST_KEY_FILE: "/etc/other" })).toMatchObject({ code: 0, stdout: "" });
  expect(existsSync(file)).toBe(false);
  const made = await make({ HOLDFAST_KEY_FILE: file });
  expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^<4>.*copy it to every node/) });
  const keys = readFileSync(file);
  expect(parseKeys(keys)).toHaveLength(1);
  expect(statSync(file).mode & 0o777).toBe(0o640);
  expect(await make()).toMatchObject({ code: 0, stdout: "" });
  expect(readFileSync(file)).toEqual(keys);
  expect(readdirSync(join(target, "keys"))).toEqual(["metadata.keys"]);
});

test("keys that the server made for itself are kept, and it cannot have another file read for it", async (context) => {
  requireRoot(context);
  const state = newDirectory();
  chmodSync(state, 0o700);
  chownSync(state, NOBODY, NOBODY);
  const script = join(target, "usr/local/lib/holdfast/bin/make-metadata-keys");
  const made = async () => {
    const file = join(target, `keys-${randomUUID()}`);
    const env = { PATH: process.env.PATH ?? "", STATE_DIRECTORY: state };
    expect(await run(script, [file, `${NOBODY}`], env)).toMatchObject({ code: 0 });
    return parseKeys(readFileSync(file)).map((key) => key.toString("hex"));
  };
  const own = join(state, "keys");
  const [hex, other] = [randomBytes(32), randomBytes(48)];
  writeFileSync(own, `# the newest first\n${hex.toString("hex")}\n${other.toString("base64")}\r\n`);
  chownSync(own, NOBODY, NOBODY);
  expect(await made()).toEqual([hex.toString("hex"), other.toString("hex")]);
  // As good as a key, and root's.
  const secret = join(target, "secret-of-root");
  writeFileSync(secret, `${randomBytes(32).toString("hex")}\n`, { mode: 0o600 });
  rmSync(own);
  symlinkSync(secret, own);
  const keys = await made();
  expect(keys).toHaveLength(1);
  expect(keys).not.toEqual([readFileSync(secret, "utf8").trim()]);
  // What belongs to everybody is no key.
  rmSync(own);
  symlinkSync("/etc/passwd", own);
  expect(await made()).toHaveLength(1);
  rmSync(own);
  mkdirSync(own);
  expect(await made()).toHaveLength(1);
  rmSync(state, { recursive: true });
});

test("every unit and container has a memory limit", () => {
  const units = readdirSync(join(ROOT, "deploy/systemd")).filter((name) => name.endsWith(".service"));
  expect(units.length).toBeGreaterThan(2);
  for (const unit of units)
    expect(readFileSync(join(ROOT, "deploy/systemd", unit), "utf8"), unit).toMatch(/^MemoryMax=\d+[MG]$/m);
  const manifests = ["daemonset.yaml", "deployment.yaml", "metadata/daemonset.yaml"];
  const containers = manifests
    .flatMap((file) => readManifests(join(ROOT, "deploy", file)))
    .flatMap(({ spec }) => [...(spec.template.spec.initContainers ?? []), ...spec.template.spec.containers]);
  expect(containers.length).toBeGreaterThan(4);
  for (const { name, resources } of containers) expect(resources.limits.memory, name).toMatch(/^\d+[MG]i$/);
});

test("the unit's view of the system leaves the daemon what it needs", () => {
  const text = readFileSync(UNIT, "utf8");
  // The defaults of the settings: what the unit makes writable must be where the daemon writes.
  expect(text).toContain("StateDirectory=holdfast\n");
  expect(text).toContain("RuntimeDirectory=holdfast\n");
  const defaults = readFileSync(join(ROOT, "platform/settings/daemon.ts"), "utf8");
  expect(defaults).toContain('"/var/lib/holdfast"');
  expect(defaults).toContain('"/run/holdfast/holdfast.sock"');
});
