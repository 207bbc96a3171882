import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import pino from "pino";
import type * as DaemonBundle from "../../daemon/main.ts";
import { systemClock } from "../../platform/time.ts";
import {
  type ApiAnswer,
  type CniAnswer,
  type CniOptions,
  call,
  HOLDFAST,
  newFolder,
  run,
  runShim,
  type ServedDaemon,
} from "./daemon.ts";

const BUNDLE = join(import.meta.dirname, "../../dist/lib/daemon.cjs");

/** The daemon of `dist/`, in the process of the test: a tenth of the time that a process of its own needs to start. It cannot be killed. */
export class DaemonHere implements ServedDaemon {
  readonly folder = newFolder();
  readonly socket = join(this.folder, "s.sock");
  readonly state = join(this.folder, "state");
  readonly spool = join(this.state, "spool");
  #daemon: DaemonBundle.Daemon | null = null;
  #log = "";

  /** `args`: flags of `holdfast daemon`, each with its value. */
  static async start(args: readonly string[] = []): Promise<DaemonHere> {
    const here = new DaemonHere();
    try {
      await here.#begin(args);
      return here;
    } catch (error) {
      await here.stop();
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

  async stop(): Promise<void> {
    await this.#daemon?.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #begin(args: readonly string[]): Promise<void> {
    const { Daemon, loadDaemonSettings }: typeof DaemonBundle = createRequire(import.meta.url)(BUNDLE);
    const flags = { state: this.state, socket: this.socket, ...flagsOf(args) };
    const settings = loadDaemonSettings(flags, {});
    const write = (line: string) => {
      this.#log += line;
    };
    const log = pino({ level: settings.logLevel, base: null }, { write });
    this.#daemon = await Daemon.create(settings, log, systemClock, "0.0.0");
    await this.#daemon.start();
  }
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
