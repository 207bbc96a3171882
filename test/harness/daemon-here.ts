import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import pino from "pino";
import type * as DaemonBundle from "../../daemon/main.ts";
import type { Connect } from "../../kube/kube-api.ts";
import { type Clock, systemClock } from "../../platform/time.ts";
import {
  type ApiAnswer,
  type CniAnswer,
  type CniOptions,
  call,
  HOLDFAST,
  newFolder,
  type RunningDaemon,
  run,
  runShim,
} from "./daemon.ts";
import { until } from "./wait.ts";

const BUNDLE = join(import.meta.dirname, "../../dist/lib/daemon.cjs");

export interface DaemonHereOptions {
  /** An existing folder to keep between daemons; default: a new one. */
  readonly folder?: string | undefined;
  /** The way to the API server of its cluster. */
  readonly connect?: Connect | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly clock?: Clock | undefined;
}

/** A daemon in the process of the test: a tenth of the time that a process of its own needs to start. It cannot be killed. */
export class DaemonHere implements RunningDaemon {
  readonly folder: string;
  readonly socket: string;
  readonly state: string;
  readonly spool: string;
  #daemon: DaemonBundle.Daemon | null = null;
  #log = "";

  private constructor(folder: string) {
    this.folder = folder;
    this.socket = join(folder, "s.sock");
    this.state = join(folder, "state");
    this.spool = join(this.state, "spool");
  }

  /** `args`: flags of `holdfast daemon`, each with its value. */
  static async start(args: readonly string[] = [], options: DaemonHereOptions = {}): Promise<DaemonHere> {
    const here = new DaemonHere(options.folder ?? newFolder());
    try {
      await here.#begin(args, options);
      return here;
    } catch (error) {
      await here.end();
      if (options.folder === undefined) await here.stop();
      throw error;
    }
  }

  /** Everything it has logged so far. */
  get log(): string {
    return this.#log;
  }

  cni(verb: string, containerId: string, options: CniOptions = {}): Promise<CniAnswer> {
    return runShim(verb, containerId, { socket: this.socket, spool: this.spool, ...options });
  }

  get(path: string): Promise<ApiAnswer> {
    return call(this.socket, "GET", path);
  }

  post(path: string, body: unknown): Promise<ApiAnswer> {
    return call(this.socket, "POST", path, typeof body === "string" ? body : JSON.stringify(body));
  }

  delete(path: string): Promise<ApiAnswer> {
    return call(this.socket, "DELETE", path);
  }

  cli(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
    return run(process.execPath, [HOLDFAST, ...args], { HOLDFAST_SOCKET: this.socket });
  }

  async ready(): Promise<void> {
    await until(
      async () => (await this.get("/readyz").catch(() => null))?.status === 200,
      () => `readiness; log: ${this.#log}`,
    );
  }

  /** Ends it as SIGTERM does; the folder stays. */
  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<null> {
    if (signal !== "SIGTERM") throw new Error(`a daemon in the test's own process cannot get ${signal}`);
    await this.#daemon?.stop();
    this.#daemon = null;
    return null;
  }

  async stop(): Promise<void> {
    await this.end();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #begin(
    args: readonly string[],
    { connect, env = {}, clock = systemClock }: DaemonHereOptions,
  ): Promise<void> {
    const { Daemon, loadDaemonSettings }: typeof DaemonBundle = await programOf(connect);
    const flags = { state: this.state, socket: this.socket, ...flagsOf(args) };
    const settings = loadDaemonSettings(flags, env);
    const write = (line: string) => {
      this.#log += line;
    };
    const log = pino({ level: settings.logLevel, base: null }, { write });
    this.#daemon = await Daemon.create(settings, log, clock, "0.0.0", connect);
    await this.#daemon.start();
  }
}

/** Of `dist/`; from the sources where it is handed a connection, whose errors it has to know by their classes. */
function programOf(connect: Connect | undefined): Promise<typeof DaemonBundle> {
  return connect === undefined ? createRequire(import.meta.url)(BUNDLE) : import("../../daemon/main.ts");
}

/** `--boot-id-file`, `x` as the setting bootIdFile. */
function flagsOf(args: readonly string[]): Record<string, string> {
  const flags: Record<string, string> = {};
  for (let i = 0; i < args.length; i += 2) {
    const [flag = "", value = ""] = args.slice(i, i + 2);
    flags[flag.slice(2).replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase())] = value;
  }
  return flags;
}
