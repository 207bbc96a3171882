/** A daemon ends while it is asked: the plugin binary asks the next one, and a DEL goes to the spool at once. */
import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { pause } from "../harness/wait.ts";
import { always, httpAnswer, listen, type Script, startDaemon } from "./daemon.ts";
import {
  awayCode,
  BINARIES,
  cniError,
  runVerb,
  SHORT_LIMIT_MS,
  SPOOLING_OR_AT_ONCE,
  temporaryDirectory,
} from "./harness.ts";

const RESULT = '{"ips":[]}';
const LEAVING = '{"cniVersion":"1.0.0","code":11,"msg":"the daemon is ending","details":"another one will do it"}';
/** Until the test's own limit: what they wait for comes. */
const PATIENT = { HOLDFAST_SHIM_ABSENT_MS: "60000" };
const CARRIED = ["ADD", "CHECK", "GC"] as const;

/** How a daemon ends before its answer is whole. */
const ENDS: [string, Script][] = [
  ["without a word", (connection) => connection.end()],
  ["within the status line", always("HTTP/1.1 20")],
  ["within the head", always("HTTP/1.1 200 OK\r\nContent-Le")],
  ["before the blank line", always('HTTP/1.1 200 OK\r\n{"ips":[]}')],
  ["before the body", always("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")],
  ["within the body", always('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"ips"')],
];
/** And one that is told to end. */
const LEAVES: Script = (connection) => connection.end(leaving());

function leaving(): Buffer {
  const text = httpAnswer(503, LEAVING).toString();
  return Buffer.from(text.replace("\r\n", "\r\nRetry-After: 1\r\n"));
}

/** A daemon that ends in this way at its first requests. */
function endsFirst(times: number, end: Script): Script {
  let left = times;
  return (connection, body) => (left-- > 0 ? end(connection, body) : connection.end(httpAnswer(200, RESULT)));
}

describe.each(BINARIES)("the next daemon, $build", (binary) => {
  test.each([...ENDS, ["by leaving it to the next", LEAVES] as const])(
    "is asked the same after one that ended %s",
    async (_how, end) => {
      for (const verb of CARRIED) {
        const daemon = await startDaemon(endsFirst(3, end));
        const outcome = await runVerb(binary, verb, { socketPath: daemon.socketPath, env: PATIENT });
        expect(outcome).toMatchObject({ status: 0, stdout: RESULT });
        expect(daemon.requests).toHaveLength(4);
        expect(new Set(daemon.requests.map(({ body }) => body.toString())).size).toBe(1);
      }
    },
  );

  test("is asked where one ended with a connection in its queue", async () => {
    const socketPath = join(temporaryDirectory(), "holdfast.sock");
    const open: Socket[] = [];
    const first = createServer({ pauseOnConnect: true }, (connection) => open.push(connection));
    await once(first.listen(socketPath), "listening");
    const waiting = runVerb(binary, "ADD", { socketPath, env: PATIENT });
    await once(first, "connection");
    // With a request in it that nobody has read: the connection is reset.
    for (const connection of open) connection.destroy();
    await new Promise((done) => first.close(done));
    await pause(200);
    const next = await listen(socketPath, always(httpAnswer(200, RESULT)));
    onTestFinished(() => next.close());
    expect(await waiting).toMatchObject({ status: 0, stdout: RESULT });
  });

  test.each([...ENDS, ["by leaving it to the next", LEAVES] as const])(
    "is not waited for by STATUS and DEL: ended %s",
    async (_how, end) => {
      for (const verb of SPOOLING_OR_AT_ONCE) {
        const daemon = await startDaemon(end);
        const outcome = await runVerb(binary, verb, {
          socketPath: daemon.socketPath,
          env: { HOLDFAST_SHIM_ABSENT_MS: undefined },
        });
        expect(daemon.requests).toHaveLength(1);
        if (verb === "DEL") expect(outcome).toMatchObject({ status: 0, stdout: "", spooled: [{}] });
        else expect(outcome).toMatchObject({ status: 1 });
      }
    },
  );

  test("that never comes: says that nobody listens", async () => {
    const daemon = await startDaemon((connection) => {
      connection.destroy();
      rmSync(daemon.socketPath);
    });
    const env = { HOLDFAST_SHIM_ABSENT_MS: "300" };
    for (const verb of CARRIED.slice(0, 1)) {
      const outcome = await runVerb(binary, verb, { socketPath: daemon.socketPath, env });
      expect(cniError(outcome)).toMatchObject({
        code: 11,
        msg: `holdfast daemon not reachable at ${daemon.socketPath}: No such file or directory`,
        details: expect.stringMatching(/^start the daemon, or see in its log why it ended/),
      });
    }
  });

  test.each([
    ["without an answer", ENDS[0]?.[1] as Script, /ended while it answered$/],
    ["leaving it to the next", LEAVES, /^the daemon is ending$/],
  ])("whoever ends again and again, %s, is asked until the deadline, and not busily", async (_how, end, said) => {
    const daemon = await startDaemon(end);
    const env = { ...PATIENT, HOLDFAST_SHIM_TIMEOUT_MS: String(SHORT_LIMIT_MS) };
    const outcome = await runVerb(binary, "ADD", { socketPath: daemon.socketPath, env });
    expect(cniError(outcome)).toMatchObject({ code: 11, msg: expect.stringMatching(said) });
    expect(daemon.requests.length).toBeGreaterThan(1);
    expect(daemon.requests.length).toBeLessThanOrEqual(SHORT_LIMIT_MS / 50 + 1);
  });

  test("is not asked after an answer, whatever it was", async () => {
    for (const answer of [httpAnswer(503, LEAVING), httpAnswer(500, "broken"), "HTTP/2 200\r\n\r\n{}"]) {
      const daemon = await startDaemon(always(answer));
      const outcome = await runVerb(binary, "ADD", { socketPath: daemon.socketPath, env: PATIENT });
      expect(cniError(outcome).code).toBe(11);
      expect(daemon.requests).toHaveLength(1);
    }
  });

  test("without patience, what is said of an end is that the daemon ended, and that the kubelet repeats it", async () => {
    for (const [, end] of ENDS) {
      for (const verb of [...CARRIED, "STATUS"] as const) {
        const { socketPath } = await startDaemon(end);
        expect(cniError(await runVerb(binary, verb, { socketPath }))).toMatchObject({
          code: awayCode(verb),
          msg: `holdfast daemon at ${socketPath} ended while it answered`,
          details: expect.stringMatching(/kubelet repeats .* daemon's log/),
        });
      }
      const { socketPath } = await startDaemon(end);
      const { stderr, spooled } = await runVerb(binary, "DEL", { socketPath });
      expect(stderr).toContain("goes to the spool: holdfast daemon at");
      expect(stderr).toContain("ended while it answered");
      expect(spooled).toHaveLength(1);
    }
    const { socketPath } = await startDaemon(LEAVES);
    expect(await runVerb(binary, "ADD", { socketPath })).toMatchObject({ status: 1, stdout: LEAVING });
  });
});
