/** The way out: stdout slow, full, gone or never there. */
import { describe, expect, test } from "vitest";
import { always, httpAnswer, startDaemon } from "./daemon.ts";
import { BINARIES, environmentOf, readSpool, runShim, temporaryDirectory } from "./harness.ts";

const LARGE = `{"x":"${"y".repeat(900_000)}"}`;

describe.each(BINARIES)("output, $build", (binary) => {
  test("a slow reader gets all of a large result", async () => {
    const daemon = await startDaemon(always(httpAnswer(200, LARGE)));
    const env = { ...environmentOf("ADD"), HOLDFAST_SOCKET: daemon.socketPath };
    const outcome = await runShim(binary, {
      env,
      onStart: ({ stdout }) => {
        stdout?.pause();
        setTimeout(() => stdout?.resume(), 300);
      },
    });
    expect(outcome.status).toBe(0);
    expect(outcome.stdout === LARGE).toBe(true);
  });

  test.each([
    ["closed", 'exec "$0" >&-', "Bad file descriptor"],
    ["full", 'exec "$0" > /dev/full', "No space left on device"],
  ])("stdout %s: said on stderr, exit 1", async (_reason, through, message) => {
    const daemon = await startDaemon(always(httpAnswer(200, LARGE)));
    const env = { ...environmentOf("ADD"), HOLDFAST_SOCKET: daemon.socketPath };
    const outcome = await runShim(binary, { env, through });
    expect(outcome).toMatchObject({ status: 1, stdout: "" });
    expect(outcome.stderr).toContain(`cannot write to stdout: ${message}`);
    expect(await runShim(binary, { env: { CNI_COMMAND: "ADD" }, through })).toMatchObject({ status: 1 });
    expect(await runShim(binary, { env: { CNI_COMMAND: "VERSION" }, through })).toMatchObject({ status: 1 });
  });

  test("a closed stdout does not crash the binary", async () => {
    const daemon = await startDaemon((connection) => setTimeout(() => connection.end(httpAnswer(200, LARGE)), 100));
    const env = { ...environmentOf("ADD"), HOLDFAST_SOCKET: daemon.socketPath };
    const outcome = await runShim(binary, { env, onStart: ({ stdout }) => stdout?.destroy() });
    expect(outcome).toMatchObject({ status: 1, stderr: expect.stringContaining("Broken pipe") });
  });

  test("a DEL succeeds and is spooled whatever its standard files are", async () => {
    const closed = [
      'exec "$0" <&-',
      'exec "$0" >&-',
      'exec "$0" 2>&-',
      'exec "$0" <&- >&- 2>&-',
      'exec "$0" 2>/dev/full',
    ];
    for (const through of closed) {
      const spool = temporaryDirectory();
      const env = { ...environmentOf("DEL"), HOLDFAST_SOCKET: "/nonexistent/x.sock", HOLDFAST_SPOOL: spool };
      expect(await runShim(binary, { env, through })).toMatchObject({ status: 0, stdout: "" });
      const [file, ...others] = readSpool(spool);
      expect(others).toEqual([]);
      expect(JSON.parse(file?.body.toString() ?? "")).toMatchObject({ command: "DEL" }); // and no message of ours in it
    }
  });

  test("a DEL whose output cannot be written has been carried out", async () => {
    const daemon = await startDaemon(always(httpAnswer(200, "{}")));
    const spool = temporaryDirectory();
    const env = { ...environmentOf("DEL"), HOLDFAST_SOCKET: daemon.socketPath, HOLDFAST_SPOOL: spool };
    expect(await runShim(binary, { env, through: 'exec "$0" > /dev/full' })).toMatchObject({ status: 0 });
    expect(readSpool(spool)).toEqual([]);
  });
});
