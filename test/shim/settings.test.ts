/** Where the shim finds the daemon and the spool: environment, `shim.conf`, defaults. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { always, type Daemon, httpAnswer, startDaemon } from "./daemon.ts";
import {
  BINARIES,
  type Binary,
  cniError,
  type Environment,
  environmentOf,
  readSpool,
  runShim,
  temporaryDirectory,
} from "./harness.ts";

const RESULT = '{"ips":[]}';
const FAILING = ["ADD", "CHECK", "GC", "STATUS"] as const;
const answering = () => startDaemon(always(httpAnswer(200, RESULT)));

/** Writes a shim.conf and returns the environment that makes the shim read it. */
function conf(content: string | Buffer): { path: string; env: Environment } {
  const path = join(temporaryDirectory(), "shim.conf");
  writeFileSync(path, content);
  return { path, env: { HOLDFAST_SHIM_CONF: path } };
}

const add = (binary: Binary, env: Environment) => runShim(binary, { env: { ...environmentOf("ADD"), ...env } });
const del = (binary: Binary, env: Environment) => runShim(binary, { env: { ...environmentOf("DEL"), ...env } });

async function expectServed(binary: Binary, daemon: Daemon, env: Environment) {
  const before = daemon.requests.length;
  expect(await add(binary, env)).toMatchObject({ status: 0, stdout: RESULT });
  expect(daemon.requests).toHaveLength(before + 1);
}

/** What is wrong, the file's content, and the message after the file's name. */
const FAULTY: [string, string | Buffer, string][] = [
  ["a key of before", "boot-id-file=/run/x\n", ' line 1: unknown key "boot-id-file"'],
  ["an unknown key", "# ours\n\nsokcet=/run/x.sock\n", ' line 3: unknown key "sokcet"'],
  ["an empty key", "=/run/x.sock", ' line 1: unknown key ""'],
  ["a key of another case", "Socket=/run/x.sock", ' line 1: unknown key "Socket"'],
  ["no =", "socket /run/x.sock", ' line 1: "socket /run/x.sock" has no ='],
  ["quotes", 'socket="/run/x"', ' line 1: the value of "socket" is "/run/x"'],
  ["a comment after a value", "spool=/run/x # here", ' line 1: the value of "spool" is /run/x # here'],
  ["no value", "\nspool = \n", ' line 2: key "spool" has no value'],
  ["a key twice", "spool=/a\nspool=/b\n", ' line 2: key "spool" is given twice'],
  ["the first of two faults", "a=b\nc\n", ' line 1: unknown key "a"'],
  ["not text", Buffer.from([0x23, 0x00, 0x0a]), ": longer than 16384 bytes, or not text"],
  ["endless", "#\n".repeat(10_000), ": longer than 16384 bytes, or not text"],
];

describe.each(BINARIES)("settings, $build", (binary) => {
  test("shim.conf names socket and spool; comments, blanks and Windows line ends are nothing", async () => {
    const daemon = await answering();
    const spool = temporaryDirectory();
    const lines = ["# the daemon", "", `  socket =\t${daemon.socketPath}  `, "\t", `spool=${spool}`];
    await expectServed(binary, daemon, conf(lines.join("\n")).env);
    await expectServed(binary, daemon, conf(lines.join("\r\n")).env);

    await daemon.close();
    await del(binary, conf(lines.join("\n")).env);
    expect(readSpool(spool)).toHaveLength(1);
  });

  test("a value keeps = # and blanks within it", async () => {
    const spool = join(temporaryDirectory(), "a b=c#d");
    await del(binary, { ...conf(`spool = ${spool}`).env, HOLDFAST_SOCKET: "/nonexistent/x.sock" });
    expect(readSpool(spool)).toHaveLength(1);
  });

  test("the environment goes before shim.conf, each variable for itself", async () => {
    const daemon = await answering();
    const [confSpool, envSpool] = [temporaryDirectory(), temporaryDirectory()];
    const { env } = conf(`socket=/nonexistent/x.sock\nspool=${confSpool}`);
    await expectServed(binary, daemon, { ...env, HOLDFAST_SOCKET: daemon.socketPath });
    await del(binary, { ...env, HOLDFAST_SPOOL: envSpool });
    expect([readSpool(confSpool).length, readSpool(envSpool).length]).toEqual([0, 1]);
    await del(binary, { ...env, HOLDFAST_SPOOL: "" }); // empty is unset
    expect([readSpool(confSpool).length, readSpool(envSpool).length]).toEqual([1, 1]);
  });

  test("the boot is the first line of the file beside the socket, and the kernel's where there is none", async () => {
    const kernel = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const daemon = await answering();
    const file = `${daemon.socketPath}.boot`;
    const env = { HOLDFAST_SOCKET: daemon.socketPath };
    await expectServed(binary, daemon, env);
    const texts = [
      ["a-boot\nand more\n", "a-boot"],
      ["b", "b"],
      ["", kernel],
      ["\n", kernel],
      [`${"c".repeat(100)}\n`, "c".repeat(63)],
    ] as const;
    for (const [text] of texts) {
      writeFileSync(file, text);
      await expectServed(binary, daemon, conf(`socket=${daemon.socketPath}`).env);
      await del(binary, env);
    }
    rmSync(file);
    // Nobody will ever write to it.
    execFileSync("mkfifo", [file]);
    await expectServed(binary, daemon, env);
    const said = daemon.requests.map(({ body }) => JSON.parse(body.toString()).bootId);
    expect(said).toEqual([kernel, ...texts.flatMap(([, id]) => [id, id]), kernel]);
  });

  test.each(FAULTY)("refused with 7: %s", async (_reason, content, message) => {
    const { path, env } = conf(content);
    for (const verb of FAILING) {
      const error = cniError(await runShim(binary, { env: { ...environmentOf(verb), ...env } }));
      expect(error).toMatchObject({ code: 7, msg: `${path}${message}` });
    }
  });

  test("refused with 7: a file that cannot be read", async () => {
    const { path, env } = conf("");
    const directory = `${path}.d`;
    mkdirSync(directory);
    const error = cniError(await add(binary, { ...env, HOLDFAST_SHIM_CONF: directory }));
    expect(error).toMatchObject({ code: 7, msg: `${directory}: Is a directory` });
  });

  test("VERSION, and a call whose environment sets everything, ignore shim.conf", async () => {
    const { env } = conf("what?");
    expect(await runShim(binary, { env: { ...env, CNI_COMMAND: "VERSION" } })).toMatchObject({ status: 0 });
    const daemon = await answering();
    await expectServed(binary, daemon, { ...env, HOLDFAST_SOCKET: daemon.socketPath, HOLDFAST_SPOOL: "/x" });
  });

  test("a DEL reports wrong lines and uses the others", async () => {
    const daemon = await answering();
    const { path, env } = conf(`what?\nsocket=${daemon.socketPath}\n`);
    const outcome = await del(binary, env);
    expect(outcome).toMatchObject({ status: 0, stdout: RESULT });
    expect(outcome.stderr).toContain(`goes on with defaults: ${path} line 1: "what?" has no =`);
    expect(daemon.requests).toHaveLength(1);
  });

  test.each(["", "soon", "-1", "99999999999999999999", "1s"])("time limit %j is ignored", async (limit) => {
    const daemon = await answering();
    const env = { HOLDFAST_SOCKET: daemon.socketPath, HOLDFAST_SHIM_TIMEOUT_MS: limit };
    await expectServed(binary, daemon, env);
  });
});
