import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { HOLDFAST, network, run, TestDaemon } from "../harness/daemon.ts";
import { pause } from "../harness/wait.ts";

// Colours and progress are for people on a terminal; pipes get plain data and may close early.
let daemon: TestDaemon;

beforeAll(async () => {
  daemon = await TestDaemon.start();
  await daemon.cni("ADD", "web", { config: network("blue", { subnets: "10.10.0.2/31" }) });
  await daemon.cni("ADD", "db", { config: network("blue", { subnets: "10.10.0.2/31" }) });
});
afterAll(() => daemon.stop());

const ESCAPE = "\u001b[";

describe("a name from outside that would turn the text of a terminal around", () => {
  // Right-to-left override, an isolate, a character of no width, one beyond U+FFFF, a C1 control character.
  const name = "a\u202egpj\u2066b\u200bc\u{e0041}d\u009be";
  const raw = /[\u202a-\u202e\u2066-\u2069\u200b\u009b]|\u{e0041}/u;
  beforeAll(async () => {
    await daemon.cni("ADD", "odd", {
      config: network("odd"),
      args: `K8S_POD_NAMESPACE=shop;K8S_POD_UID=u1;K8S_POD_NAME=${name}`,
    });
  });

  test.each(["table", "wide", "json", "yaml"])("is escaped in -o %s", async (format) => {
    for (const command of [
      ["list", "--network", "odd"],
      ["history", "10.10.0.1", "--network", "odd"],
      ["show", "odd"],
    ]) {
      const { code, stdout } = await daemon.cli(...command, "-o", format);
      expect(code).toBe(0);
      expect(stdout).toContain("\\u202e");
      expect(stdout).not.toMatch(raw);
    }
  });

  test("and is parsed as the same name", async () => {
    const { stdout } = await daemon.cli("list", "--network", "odd", "-o", "yaml");
    expect(parse(stdout).items[0].owner.name).toBe(name);
    const json = JSON.parse((await daemon.cli("list", "--network", "odd", "-o", "json")).stdout);
    expect(json).toEqual(parse(stdout));
  });
});

describe.skipIf(!existsSync("/usr/bin/script"))("on a terminal", () => {
  const onTerminal = (command: string, env: Record<string, string> = {}) =>
    run("script", ["-qec", `${process.execPath} ${HOLDFAST} ${command}`, "/dev/null"], {
      HOLDFAST_SOCKET: daemon.socket,
      TERM: "xterm",
      NO_COLOR: "",
      ...env,
    });

  test("a full network, a verdict and an error are coloured", async () => {
    expect((await onTerminal("networks")).stdout).toContain(`${ESCAPE}31m0${ESCAPE}0m`);
    expect((await onTerminal("check")).stdout).toContain(`${ESCAPE}32mok:${ESCAPE}0m`);
    expect((await onTerminal("show nowhere")).stdout).toContain(
      `${ESCAPE}31merror:${ESCAPE}0m there is no network nowhere`,
    );
  });

  test("not with NO_COLOR, not on a dumb terminal, never in json", async () => {
    expect((await onTerminal("networks", { NO_COLOR: "1" })).stdout).not.toContain(ESCAPE);
    expect((await onTerminal("networks", { TERM: "dumb" })).stdout).not.toContain(ESCAPE);
    expect((await onTerminal("networks -o json")).stdout).not.toContain(ESCAPE);
  });

  test("a long name is cut, and widens no line; in a pipe it is whole", async () => {
    const long = "x".repeat(2_000);
    const args = `K8S_POD_NAMESPACE=shop;K8S_POD_UID=u1;K8S_POD_NAME=${long}`;
    await daemon.cni("ADD", "long", { config: network("long"), args });
    await daemon.cni("ADD", "short", { config: network("long") });
    const { stdout } = await onTerminal("list --network long -o wide");
    expect(stdout).toContain("xxx…   ");
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThan(600);
    const piped = (await daemon.cli("list", "--network", "long", "-o", "wide")).stdout;
    expect(piped).toContain(long);
    expect(piped.split("\n").find((line) => line.includes("container short"))?.length).toBeLessThan(600);
  });

  test("an apply shows how far it is, and the last line counts what was applied", async () => {
    const file = join(daemon.directory, "apply.yaml");
    const claim = (name: string) =>
      `---\napiVersion: k8s.cni.cncf.io/v1alpha1\nkind: IPAMClaim\nmetadata: {name: ${name}}\nspec: {network: apply}\n`;
    writeFileSync(file, `${claim("a")}${claim("NO")}${claim("b")}`);
    daemon.process.kill("SIGSTOP");
    const answer = onTerminal(`apply -f ${file}`);
    await pause(2_500);
    daemon.process.kill("SIGCONT");
    const { code, stdout } = await answer;
    expect(code).toBe(1);
    expect(stdout).toContain(`0 of 3 objects\r${ESCAPE}Kipamclaim/default/a created`);
    expect(stdout.trimEnd().split("\r\n").at(-1)).toBe(
      "note: 2 objects applied (2 created); the errors name what was not applied. Applying the same files again changes only what differs",
    );
  });

  test("a wait of more than a second shows its progress, which is erased at the end", async () => {
    daemon.process.kill("SIGSTOP");
    const answer = onTerminal(`backup ${daemon.directory}/slow.db`);
    await pause(2_500);
    daemon.process.kill("SIGCONT");
    const { stdout } = await answer;
    expect(stdout).toContain(`writing ${daemon.directory}/slow.db`);
    expect(stdout).toContain(`\r${ESCAPE}K${daemon.directory}/slow.db written`);
  });
});

test("in a pipe there is neither colour nor progress", async () => {
  for (const args of [["networks"], ["check"], ["show", "nowhere"], ["who", "10.99.0.1"]]) {
    const { stdout, stderr } = await daemon.cli(...args);
    expect(stdout + stderr).not.toContain(ESCAPE);
  }
});

test("a name from outside cannot write to the terminal of who reads it", async () => {
  const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web\u001b[2J\u0007;K8S_POD_UID=u1";
  expect((await daemon.cni("ADD", "evil", { config: network("red"), args })).code).toBe(0);
  for (const format of ["table", "wide"]) {
    const { stdout } = await daemon.cli("list", "--network", "red", "-o", format);
    expect(stdout).toContain("web\\u001b[2J\\u0007");
    expect(stdout).not.toContain(ESCAPE);
  }
  expect((await daemon.cli("show", "red\u001b[2J")).stderr).toBe(
    "error: there is no network red\\u001b[2J\nhint: holdfast networks shows those that there are\n",
  );
});

describe("a reader that closes early", () => {
  const CLAIMS = 3_000;
  beforeAll(async () => {
    const objects = Array.from({ length: CLAIMS }, (_, n) => ({
      apiVersion: "k8s.cni.cncf.io/v1alpha1",
      kind: "IPAMClaim",
      metadata: { name: `c${n}` },
      spec: { network: "big" },
      status: { ips: [`10.20.${n >> 8}.${n & 255}/16`] },
    }));
    expect((await daemon.post("/v1/apply", { objects })).status).toBe(200);
  });

  test.each([
    ["list | head -1", "NETWORK"],
    ["list -o json | head -1", "{"],
    ["claims -o yaml | head -1", "apiVersion: v1"],
    ["networks | true", ""],
  ])("%s exits without an error", async (command, beginning) => {
    const shell = `set -o pipefail; ${process.execPath} ${HOLDFAST} ${command}`;
    const { code, stdout, stderr } = await run("bash", ["-c", shell], { HOLDFAST_SOCKET: daemon.socket });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.startsWith(beginning)).toBe(true);
  });

  test("a closed stderr is no failure", async () => {
    const shell = `${process.execPath} ${HOLDFAST} show nowhere 2> >(true); sleep 0.1`;
    expect((await run("bash", ["-c", shell], { HOLDFAST_SOCKET: daemon.socket })).stderr).toBe("");
  });

  const mayMount = spawnSync("unshare", ["-m", "true"]).status === 0;
  test.skipIf(!mayMount)("a file that a full disk cuts off is a failure", async () => {
    const shell = `mount -t tmpfs -o size=64k tmpfs ${daemon.spool} && ${process.execPath} ${HOLDFAST} list > ${daemon.spool}/list.txt`;
    const { code, stderr } = await run("unshare", ["-m", "bash", "-c", shell], {
      HOLDFAST_SOCKET: daemon.socket,
    });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr:
        "error: the answer cannot be written: ENOSPC: no space left on device, write\n" +
        "hint: do not use what was written so far: it is not whole\n",
    });
  });

  test("a full device is a failure for stdout, but not for stderr", async () => {
    const shell = (redirection: string) =>
      run("bash", ["-c", `${process.execPath} ${HOLDFAST} networks ${redirection}`], {
        HOLDFAST_SOCKET: daemon.socket,
      });
    expect(await shell("> /dev/full")).toMatchObject({ code: 1, stderr: expect.stringContaining("ENOSPC") });
    expect(await shell("--network x 2> /dev/full")).toMatchObject({ code: 2 });
    expect(await shell("2> /dev/full")).toMatchObject({ code: 0 });
  });

  test("a long table arrives whole", async () => {
    const { stdout } = await daemon.cli("list", "--network", "big");
    expect(stdout.trimEnd().split("\n").length).toBe(1 + CLAIMS);
  });
});
