import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { machineTime, type TestTime, until } from "./wait.ts";

/** Of this repository, also where a bundle of the benchmark has this file in build/bench. */
export const ROOT = join(import.meta.dirname, "../..");
export const HOLDFAST = join(ROOT, "dist/bin/holdfast");
export const SHIM = join(ROOT, "dist/bin/holdfast-ipam");

export interface DaemonOptions {
  /** An existing directory to keep between daemons; default: a new one, removed at stop. */
  readonly directory?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Wait for the socket and readiness (default), or return as soon as the process runs. */
  readonly wait?: boolean;
  /** Command to run the daemon under, e.g. `["unshare", "-m", …]`. */
  readonly wrapper?: readonly string[];
}

export interface ApiAnswer {
  readonly status: number;
  readonly body: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  json(): any;
}

/** What is gone of a daemon's directory after a reboot. Where tests have it on a disk, another boot ID shows it too. */
export function forgetBoot(directory: string): void {
  rmSync(join(directory, "s.sock.boot"), { force: true });
}

/** A daemon on a state directory of its own, wherever it runs; one after another may run on a directory. */
export abstract class RunningDaemon {
  readonly directory: string;
  readonly socket: string;
  readonly state: string;
  readonly spool: string;
  /** What it lives in: who asks it something lets it pass. */
  readonly time: TestTime;

  protected constructor(directory: string, time: TestTime = machineTime) {
    this.directory = directory;
    this.socket = join(directory, "s.sock");
    this.state = join(directory, "state");
    this.spool = join(directory, "state", "spool");
    this.time = time;
  }

  /** Everything the daemon has logged so far. */
  abstract get log(): string;

  abstract ready(): Promise<void>;

  /** Ends it with a signal and waits for that; the directory stays. */
  abstract end(signal?: NodeJS.Signals): Promise<number | null>;

  /** Ends it and removes its directory. */
  async stop(): Promise<void> {
    await this.end();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Runs the plugin binary as a container runtime would. */
  cni(verb: string, containerId: string, options: CniOptions = {}): Promise<CniAnswer> {
    const { socket, spool } = this;
    return this.time.run(runShim(verb, containerId, { socket, spool, ...options }));
  }

  get(path: string): Promise<ApiAnswer> {
    return this.time.run(call(this.socket, "GET", path));
  }

  post(path: string, body: unknown): Promise<ApiAnswer> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    return this.time.run(call(this.socket, "POST", path, text));
  }

  delete(path: string): Promise<ApiAnswer> {
    return this.time.run(call(this.socket, "DELETE", path));
  }

  /** Runs a command of the command line against this daemon. */
  cli(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    const env = { HOLDFAST_SOCKET: this.socket, ...this.time.environment };
    return this.time.run(run(process.execPath, [HOLDFAST, ...args], env));
  }
}

/** A daemon that tests talk to and do not end themselves. */
export type ServedDaemon = Omit<RunningDaemon, "ready" | "end">;

/** A real daemon process. */
export class TestDaemon extends RunningDaemon {
  readonly process: ChildProcess;
  #log = "";

  private constructor(directory: string, process: ChildProcess) {
    super(directory);
    this.process = process;
    for (const stream of [process.stdout, process.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#log += chunk.toString();
      });
    }
  }

  static async start(options: DaemonOptions = {}): Promise<TestDaemon> {
    const directory = options.directory ?? newDirectory();
    const [command, ...args] = [
      ...(options.wrapper ?? []),
      process.execPath,
      HOLDFAST,
      "daemon",
      "--state",
      join(directory, "state"),
      "--socket",
      join(directory, "s.sock"),
      "--metadata-net-dir",
      join(directory, "net"),
      ...(options.args ?? []),
    ] as [string, ...string[]];
    const child = spawn(command, args, {
      env: { ...cleanEnv(), ...options.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const daemon = new TestDaemon(directory, child);
    if (options.wait === false) return daemon;
    try {
      await daemon.ready();
    } catch (error) {
      await daemon.end("SIGKILL");
      if (options.directory === undefined) rmSync(directory, { recursive: true, force: true });
      throw error;
    }
    return daemon;
  }

  override get log(): string {
    return this.#log;
  }

  override async ready(): Promise<void> {
    await until(
      async () => {
        if (this.process.exitCode !== null) throw new Error(`the daemon ended: ${this.#log}`);
        return existsSync(this.socket) && (await this.get("/readyz").catch(() => null))?.status === 200;
      },
      () => `readiness; log: ${this.#log}`,
    );
  }

  override async end(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const exited = once(this.process, "exit");
      this.process.kill(signal);
      await exited;
    }
    return this.process.exitCode;
  }

  override stop(): Promise<void> {
    // One that is frozen would never hear of it.
    this.process.kill("SIGCONT");
    return super.stop();
  }
}

export interface CniOptions {
  readonly config?: object | string;
  readonly ifname?: string;
  readonly netns?: string;
  readonly args?: string;
  readonly socket?: string;
  readonly spool?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Another plugin binary than the built one. */
  readonly shim?: string;
}

export interface CniAnswer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  json(): any;
}

/** A network most tests can use; override what matters to the test. */
export function network(name: string, ipam: object = {}, plugin: object = {}): object {
  return {
    cniVersion: "1.0.0",
    name,
    type: "bridge",
    ...plugin,
    ipam: { type: "holdfast-ipam", subnets: "10.10.0.0/24", ...ipam },
  };
}

export async function runShim(verb: string, containerId: string, options: CniOptions): Promise<CniAnswer> {
  const config = options.config ?? network("blue");
  const env: Record<string, string> = {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: options.netns ?? `/run/netns/${containerId}`,
    CNI_IFNAME: options.ifname ?? "eth0",
    CNI_PATH: "/opt/cni/bin",
    // A test that wants it to wait for a daemon says so.
    HOLDFAST_SHIM_ABSENT_MS: "0",
    ...(options.args === undefined ? {} : { CNI_ARGS: options.args }),
    ...(options.socket === undefined ? {} : { HOLDFAST_SOCKET: options.socket }),
    ...(options.spool === undefined ? {} : { HOLDFAST_SPOOL: options.spool }),
    ...options.env,
  };
  const answer = await run(options.shim ?? SHIM, [], env, typeof config === "string" ? config : JSON.stringify(config));
  return { ...answer, json: () => JSON.parse(answer.stdout) };
}

export async function run(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  stdin = "",
): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = spawn(command, args, { env: { ...cleanEnv(), ...env }, stdio: ["pipe", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  child.stdin.on("error", () => {});
  child.stdin.end(stdin);
  const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  return { code: code ?? -1, stdout, stderr: signal === null ? stderr : `${stderr}\nended by ${signal}` };
}

/** One request on a connection of its own. */
export function call(socketPath: string, method: string, path: string, body?: string): Promise<ApiAnswer> {
  return new Promise((resolve, reject) => {
    const headers =
      body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request({ socketPath, method, path, headers, agent: false }, (answer) => {
      let text = "";
      answer.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body: text, json: () => JSON.parse(text) }));
      answer.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/**
 * The environment without settings of ours that a developer's shell may carry. A process that uses what Node deprecates
 * ends, instead of a warning that nobody reads.
 */
export function cleanEnv(): NodeJS.ProcessEnv {
  const { NODE_OPTIONS = "", ...env } = process.env;
  const others = Object.entries(env).filter(([name]) => !name.startsWith("HOLDFAST_") && !name.startsWith("CNI_"));
  return { ...Object.fromEntries(others), NODE_OPTIONS: `${NODE_OPTIONS} --throw-deprecation`.trim() };
}

export function newDirectory(): string {
  return mkdtempSync(join(tmpdir(), "holdfast-test-"));
}
