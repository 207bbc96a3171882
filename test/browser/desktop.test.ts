/** What everybody on the machine can see while `holdfast ui` opens the page by itself, with a browser that is real. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { cleanEnv, HOLDFAST, run, TestDaemon } from "../harness/daemon.ts";
import { requireRoot, requireTool } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";
import { whyNoBrowser } from "./page.ts";
import { apply, nad } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();
/** Nobody else of the machine. */
const READER = 200_000 + process.pid;
const NOBODY = "65534";
/** All that another user can read of every process. */
const SEEN_BY_ALL =
  "ps -ww -e -o pid,args; ps e -ww -e; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/[0-9]*/comm | tr '\\\\0' ' '";

describe.skipIf(reason !== null)("holdfast ui on a desktop", () => {
  let daemon: TestDaemon;
  /** The reader's home, with temporary files and programs. */
  let home: string;
  let child: ChildProcess | null;
  let said: string;
  beforeEach(async () => {
    child = null;
    said = "";
    daemon = await TestDaemon.start();
    await apply(daemon, [nad("blue", { subnets: "192.168.10.0/24" })]);
    home = mkdtempSync(join(tmpdir(), "holdfast-reader-"));
    for (const name of ["bin", "tmp"]) mkdirSync(join(home, name));
  });
  afterEach(async () => {
    child?.kill("SIGKILL");
    for (const pid of pidsOf(READER)) if (pid !== child?.pid) process.kill(pid, "SIGKILL");
    await until(() => pidsOf(READER).length === 0, "the end of the reader's processes");
    await daemon.stop();
    rmSync(home, { recursive: true, force: true });
  });

  /** As a user with a terminal and a desktop, where `opener` is what opens addresses. */
  const open = (opener: string, environment: NodeJS.ProcessEnv = {}) => {
    writeFileSync(join(home, "bin/xdg-open"), `#!/bin/sh\n${opener}\n`, { mode: 0o755 });
    for (const path of [home, join(home, "bin"), join(home, "tmp")]) chownSync(path, READER, READER);
    chmodSync(dirname(daemon.socket), 0o711);
    chownSync(daemon.socket, READER, READER);
    const command = [process.execPath, HOLDFAST, "ui", "--socket", daemon.socket].join(" ");
    const words = [
      "--reuid",
      `${READER}`,
      "--regid",
      `${READER}`,
      "--clear-groups",
      "--inh-caps=-all",
      "script",
      "-qec",
      command,
      "/dev/null",
    ];
    const env = {
      ...cleanEnv(),
      ...{ HOME: home, TMPDIR: join(home, "tmp"), DISPLAY: ":99", PATH: `${home}/bin:${process.env.PATH}` },
      ...environment,
    };
    child = spawn("setpriv", words, { env, stdio: ["pipe", "pipe", "pipe"], cwd: home });
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk: Buffer) => {
        said += chunk.toString();
      });
    return until(
      () => /[?#]t=[\w-]{32}/.test(said),
      () => `the URL in ${said}`,
    );
  };
  const token = () => /[?#]t=([\w-]{32})/.exec(said)?.[1] as string;
  const asNobody = async (command: string) => {
    const { stdout } = await run("setpriv", [
      "--reuid",
      NOBODY,
      "--regid",
      NOBODY,
      "--clear-groups",
      "sh",
      "-c",
      command,
    ]);
    return stdout;
  };
  const leading = () => readdirSync(join(home, "tmp")).filter((name) => name.startsWith("holdfast-ui-"));

  test("shows nobody the token: not in arguments, environments or files, and the browser finds the page", async (context) => {
    requireRoot(context);
    for (const [tool, ...words] of [
      ["setpriv", "--version"],
      ["script", "--version"],
      ["ps", "--version"],
    ] as const)
      requireTool(context, tool, ...words);
    // A browser names what it opens in its arguments for as long as it runs.
    await open(`
      echo "$@" > ${home}/opened
      until test -e ${home}/go; do sleep 0.05; done
      exec chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=${home}/profile "$@" > ${home}/chromium.log 2>&1
    `);
    await until(
      () => existsSync(join(home, "opened")),
      () => `the browser; ${said}`,
    );
    const [name] = leading();
    const file = join(home, "tmp", `${name}`, "open.html");
    expect(readFileSync(join(home, "opened"), "utf8")).toBe(`${file}\n`);
    expect(statSync(file)).toMatchObject({ mode: 0o100600, uid: READER });
    expect(statSync(dirname(file)).mode & 0o7777).toBe(0o700);
    expect(readFileSync(file, "utf8")).toContain(token());
    chmodSync(home, 0o755);
    chmodSync(join(home, "tmp"), 0o755);
    expect(await asNobody(`cat ${file} ${dirname(file)}/* 2>&1`)).toMatch(/Permission denied/);
    for (const step of ["before", "after"] as const) {
      const seen = await asNobody(SEEN_BY_ALL);
      // It does see the processes.
      expect(seen).toContain(file);
      expect(seen).toContain("holdfast ui");
      expect(seen, `${step} the browser has the page`).not.toContain(token());
      for (const pid of pidsOf(READER))
        for (const part of ["cmdline", "environ", "comm"]) expect(procFile(pid, part), part).not.toContain(token());
      if (step === "after") break;
      writeFileSync(join(home, "go"), "");
      // The page has asked with its token: what led there is gone.
      await until(
        () => leading().length === 0,
        () => `the page: ${readFileSync(join(home, "chromium.log"), "utf8")}`,
      );
    }
  });

  test("removes what leads to the page when it ends, whether a browser came or not", async (context) => {
    requireRoot(context);
    requireTool(context, "script", "--version");
    await open("exit 3");
    await until(() => leading().length === 1, "the file");
    const pid = pidsOf(READER).find((one) => procFile(one, "cmdline").startsWith(`${process.execPath}\0`));
    const ended = once(child as ChildProcess, "exit");
    process.kill(pid as number, "SIGTERM");
    await ended;
    expect(leading()).toEqual([]);
  });

  test("without a place for that file, prints the URL and goes on", async (context) => {
    requireRoot(context);
    requireTool(context, "script", "--version");
    await open("exit 0", { TMPDIR: join(home, "none") });
    const { port } = new URL(/http:\S+/.exec(said)?.[0] as string);
    const { status } = await fetch(`http://127.0.0.1:${port}/api/v1/networks`, {
      headers: { authorization: `Bearer ${token()}` },
    });
    expect(status).toBe(200);
  });
});

/** "" of a process that has ended meanwhile. */
function procFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return "";
  }
}

function pidsOf(uid: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const status = procFile(pid, "status");
      return new RegExp(`^Uid:\\s+${uid}\\s`, "m").test(status) && !/^State:\s+Z/m.test(status);
    });
}
