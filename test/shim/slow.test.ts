/** The daemon is slow, overrun or hangs up. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { httpAnswer, startDaemon } from "./daemon.ts";
import {
  awayCode,
  BINARIES,
  cniError,
  expectAway,
  FAILING_VERBS,
  runVerb,
  SHORT_LIMIT_MS,
  temporaryDirectory,
  VERBS,
  type Verb,
} from "./harness.ts";

const RESULT = '{"ips":[]}';
const SHORT = { HOLDFAST_SHIM_TIMEOUT_MS: String(SHORT_LIMIT_MS) };

describe.each(BINARIES)("daemon slow, $build", (binary) => {
  const silent = "did not answer in time";

  test("no answer: given up at the deadline", async () => {
    const { socketPath } = await startDaemon(() => {});
    await expectAway(binary, { socketPath, env: SHORT }, `holdfast daemon at ${socketPath} ${silent}`);
  });

  test("bytes that trickle do not move the deadline", async () => {
    const trickle = (connection: Socket) => {
      connection.write("HTTP/1.1 200 OK\r\n");
      const timer = setInterval(() => connection.write("X: y\r\n"), 10);
      connection.on("close", () => clearInterval(timer));
    };
    const { socketPath } = await startDaemon(trickle);
    await expectAway(binary, { socketPath, env: SHORT }, `holdfast daemon at ${socketPath} ${silent}`);
  });

  test("a request that the daemon does not take is given up, too", async () => {
    const { socketPath } = await startDaemon(
      () => {},
      (connection) => connection.pause(),
    );
    const stdin = Buffer.alloc(512 * 1024, 0x20); // more than the socket's buffer
    const outcome = await runVerb(binary, "ADD", { socketPath, env: SHORT, stdin });
    expect(cniError(outcome).msg).toContain(silent);
  });

  test("an answer within the limit counts, however late", async () => {
    const { socketPath } = await startDaemon((connection) => {
      setTimeout(() => connection.end(httpAnswer(200, RESULT)), 500);
    });
    expect(await runVerb(binary, "ADD", { socketPath })).toMatchObject({ status: 0, stdout: RESULT });
  });
});

test("without the tests' limit, DEL and STATUS wait 5 s", async () => {
  const { socketPath } = await startDaemon(() => {});
  const calls = BINARIES.flatMap((binary) => [
    runVerb(binary, "DEL", { socketPath }),
    runVerb(binary, "STATUS", { socketPath }),
  ]);
  for (const { status, stdout, stderr, elapsedMs } of await Promise.all(calls)) {
    expect(stdout + stderr).toContain(status === 1 ? '"code":50' : "goes to the spool");
    expect(stdout + stderr).toContain("did not answer in time");
    expect(elapsedMs).toBeGreaterThanOrEqual(4_990);
    expect(elapsedMs).toBeLessThan(40_000); // not the 60 s of the others
  }
});

describe.each(BINARIES)("daemon hangs up, $build", (binary) => {
  test("before it reads anything: its answer counts", async () => {
    const refusal = '{"cniVersion":"1.0.0","code":11,"msg":"shutting down","details":""}';
    const { socketPath } = await startDaemon(
      () => {},
      (connection) => {
        connection.pause();
        connection.write(httpAnswer(503, refusal), () => connection.destroy());
      },
    );
    const large = Buffer.alloc(512 * 1024, 0x20); // still being sent when the daemon closes
    for (const stdin of ["{}", large]) {
      for (const verb of FAILING_VERBS) {
        const outcome = await runVerb(binary, verb, { socketPath, stdin });
        expect(outcome).toMatchObject({ status: 1, stdout: refusal });
      }
      expect(await runVerb(binary, "DEL", { socketPath, stdin })).toMatchObject({
        status: 0,
        spooled: [{}],
      });
    }
  });

  test("at once, without a word", async () => {
    const { socketPath } = await startDaemon(
      () => {},
      (connection) => connection.destroy(),
    );
    for (const verb of VERBS) {
      const outcome = await runVerb(binary, verb, { socketPath, stdin: Buffer.alloc(300 * 1024, 0x20) });
      if (verb === "DEL") expect(outcome).toMatchObject({ status: 0, spooled: [{}] });
      else expect(cniError(outcome)).toMatchObject({ code: awayCode(verb) });
    }
  });
});

/** A daemon whose event loop stands still, with room for two connections, until a byte on its stdin wakes it. */
const STANDING = `
  const http = require("node:http");
  const server = http.createServer((request, response) => {
    request.resume().on("end", () => response.end('${RESULT}'));
  });
  server.listen({ path: process.argv[1], backlog: 1 }, () => {
    require("node:fs").writeSync(1, "listening");
    require("node:fs").readSync(0, Buffer.alloc(1));
  });`;

async function startStanding(): Promise<{ socketPath: string; daemon: ChildProcess }> {
  const socketPath = join(temporaryDirectory(), "holdfast.sock");
  const daemon = spawn(process.execPath, ["-e", STANDING, socketPath], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    const gone = once(daemon, "close");
    daemon.kill("SIGKILL");
    await gone;
  });
  await once(daemon.stdout ?? daemon, "data");
  return { socketPath, daemon };
}

describe.each(BINARIES)("daemon with a full queue of connections, $build", (binary) => {
  test("the calls wait for room", async () => {
    const { socketPath, daemon } = await startStanding();
    const calls = Promise.all(Array.from({ length: 6 }, () => runVerb(binary, "ADD", { socketPath })));
    setTimeout(() => daemon.stdin?.write("!"), 500);
    for (const outcome of await calls) expect(outcome).toMatchObject({ status: 0, stdout: RESULT });
  });

  test("and give up at the deadline", async () => {
    const { socketPath } = await startStanding();
    const verbs: Verb[] = ["ADD", "ADD", "ADD", "ADD", "DEL", "DEL", "DEL"];
    const outcomes = await Promise.all(verbs.map((verb) => runVerb(binary, verb, { socketPath, env: SHORT })));
    const said = outcomes.map(({ stdout, stderr }) => stdout + stderr);
    expect(said.filter((text) => text.includes("did not answer in time"))).toHaveLength(2);
    expect(said.filter((text) => text.includes("Resource temporarily unavailable"))).toHaveLength(5);
    expect(outcomes.flatMap(({ spooled }) => spooled)).toHaveLength(3);
  });
});
