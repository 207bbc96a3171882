import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { attachedTo } from "../faults/truth.ts";
import { forgetBoot, HOLDFAST, network, newDirectory, run, TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";

let daemon: TestDaemon;

afterEach(() => daemon.stop());

/** Runs the command line in the daemon's directory. */
function inDirectory(...args: string[]) {
  return run("bash", ["-c", `cd ${daemon.directory} && exec ${process.execPath} ${HOLDFAST} "$@"`, "bash", ...args], {
    HOLDFAST_SOCKET: daemon.socket,
  });
}

/** Stops the daemon, ruins its database and starts it again: it waits for an operator. */
async function ruin(): Promise<void> {
  await daemon.end();
  writeFileSync(join(daemon.state, "holdfast.db"), "this was a database");
  daemon = await TestDaemon.start({ directory: daemon.directory, wait: false });
  await until(async () => (await daemon.get("/healthz").catch(() => null))?.status === 200, "the socket");
}

test("a relative path is relative to the operator's working directory", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  mkdirSync(join(daemon.directory, "backups"));
  const { code, stdout, stderr } = await inDirectory("backup", "backups/today.db");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/\/backups\/today\.db written, \d+ KiB\n$/);
  expect(stdout.startsWith(daemon.directory)).toBe(true);
  expect(statSync(join(daemon.directory, "backups/today.db")).mode & 0o777).toBe(0o600);

  expect(await inDirectory("backup", "backups/today.db")).toEqual({
    code: 1,
    stdout: "",
    stderr: `error: path is ${daemon.directory}/backups/today.db: that file exists; name a new one\nhint: correct the request; it changed nothing\n`,
  });
  const nowhere = await inDirectory("backup", "nowhere/today.db");
  expect(nowhere).toMatchObject({ code: 1, stdout: "" });
  expect(nowhere.stderr).toContain(`path is ${daemon.directory}/nowhere/today.db: the daemon cannot write there`);
});

test("a backup into a directory gets a file name with the time", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  mkdirSync(join(daemon.directory, "backups"));
  const { code, stdout } = await inDirectory("backup", "backups");
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: expect.stringMatching(/\/backups\/holdfast-\d{4}-\d\d-\d\dT\d{6}Z\.db written, \d+ KiB\n$/),
  });
});

test("a directory that is another one in the daemon's mount namespace is refused", async (context) => {
  requireRoot(context);
  daemon = await TestDaemon.start({ directory: newDirectory() });
  const there = join(daemon.directory, "there");
  mkdirSync(there);
  const { stdout, stderr, code } = await run(
    "unshare",
    [
      "--mount",
      "bash",
      "-c",
      `mount -t tmpfs tmpfs ${there} && ${process.execPath} ${HOLDFAST} backup ${there}/here.db`,
    ],
    { HOLDFAST_SOCKET: daemon.socket },
  );
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain(`the daemon sees another ${there} than you do`);
  expect(readdirSync(there)).toEqual([]);
});

test("rebuild --from a backup undoes a mistaken release, and fills a new machine", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  const claim = {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name: "vm1" },
    spec: { network: "blue" },
    status: { ips: ["10.10.0.7/24"] },
  };
  await daemon.post("/v1/apply", { objects: [claim] });
  await daemon.cni("ADD", "web", { config: network("blue") });
  const before = (await daemon.cli("list", "-o", "json")).stdout;
  expect(await inDirectory("backup", "good.db")).toMatchObject({ code: 0 });

  expect(await daemon.cli("release", "10.10.0.7", "--network", "blue", "--force")).toMatchObject({ code: 0 });
  expect((await daemon.cli("list", "-o", "json")).stdout).not.toBe(before);
  expect(await inDirectory("rebuild", "--from", "state/holdfast.answered", "--replace")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("is not a sound holdfast backup"),
  });
  expect(await inDirectory("rebuild", "--from", "good.db", "--replace")).toMatchObject({
    code: 0,
    stderr: "",
  });
  expect((await daemon.cli("list", "-o", "json")).stdout).toBe(before);
  expect(readdirSync(daemon.state).filter((name) => name.includes(".replaced-"))).toHaveLength(1);
  expect(await daemon.cli("check")).toMatchObject({ code: 0 });

  const good = join(daemon.directory, "good.db");
  const machine = await TestDaemon.start();
  try {
    expect(await machine.cli("rebuild", "--from", good, "--replace")).toMatchObject({ code: 0, stderr: "" });
    expect((await machine.cli("claims", "-o", "json")).stdout).toContain("10.10.0.7/24");
  } finally {
    await machine.stop();
  }
});

test("rebuild refuses a backup that does not know a running container", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  expect(await inDirectory("backup", "old.db")).toMatchObject({ code: 0 });
  await daemon.cni("ADD", "web", { config: network("blue"), netns: "/proc/self/ns/net" });
  const { code, stderr } = await inDirectory("rebuild", "--from", "old.db", "--replace");
  expect(code).toBe(1);
  expect(stderr).toContain("container web (eth0)");
  expect((await daemon.cli("list")).stdout).toContain("10.10.0.1/24");
  await daemon.cni("DEL", "web", { config: network("blue") });
  expect(await inDirectory("rebuild", "--from", "old.db", "--replace")).toMatchObject({ code: 0 });
  expect(await daemon.cni("ADD", "next", { config: network("blue") })).toMatchObject({ code: 0 });
});

/** A file in the place of a container's network namespace: a daemon sees whether it is the one it saw at the ADD. */
function namespaceFile(name: string): string {
  const path = join(daemon.directory, name);
  writeFileSync(path, "");
  return path;
}

test("a container that was restarted since the backup stays attached after a rebuild", async () => {
  daemon = await TestDaemon.start({
    directory: newDirectory(),
    args: ["--witness-interval-seconds", "1", "--witness-grace-seconds", "1"],
  });
  const config = network("blue");
  const first = namespaceFile("first");
  const before = await daemon.cni("ADD", "web", { config, netns: first });
  const canary = namespaceFile("canary");
  await daemon.cni("ADD", "canary", { config, netns: canary });
  expect(await inDirectory("backup", "old.db")).toMatchObject({ code: 0 });
  await daemon.cni("DEL", "web", { config, netns: first });
  const second = namespaceFile("second");
  rmSync(first);
  expect(await daemon.cni("ADD", "web", { config, netns: second })).toMatchObject({ stdout: before.stdout });

  expect(await inDirectory("rebuild", "--from", "old.db", "--replace")).toMatchObject({
    code: 0,
    stderr: "",
  });
  rmSync(canary);
  const attached = async () => await attachedTo(daemon, "blue");
  await until(async () => !(await attached()).includes("canary"), "the end of the container that has ended");
  expect(await attached()).toEqual(["web"]);
  expect(await daemon.cli("check")).toMatchObject({ code: 0 });
});

test("a container that a reboot restarted since the backup keeps its address after a rebuild", async () => {
  const directory = newDirectory();
  const file = join(directory, "boot-id");
  const boot = (id: string) => {
    writeFileSync(file, `${id}\n`);
    forgetBoot(directory);
  };
  const args = ["--boot-id-file", file];
  const config = network("blue", { subnets: "10.10.0.0/29", cooldownSeconds: 0 });
  boot("11111111-2222-4333-8444-555555555555");
  daemon = await TestDaemon.start({ directory, args });
  const first = namespaceFile("first");
  const before = await daemon.cni("ADD", "web", { config, netns: first });
  expect(await inDirectory("backup", "old.db")).toMatchObject({ code: 0 });
  await daemon.end();

  boot("22222222-3333-4444-8555-666666666666");
  const second = namespaceFile("second");
  rmSync(first);
  daemon = await TestDaemon.start({ directory, args });
  const ip = before.json().ips[0].address.split("/")[0];
  const after = await daemon.cni("ADD", "web", { config, netns: second, args: `IP=${ip}` });
  expect(after).toMatchObject({ code: 0, stdout: before.stdout });

  expect(await inDirectory("rebuild", "--from", "old.db", "--replace")).toMatchObject({
    code: 0,
    stderr: "",
  });
  for (let n = 1; n <= 6; n += 1) {
    const { code, stdout } = await daemon.cni("ADD", `new-${n}`, { config });
    expect({ n, code, stdout }).toMatchObject({ n, code: n === 6 ? 1 : 0 });
    expect(stdout).not.toContain(`"${ip}/`);
  }
  expect(await daemon.cli("check")).toMatchObject({ code: 0 });
});

test("with a damaged database every command says what to do, and a rebuild from a backup restores everything", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  await daemon.cni("ADD", "web", { config: network("blue") });
  const before = (await daemon.cli("list", "-o", "json")).stdout;
  expect(await inDirectory("backup", "good.db")).toMatchObject({ code: 0 });
  await ruin();

  for (const args of [["networks"], ["list"], ["check"], ["who", "10.10.0.1"], ["backup", "bad.db"], ["claims"]]) {
    const { code, stdout, stderr } = await inDirectory(...args);
    expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: "" });
    expect(stderr).toContain("is damaged (page 1 of holdfast.db is not as it was written");
    expect(stderr).toContain("holdfast rebuild --from BACKUP, or --empty");
  }
  expect(await inDirectory("version")).toMatchObject({ code: 0 });

  const foreign = await inDirectory("rebuild", "--from", "state/rebuild-required");
  expect(foreign).toMatchObject({ code: 1, stdout: "" });
  expect(foreign.stderr).toContain("is not a sound holdfast backup");
  expect(await inDirectory("rebuild", "--from", "nothing.db")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`backup ${daemon.directory}/nothing.db does not exist`),
  });

  expect(await inDirectory("rebuild", "--from", "good.db")).toEqual({
    code: 0,
    stdout: `rebuilt from ${daemon.directory}/good.db; the daemon serves again\n`,
    stderr: expect.stringContaining(
      "attached since that backup was made are not known, and their addresses may be given again",
    ),
  });
  expect((await daemon.cli("list", "-o", "json")).stdout).toBe(before);
  expect(await daemon.cli("check")).toMatchObject({ code: 0 });
});

const NOT_COMPARED =
  "warning: the state is damaged and cannot tell which containers run: they are not compared with the backup\n";

test("rebuild warns that a damaged database cannot be compared with the backup", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  await daemon.cni("ADD", "web", { config: network("blue") });
  expect(await inDirectory("backup", "good.db")).toMatchObject({ code: 0 });
  await ruin();
  const missing = await inDirectory("rebuild", "--from", "nothing.db", "--replace");
  expect(missing.code).toBe(1);
  expect(missing.stderr.startsWith(`${NOT_COMPARED}error: from is `), missing.stderr).toBe(true);
  const { code, stderr } = await inDirectory("rebuild", "--from", "good.db", "--replace");
  expect(code).toBe(0);
  expect(stderr.startsWith(`${NOT_COMPARED}warning: containers that were attached since`), stderr).toBe(true);
  expect((await daemon.cli("list")).stdout).toContain("10.10.0.1/24");
});

test("a database that was damaged while the daemon runs can be replaced, and is not called sound", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  await daemon.cni("ADD", "web", { config: network("blue") });
  expect(await inDirectory("backup", "good.db")).toMatchObject({ code: 0 });
  await daemon.end();
  daemon = await TestDaemon.start({ directory: daemon.directory });
  const file = join(daemon.state, "holdfast.db");
  // As a disk does it: without a trace in the file's times, by which the daemon notices other programs.
  const times = join(daemon.directory, "times");
  daemon.process.kill("SIGSTOP");
  expect(await run("cp", ["-p", file, times])).toMatchObject({ code: 0 });
  writeFileSync(file, Buffer.alloc(statSync(file).size, 0x5a), { flag: "r+" });
  expect(await run("touch", ["-r", times, file])).toMatchObject({ code: 0 });
  daemon.process.kill("SIGCONT");
  expect((await inDirectory("rebuild", "--from", "good.db")).stderr).toContain(
    "error: replace is false: the state database is damaged and still in use; go on with --from BACKUP --replace",
  );
  const { code, stderr } = await inDirectory("rebuild", "--from", "good.db", "--replace");
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining(NOT_COMPARED) });
  expect((await daemon.cli("list")).stdout).toContain("10.10.0.1/24");
  expect(await daemon.cli("check")).toMatchObject({ code: 0 });
});

test("rebuild --empty warns of what is lost", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  await daemon.cni("ADD", "web", { config: network("blue") });
  await ruin();
  const { code, stdout, stderr } = await daemon.cli("rebuild", "--empty");
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: "started with an empty database; the daemon serves again\n",
  });
  expect(stderr).toMatch(/^warning: what running containers use is not known any more and may be given again/);
  expect(await daemon.cli("list")).toMatchObject({ code: 0, stdout: "", stderr: "no allocations\n" });
});

test("a sound database is not rebuilt", async () => {
  daemon = await TestDaemon.start({ directory: newDirectory() });
  for (const [says, ...args] of [
    ["empty is true", "--empty"],
    ["replace is false", "--from", "x.db"],
  ] as const) {
    const { code, stdout, stderr } = await daemon.cli("rebuild", ...args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain(`error: ${says}: the state database is in use and sound`);
  }
});
