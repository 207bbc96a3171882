/**
 * Random answers, stdin and environments against the build with sanitizers.
 *
 * The seed is printed, and taken from HOLDFAST_TEST_SEED when that is set. Each property ends after RUNS cases or
 * PROPERTY_MS, whichever is first.
 */
import { isUtf8 } from "node:buffer";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { always, type Daemon, listen, wireRequest } from "./daemon.ts";
import { type Answer, answer, confLine, environment, stdin } from "./fuzz-cases.ts";
import {
  cniError,
  environmentOf,
  readSpool,
  runShim,
  SANITIZED,
  type ShimOutcome,
  VERBS,
  type Verb,
} from "./harness.ts";

const RUNS = 1_500;
const PROPERTY_MS = 25_000; // all properties run side by side, so this is the whole file's time
const SHIM_LIMIT_MS = 1_000; // only answers that never end use it up
const STDIN_BYTES_MAX = 512 * 1024;
const SEED = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.log(`HOLDFAST_TEST_SEED=${SEED}`);

/** Writes the chunks as separate writes with a turn of the event loop between them. */
function give(connection: Socket, { chunks, end }: Answer): void {
  const [first, ...rest] = chunks;
  if (first !== undefined && !connection.destroyed) {
    connection.write(first, () => setImmediate(() => give(connection, { chunks: rest, before: false, end })));
  } else if (end === "close") connection.end();
  else if (end === "reset") connection.destroy();
}

/** stdout is the daemon's own body, or a CNI error of the shim's making. */
function expectOutput({ status, stdout, stdoutBytes }: ShimOutcome, sent: Buffer): void {
  if (sent.includes(stdoutBytes) && (status === 0 || stdout.startsWith("{"))) return;
  expect(JSON.parse(stdout)).toEqual({
    cniVersion: "1.0.0",
    code: expect.toSatisfy((code: number) => [4, 5, 6, 7, 11, 50].includes(code)),
    msg: expect.any(String),
    details: expect.any(String),
  });
  expect(status).toBe(1);
}

/**
 * Checks `run` for cases of `cases`. After PROPERTY_MS the rest are let pass (fast-check's own limit would leave a run
 * behind that is still going). A failure is reported with seed and path, its case cut to what a person can read.
 */
async function check<Case extends unknown[]>(
  cases: fc.Arbitrary<Case>,
  run: (...values: Case) => Promise<void>,
): Promise<void> {
  const endMs = performance.now() + PROPERTY_MS;
  const property = fc.asyncProperty(cases, async (values) => {
    if (performance.now() < endMs) await run(...values);
  });
  const details = await fc.check(property, { seed: SEED, numRuns: RUNS });
  if (!details.failed) return;
  throw new Error(fc.defaultReportMessage(details)?.slice(0, 3_000), { cause: details.errorInstance });
}

describe.concurrent("fuzz", () => {
  const root = mkdtempSync(join(tmpdir(), "holdfast-fuzz-"));
  let answering: Daemon;
  let refusing: Daemon;
  let refusingToo: Daemon; // the properties run side by side, and each looks at what its daemon got
  let next: Answer = { chunks: [], before: false, end: "close" };

  beforeAll(async () => {
    const whole = (connection: Socket) => (next.before ? undefined : give(connection, next));
    const early = (connection: Socket) => (next.before ? give(connection, next) : undefined);
    answering = await listen(join(root, "answering.sock"), whole, early);
    refusing = await listen(join(root, "refusing.sock"), always("HTTP/1.1 503 x\r\n\r\n"));
    refusingToo = await listen(join(root, "refusing-too.sock"), always("HTTP/1.1 503 x\r\n\r\n"));
  });
  afterAll(async () => {
    await Promise.all([answering, refusing, refusingToo].map((daemon) => daemon.close()));
    rmSync(root, { recursive: true, force: true });
  });

  test("for any answer of the daemon the call ends as the CNI specification says", async () => {
    const spool = join(root, "spool");
    const run = async (verb: Verb, answered: Answer) => {
      next = answered;
      const { requests, socketPath } = answering;
      requests.length = 0;
      rmSync(spool, { recursive: true, force: true });
      const env = {
        ...environmentOf(verb),
        HOLDFAST_SOCKET: socketPath,
        HOLDFAST_SPOOL: spool,
        HOLDFAST_SHIM_TIMEOUT_MS: String(SHIM_LIMIT_MS),
      };
      const outcome = await runShim(SANITIZED, { env, stdin: '{"name":"net"}' });
      expectOutput(outcome, Buffer.concat(answered.chunks));
      const spooled = readSpool(spool);
      if (verb === "DEL") expect(outcome.status).toBe(0);
      expect(spooled.length).toBeLessThanOrEqual(verb === "DEL" ? 1 : 0);
      for (const file of spooled) {
        expect(wireRequest(file.body)).toMatchObject({ command: "DEL", config: '{"name":"net"}' });
        if (requests[0] !== undefined) expect(file.body).toEqual(requests[0].body);
      }
    };
    await check(fc.tuple(fc.constantFrom(...VERBS), answer), run);
  });

  test("whatever stdin and the environment hold, the daemon gets it, or the call is refused", async () => {
    const { requests, socketPath } = refusing;
    const spool = join(root, "spool-of-requests");
    const run = async (verb: Verb, input: Buffer, envBytes: Record<string, Buffer>) => {
      requests.length = 0;
      rmSync(spool, { recursive: true, force: true });
      const env = { ...environmentOf(verb), HOLDFAST_SOCKET: socketPath, HOLDFAST_SPOOL: spool };
      const outcome = await runShim(SANITIZED, { env, envBytes, stdin: input });
      expectOutput(outcome, Buffer.alloc(0));
      if (requests[0] === undefined) {
        expect(outcome.status).toBe(1); // refused by the shim itself
        return;
      }
      const wire = wireRequest(requests[0].body);
      const isForgotten = verb === "DEL" && input.length > STDIN_BYTES_MAX;
      if (isUtf8(input)) expect(wire.config === (isForgotten ? "" : input.toString())).toBe(true);
      const args = envBytes.CNI_ARGS;
      if (args !== undefined && isUtf8(args)) expect(wire.args).toBe(args.toString());
    };
    await check(fc.tuple(fc.constantFrom(...VERBS), stdin, environment), run);
  });

  test("any content of shim.conf is accepted or refused by name", async () => {
    const path = join(root, "shim.conf");
    const run = async (verb: Verb, lines: string[]) => {
      writeFileSync(path, lines.join("\n"));
      const { socketPath } = refusingToo;
      const env = { ...environmentOf(verb), HOLDFAST_SHIM_CONF: path, HOLDFAST_SOCKET: socketPath };
      const outcome = await runShim(SANITIZED, { env });
      expectOutput(outcome, Buffer.alloc(0));
      const { code, msg } = cniError(outcome);
      if (code === 7) expect(msg.startsWith(path)).toBe(true);
      else expect(msg).toMatch(/ answered with status 503$/);
    };
    const noDel = fc.constantFrom(...VERBS.filter((verb) => verb !== "DEL")); // it would use the node's own spool
    await check(fc.tuple(noDel, fc.array(confLine, { maxLength: 6 })), run);
  });
});
