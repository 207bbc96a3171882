/** stdin: read to its end, bounded in bytes and in time; never a reason for a DEL to fail. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { always, httpAnswer, startDaemon, wireRequest } from "./daemon.ts";
import {
  BINARIES,
  cniError,
  environmentOf,
  readSpool,
  runShim,
  SHORT_LIMIT_MS,
  temporaryDirectory,
} from "./harness.ts";

const STDIN_BYTES_MAX = 512 * 1024;
const OK = always(httpAnswer(200, '{"ips":[]}'));

describe.each(BINARIES)("stdin, $build", (binary) => {
  const refused = ["ADD", "CHECK", "GC", "STATUS"] as const;

  test("one byte more than the bound: code 6", async () => {
    for (const verb of refused) {
      const call = { env: environmentOf(verb), stdin: Buffer.alloc(STDIN_BYTES_MAX + 1, 0x20) };
      expect(cniError(await runShim(binary, call))).toMatchObject({
        code: 6,
        msg: "network configuration on stdin is larger than 524288 bytes",
      });
    }
  });

  test("never closed: code 5 when the time is over", async () => {
    const calls = refused.map(async (verb) => {
      const env = { ...environmentOf(verb), HOLDFAST_SHIM_TIMEOUT_MS: String(SHORT_LIMIT_MS) };
      const outcome = await runShim(binary, { env, stdin: "open" });
      expect(cniError(outcome)).toMatchObject({
        code: 5,
        msg: "error reading from stdin: no end of file in time",
      });
      expect(outcome.elapsedMs).toBeGreaterThanOrEqual(SHORT_LIMIT_MS - 1);
    });
    await Promise.all(calls);
  });

  test("a directory, or no stdin at all: code 5", async () => {
    const directory = await runShim(binary, { env: environmentOf("ADD"), through: 'exec "$0" < /' });
    expect(cniError(directory)).toMatchObject({ code: 5, msg: "error reading from stdin: Is a directory" });
    const closed = await runShim(binary, { env: environmentOf("ADD"), through: 'exec "$0" <&-' });
    expect(cniError(closed)).toMatchObject({ code: 5, msg: "error reading from stdin: Bad file descriptor" });
  });

  test.each([
    ["too large", { stdin: Buffer.alloc(STDIN_BYTES_MAX + 1, 0x20) }],
    ["a directory", { through: 'exec "$0" < /' }],
  ])("%s: a DEL goes on without it, as it needs only the attachment", async (_reason, call) => {
    const daemon = await startDaemon(always(httpAnswer(200, "")));
    const env = { ...environmentOf("DEL"), HOLDFAST_SOCKET: daemon.socketPath };
    const outcome = await runShim(binary, { ...call, env });
    expect(outcome).toMatchObject({
      status: 0,
      stdout: "",
      stderr: expect.stringContaining("without its configuration"),
    });
    const request = wireRequest(daemon.requests[0]?.body ?? Buffer.alloc(0));
    expect(request).toMatchObject({ command: "DEL", containerId: "c0ffee", ifname: "net1", config: "" });
  });

  test("never closed: a DEL goes to the spool without it", async () => {
    const spool = temporaryDirectory();
    const env = {
      ...environmentOf("DEL"),
      HOLDFAST_SOCKET: "/nonexistent/holdfast.sock",
      HOLDFAST_SPOOL: spool,
      HOLDFAST_SHIM_TIMEOUT_MS: String(SHORT_LIMIT_MS),
    };
    expect(await runShim(binary, { env, stdin: "open" })).toMatchObject({ status: 0, stdout: "" });
    const [file] = readSpool(spool);
    expect(wireRequest(file?.body ?? Buffer.alloc(0))).toMatchObject({ containerId: "c0ffee", config: "" });
  });

  test("read to its end, however it is split, also from a file", async () => {
    const daemon = await startDaemon(OK);
    const env = { ...environmentOf("ADD"), HOLDFAST_SOCKET: daemon.socketPath };
    const slowly = await runShim(binary, {
      env,
      stdin: "open",
      onStart: (child) => {
        const pieces = ["{", '"a"', ":", "1}"];
        const timer = setInterval(() => {
          const piece = pieces.shift();
          if (piece !== undefined) child.stdin?.write(piece);
          else child.stdin?.end(() => clearInterval(timer));
        }, 20);
      },
    });
    expect(slowly.status).toBe(0);
    await runShim(binary, {
      env: { ...env, SOURCE: import.meta.filename },
      through: 'exec "$0" < "$SOURCE"',
    });
    expect(daemon.requests.map(({ body }) => wireRequest(body).config)).toEqual([
      '{"a":1}',
      readFileSync(import.meta.filename, "utf8"),
    ]);
  });
});
