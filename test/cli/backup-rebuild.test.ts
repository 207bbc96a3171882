import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { HOLDFAST, network, newFolder, run, TestDaemon, until } from "../harness/daemon.ts";

let daemon: TestDaemon;

afterEach(() => daemon.stop());

/** Runs the command line in the daemon's folder. */
function inFolder(...args: string[]) {
  return run(
    "bash",
    ["-c", `cd ${daemon.folder} && exec ${process.execPath} ${HOLDFAST} "$@"`, "bash", ...args],
    {
      HOLDFAST_SOCKET: daemon.socket,
    },
  );
}

/** Stops the daemon, ruins its database and starts it again: it waits for an operator. */
async function ruin(): Promise<void> {
  await daemon.end();
  writeFileSync(join(daemon.state, "holdfast.db"), "this was a database");
  daemon = await TestDaemon.start({ folder: daemon.folder, wait: false });
  await until(async () => (await daemon.get("/healthz").catch(() => null))?.status === 200, "the socket");
}

test("a relative path is relative to where the operator is", async () => {
  daemon = await TestDaemon.start({ folder: newFolder() });
  mkdirSync(join(daemon.folder, "backups"));
  const { code, stdout, stderr } = await inFolder("backup", "backups/today.db");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/\/backups\/today\.db written, \d+ KiB\n$/);
  expect(stdout.startsWith(daemon.folder)).toBe(true);
  expect(statSync(join(daemon.folder, "backups/today.db")).mode & 0o777).toBe(0o600);

  expect(await inFolder("backup", "backups/today.db")).toEqual({
    code: 1,
    stdout: "",
    stderr: `error: path is ${daemon.folder}/backups/today.db: that file exists; name a new one\nhint: correct the request; it changed nothing\n`,
  });
  const nowhere = await inFolder("backup", "nowhere/today.db");
  expect(nowhere).toMatchObject({ code: 1, stdout: "" });
  expect(nowhere.stderr).toContain(
    `path is ${daemon.folder}/nowhere/today.db: the daemon cannot write there`,
  );
});

test("a damaged database: every command says what to do, and a backup brings everything back", async () => {
  daemon = await TestDaemon.start({ folder: newFolder() });
  await daemon.cni("ADD", "web", { config: network("blue") });
  const before = (await daemon.cli("list", "-o", "json")).stdout;
  expect(await inFolder("backup", "good.db")).toMatchObject({ code: 0 });
  await ruin();

  for (const args of [
    ["networks"],
    ["list"],
    ["check"],
    ["who", "10.10.0.1"],
    ["backup", "bad.db"],
    ["claims"],
  ]) {
    const { code, stdout, stderr } = await inFolder(...args);
    expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: "" });
    expect(stderr).toContain("is damaged (file is not a database)");
    expect(stderr).toContain("holdfast rebuild --from BACKUP, or --empty");
  }
  expect(await inFolder("version")).toMatchObject({ code: 0 });

  const foreign = await inFolder("rebuild", "--from", "state/rebuild-required");
  expect(foreign).toMatchObject({ code: 1, stdout: "" });
  expect(foreign.stderr).toContain("is not a sound holdfast backup");
  expect(await inFolder("rebuild", "--from", "nothing.db")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`backup ${daemon.folder}/nothing.db does not exist`),
  });

  expect(await inFolder("rebuild", "--from", "good.db")).toEqual({
    code: 0,
    stdout: `rebuilt from ${daemon.folder}/good.db; the daemon serves again\n`,
    stderr: "",
  });
  expect((await daemon.cli("list", "-o", "json")).stdout).toBe(before);
  expect(await daemon.cli("check")).toMatchObject({ code: 0 });
});

test("rebuilding empty warns of what is not known any more", async () => {
  daemon = await TestDaemon.start({ folder: newFolder() });
  await daemon.cni("ADD", "web", { config: network("blue") });
  await ruin();
  const { code, stdout, stderr } = await daemon.cli("rebuild", "--empty");
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: "started anew with an empty database; the daemon serves again\n",
  });
  expect(stderr).toMatch(
    /^warning: what running containers use is not known any more and may be given again/,
  );
  expect(await daemon.cli("list")).toMatchObject({ code: 0, stdout: "", stderr: "no allocations\n" });
});

test("a sound database is not rebuilt", async () => {
  daemon = await TestDaemon.start({ folder: newFolder() });
  for (const args of [["--empty"], ["--from", "x.db"]]) {
    const { code, stdout, stderr } = await daemon.cli("rebuild", ...args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("the state database is in use and sound");
  }
});
