/**
 * Runs the real `holdfast-ipam` in an environment of the test's making, and says how it ended.
 *
 * Both builds are run: the static release binary, and one with AddressSanitizer and UndefinedBehaviorSanitizer, whose
 * every report fails the run. `make` builds both before the tests.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, onTestFinished, vi } from "vitest";
import type { CniError } from "../../cni-shim/wire.ts";

const ROOT = resolve(import.meta.dirname, "../..");

export interface Binary {
  readonly build: string;
  readonly path: string;
}
const RELEASE: Binary = { build: "release", path: join(ROOT, "dist/bin/holdfast-ipam") };
export const SANITIZED: Binary = { build: "sanitizers", path: join(ROOT, "build/holdfast-ipam-asan") };
export const BINARIES: readonly Binary[] = [RELEASE, SANITIZED];

/** No test waits for this in good health: it turns a shim that hangs into a failure. */
const HANG_MS = 90_000;
/**
 * For tests that wait until the shim gives up: long enough for a loaded machine to start it, short enough to wait for.
 */
export const SHORT_LIMIT_MS = 1_500;

vi.setConfig({ testTimeout: 2 * HANG_MS });

/** The environment of a call for each verb; `undefined` takes a variable away. */
export type Environment = Readonly<Record<string, string | undefined>>;
export const VERBS = ["ADD", "DEL", "CHECK", "GC", "STATUS"] as const;
export type Verb = (typeof VERBS)[number];

export function environmentOf(verb: Verb): Environment {
  const attachment = { CNI_CONTAINERID: "c0ffee", CNI_NETNS: "/proc/self/ns/net", CNI_IFNAME: "net1" };
  return {
    CNI_COMMAND: verb,
    CNI_PATH: "/opt/cni/bin",
    ...(verb === "GC" || verb === "STATUS" ? {} : attachment),
  };
}

export interface ShimCall {
  readonly env: Environment;
  /** Environment variables that are not UTF-8, which Node cannot pass on itself. */
  readonly envBytes?: Readonly<Record<string, Buffer>>;
  /** What to write to stdin before closing it; "open" never writes nor closes. */
  readonly stdin?: string | Buffer | "open";
  /** A command that executes the shim, given as `"$0"`; through `sh`. */
  readonly through?: string;
  readonly uid?: number;
  /** Called once the process runs. */
  readonly onStart?: (child: ChildProcess) => void;
}

export interface ShimOutcome {
  readonly status: number | null;
  readonly stdout: string;
  readonly stdoutBytes: Buffer;
  readonly stderr: string;
  readonly elapsedMs: number;
}

/**
 * Executes the shim with exactly this environment and waits for its end. Fails on a signal, a hang or a sanitizer's
 * report.
 */
export async function runShim(binary: Binary, call: ShimCall): Promise<ShimOutcome> {
  const startedMs = performance.now();
  const child = spawnShim(binary, call);
  const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  child.stdout?.on("data", (chunk: Buffer) => output.stdout.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => output.stderr.push(chunk));
  child.stdin?.on("error", () => {}); // EPIPE: the shim may answer without reading
  call.onStart?.(child);
  if (call.stdin !== "open") child.stdin?.end(call.stdin ?? "{}");

  const hang = setTimeout(() => child.kill("SIGKILL"), HANG_MS);
  const [status, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((done, failed) => {
    child.on("error", failed);
    child.on("close", (...end) => done(end));
  });
  clearTimeout(hang);
  child.stdin?.destroy();

  const stdoutBytes = Buffer.concat(output.stdout);
  const stderr = Buffer.concat(output.stderr).toString();
  expect({ signal, stderr }).toEqual({
    signal: null,
    stderr: expect.not.stringMatching(/Sanitizer|runtime error/),
  });
  const elapsedMs = performance.now() - startedMs;
  return { status, stdout: stdoutBytes.toString(), stdoutBytes, stderr, elapsedMs };
}

function spawnShim(binary: Binary, call: ShimCall): ChildProcess {
  const env = {
    PATH: process.env.PATH,
    ASAN_OPTIONS: `abort_on_error=1:detect_leaks=${call.through?.includes("strace") ? 0 : 1}`, // LeakSanitizer cannot be traced
    UBSAN_OPTIONS: "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
    HOLDFAST_SHIM_CONF: "/nonexistent/shim.conf",
    HOLDFAST_SHIM_ABSENT_MS: "0",
    ...call.env,
  };
  const exports = Object.entries(call.envBytes ?? {}).map(([name, value]) => {
    const octal = [...value].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
    return `export ${name}="$(printf '${octal}')"; `;
  });
  const identity = call.uid === undefined ? {} : { uid: call.uid, gid: call.uid };
  if (exports.length === 0 && call.through === undefined) return spawn(binary.path, { env, ...identity });
  const script = `${exports.join("")}${call.through ?? 'exec "$0"'}`;
  return spawn("/bin/sh", ["-c", script, binary.path], { env, ...identity });
}

/** The CNI error object that a failed call printed. Its keys are all there and of the right type. */
export function cniError(outcome: ShimOutcome): CniError {
  expect(outcome.status, outcome.stderr).toBe(1);
  const error: CniError = JSON.parse(outcome.stdout);
  expect(error).toEqual({
    cniVersion: "1.0.0",
    code: expect.any(Number),
    msg: expect.any(String),
    details: expect.any(String),
  });
  return error;
}

/** A fresh directory that is removed after the test. */
export function temporaryDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), "holdfast-shim-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** The names and contents of a spool directory, in lexical order. */
export function readSpool(directory: string): { name: string; body: Buffer }[] {
  if (!existsSync(directory)) return [];
  const names = readdirSync(directory).sort();
  return names.map((name) => ({ name, body: readFileSync(join(directory, name)) }));
}

export interface VerbCall extends Omit<ShimCall, "env"> {
  readonly socketPath: string;
  readonly env?: Environment;
}

/** Runs one verb with a spool of its own; what it left there is in the outcome. */
export async function runVerb(binary: Binary, verb: Verb, { socketPath, env, ...call }: VerbCall) {
  const spool = join(temporaryDirectory(), "spool");
  const all = { ...environmentOf(verb), HOLDFAST_SOCKET: socketPath, HOLDFAST_SPOOL: spool, ...env };
  const outcome = await runShim(binary, { ...call, env: all });
  return { ...outcome, spooled: readSpool(spool) };
}

/**
 * The verbs whose failure the runtime is told of, and the code that says that there is no daemon, or none understood.
 */
export const FAILING_VERBS = ["ADD", "CHECK", "GC", "STATUS"] as const;
/** Those that wait for no daemon. */
export const SPOOLING_OR_AT_ONCE = ["DEL", "STATUS"] as const;
export const awayCode = (verb: Verb) => (verb === "STATUS" ? 50 : 11);

/** Every verb fails with its code and this message; a DEL succeeds by the spool, with the message on stderr. */
export async function expectAway(binary: Binary, call: VerbCall, message: string): Promise<void> {
  const failing = FAILING_VERBS.map(async (verb) => {
    expect(cniError(await runVerb(binary, verb, call))).toEqual({
      cniVersion: "1.0.0",
      code: awayCode(verb),
      msg: message,
      details: expect.stringMatching(/daemon/),
    });
  });
  const del = await runVerb(binary, "DEL", call);
  await Promise.all(failing);
  expect(del).toMatchObject({ status: 0, stdout: "", stderr: expect.stringContaining(message) });
  expect(del.spooled).toHaveLength(1);
}
