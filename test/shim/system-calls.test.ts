/** What only the system calls show: the order that makes a spooled DEL durable, faults in the middle, and thrift. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, type TestContext, test } from "vitest";
import { requireTool } from "../harness/needs.ts";
import { always, httpAnswer, startDaemon } from "./daemon.ts";
import {
  BINARIES,
  type Binary,
  type Environment,
  environmentOf,
  readSpool,
  runShim,
  temporaryDirectory,
  type Verb,
} from "./harness.ts";

/** Runs the shim under strace with `options`; the calls it logged, one a line, file descriptors with their paths. */
async function trace(context: TestContext, binary: Binary, env: Environment, options: string, redirect = "") {
  requireTool(context, "strace", "-o", "/dev/null", "true");
  const log = join(temporaryDirectory(), "trace");
  const outcome = await runShim(binary, {
    env: { ...env, LOG: log },
    through: `exec strace -y -o "$LOG" ${options} "$0" ${redirect}`,
  });
  return { ...outcome, calls: readFileSync(log, "utf8").split("\n") };
}

const away = (spool: string): Environment => ({
  ...environmentOf("DEL"),
  HOLDFAST_SOCKET: "/nonexistent/x.sock",
  HOLDFAST_SPOOL: spool,
});

describe.each(BINARIES)("a daemon that is not there, $build", (binary) => {
  const connects = async (context: TestContext, verb: Verb, env: Environment) => {
    const all = { ...away(temporaryDirectory()), ...environmentOf(verb), ...env };
    const { calls } = await trace(context, binary, all, "-e trace=connect");
    return calls.filter((call) => call.startsWith("connect(")).length;
  };

  test.for(["DEL", "STATUS"] as const)("%s asks once: it has the spool, or is asked again", async (verb, context) => {
    expect(await connects(context, verb, { HOLDFAST_SHIM_ABSENT_MS: undefined })).toBe(1);
  });

  test.for(["ADD", "CHECK", "GC"] as const)("%s asks again for a while", async (verb, context) => {
    expect(await connects(context, verb, { HOLDFAST_SHIM_ABSENT_MS: "500" })).toBeGreaterThan(1);
  });
});

describe.each(BINARIES)("system calls of the spool, $build", (binary) => {
  test("the file is synced, then renamed, then the directory is synced", async (context) => {
    const spool = temporaryDirectory();
    const { calls } = await trace(
      context,
      binary,
      away(spool),
      "-e trace=openat,write,fsync,rename,renameat,renameat2",
    );
    const name = readSpool(spool)[0]?.name ?? "none";
    const position = (pattern: string) => {
      const at = calls.findIndex((call) => new RegExp(pattern).test(call));
      expect(at, `${pattern} in\n${calls.join("\n")}`).toBeGreaterThanOrEqual(0);
      return at;
    };
    const order = [
      position(`^openat\\(.*"\\.tmp-${name}", O_WRONLY\\|O_CREAT\\|O_EXCL\\|O_CLOEXEC, 0600\\) = `),
      position(`^write\\(\\d+<${spool}/\\.tmp-${name}>, .* = \\d+$`),
      position(`^fsync\\(\\d+<${spool}/\\.tmp-${name}>\\) += 0$`),
      position(`^renameat2\\(.*"\\.tmp-${name}".*"${name}", RENAME_NOREPLACE\\) = 0$`),
      position(`^fsync\\(\\d+<${spool}>\\) += 0$`),
    ];
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  });

  test("each directory it makes is synced in its parent", async (context) => {
    const root = temporaryDirectory();
    const { calls } = await trace(context, binary, away(join(root, "a/b")), "-e trace=mkdirat,fsync");
    const made = calls.map((call) => /^(mkdirat\(\d+<.*>, "[ab]"|fsync\(\d+<[^>]*>)/.exec(call)?.[0]);
    expect(made.filter((call) => call !== undefined && !call.includes(".tmp-"))).toEqual([
      expect.stringMatching(`^mkdirat\\(\\d+<${root}>, "a"`),
      expect.stringMatching(`^fsync\\(\\d+<${root}>`),
      expect.stringMatching(`^mkdirat\\(\\d+<${root}/a>, "b"`),
      expect.stringMatching(`^fsync\\(\\d+<${root}/a>`),
      expect.stringMatching(`^fsync\\(\\d+<${root}/a/b>`),
    ]);
  });

  /** The write to the file is the second: the first says on stderr that the DEL goes to the spool. */
  test.for([
    ["no space while writing", "write:error=ENOSPC:when=2", "No space left on device"],
    ["a disk error while syncing", "fsync:error=EIO:when=1", "Input/output error"],
    ["a rename that fails", "renameat2:error=EROFS", "Read-only file system"],
    ["a name that stays taken", "renameat2:error=EEXIST", "File exists"],
  ])("%s: said, exit 0, no file left", async ([_reason, fault, message], context) => {
    const spool = temporaryDirectory();
    const outcome = await trace(context, binary, away(spool), `-e inject=${fault}`);
    expect(outcome).toMatchObject({
      status: 0,
      stdout: "",
      stderr: expect.stringContaining(`lost: spool directory ${spool}: ${message}`),
    });
    expect(readSpool(spool)).toEqual([]);
  });

  test("a taken name makes it take the next; an interrupted write goes on", async (context) => {
    const spool = temporaryDirectory();
    await trace(context, binary, away(spool), "-e inject=renameat2:error=EEXIST:when=1");
    await trace(context, binary, away(spool), "-e inject=write:error=EINTR:when=2");
    expect(readSpool(spool).map(({ name }) => name.replace(/^\d+-\d+/, ""))).toEqual(["-1.json", "-0.json"]);
  });

  test.for(["EINVAL", "ENOSYS"])("a file system without RENAME_NOREPLACE (%s) still spools", async (error, context) => {
    const spool = temporaryDirectory();
    await trace(context, binary, away(spool), `-e inject=renameat2:error=${error}`);
    expect(readSpool(spool)).toHaveLength(1);
  });

  test("the directory's sync that fails is said; the file stays", async (context) => {
    const spool = temporaryDirectory();
    const outcome = await trace(context, binary, away(spool), "-e inject=fsync:error=EIO:when=2");
    expect(outcome).toMatchObject({ status: 0, stderr: expect.stringContaining("Input/output error") });
    expect(readSpool(spool)).toHaveLength(1);
  });

  test("killed before the rename, it leaves no file but a temporary one", async (context) => {
    requireTool(context, "strace", "-o", "/dev/null", "true");
    const spool = temporaryDirectory();
    const through = '(strace -o /dev/null -e inject=fsync:signal=KILL:when=1 "$0"); true'; // strace dies of the same signal
    await runShim(binary, { env: away(spool), through });
    expect(readSpool(spool).map(({ name }) => name)).toEqual([expect.stringMatching(/^\.tmp-/)]);
  });
});

describe.each(BINARIES)("system calls of an exchange, $build", (binary) => {
  const served = async () => {
    const daemon = await startDaemon(always(httpAnswer(200, '{"ips":[]}')));
    return { ...environmentOf("ADD"), HOLDFAST_SOCKET: daemon.socketPath };
  };

  test("head and body leave in one write, and ADD may take 60 s", async (context) => {
    const { calls, status } = await trace(context, binary, await served(), "-e trace=sendmsg,poll");
    expect(status).toBe(0);
    expect(calls.filter((call) => call.startsWith("sendmsg("))).toHaveLength(1);
    const limits = calls.flatMap((call) => /^poll\(.*, 1, (\d+)\)/.exec(call)?.[1] ?? []).map(Number);
    expect(limits.length).toBeGreaterThan(0);
    for (const limit of limits) expect(limit).toSatisfy((ms: number) => ms > 5_000 && ms <= 60_000);
  });

  test("interrupted and postponed calls are repeated", async (context) => {
    const postponed = ["connect:error=EAGAIN", "sendmsg:error=EAGAIN", "recvfrom:error=EAGAIN", "write:error=EAGAIN"];
    const interrupted = ["poll:error=EINTR", "sendmsg:error=EINTR", "recvfrom:error=EINTR", "write:error=EINTR"];
    for (const fault of [...postponed, ...interrupted]) {
      const outcome = await trace(context, binary, await served(), `-e inject=${fault}:when=1`);
      expect(outcome, fault).toMatchObject({ status: 0, stdout: '{"ips":[]}' });
    }
  });

  test.for(["EINTR", "EAGAIN"])("a read of stdin that ends with %s is repeated", async (error, context) => {
    const source = join(temporaryDirectory(), "stdin.json");
    writeFileSync(source, "{}");
    const options = `-P ${source} -e inject=read:error=${error}:when=1`;
    const outcome = await trace(context, binary, await served(), options, `< ${source}`);
    expect(outcome).toMatchObject({ status: 0, stdout: '{"ips":[]}' });
    expect(outcome.calls.filter((call) => call.startsWith("read(0"))).toHaveLength(3); // fault, content, end
  });

  test("no file descriptor left for the socket is an error like any other", async (context) => {
    const outcome = await trace(context, binary, await served(), "-e inject=socket:error=EMFILE");
    expect(JSON.parse(outcome.stdout)).toMatchObject({
      code: 11,
      msg: expect.stringContaining("Too many open files"),
    });
  });
});

/** The defaults are a real node's paths: every call that would reach them is made to fail. */
describe.each(BINARIES)("system calls of the defaults, $build", (binary) => {
  const env = { ...environmentOf("DEL"), HOLDFAST_SHIM_CONF: undefined };

  test("socket, shim.conf and spool are where the documentation says", async (context) => {
    const options = "-P /etc/holdfast/shim.conf -P /var/lib/holdfast/spool -e inject=openat:error=EACCES";
    const noDaemon = "-e inject=connect:error=ECONNREFUSED";
    const spoolOnly = await trace(context, binary, { ...env, HOLDFAST_SOCKET: "/nonexistent/x.sock" }, options);
    expect(spoolOnly.stderr).toContain("goes on with defaults: /etc/holdfast/shim.conf: Permission denied");
    expect(spoolOnly.stderr).toContain("lost: spool directory /var/lib/holdfast/spool: Permission denied");

    const spool = temporaryDirectory();
    const conf = join(spool, "none.conf");
    const socketOnly = await trace(
      context,
      binary,
      { ...away(spool), HOLDFAST_SOCKET: "", HOLDFAST_SHIM_CONF: conf },
      noDaemon,
    );
    expect(socketOnly.stderr).toContain("not reachable at /run/holdfast/holdfast.sock: Connection refused");
    expect(readSpool(spool)).toHaveLength(1);
  });
});
