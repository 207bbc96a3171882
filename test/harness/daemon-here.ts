import { createRequire } from "node:module";
import { join } from "node:path";
import pino from "pino";
import type * as DaemonBundle from "../../daemon/main.ts";
import type { Connect } from "../../kube/kube-api.ts";
import type { Clock } from "../../platform/time.ts";
import { newDirectory, RunningDaemon } from "./daemon.ts";
import { machineTime, type TestTime } from "./wait.ts";

const BUNDLE = join(import.meta.dirname, "../../dist/lib/daemon.cjs");

export interface DaemonHereOptions {
  /** An existing directory to keep between daemons; default: a new one. */
  readonly directory?: string | undefined;
  /** The way to the API server of its cluster. */
  readonly connect?: Connect | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** What it lives in; default: the machine's. */
  readonly time?: TestTime | undefined;
  /** Default: that of its time. */
  readonly clock?: Clock | undefined;
}

/**
 * A daemon in the process of the test. Its start and end take some 40 ms of processor time, of a process of its own
 * some 270. It cannot be killed.
 */
export class DaemonHere extends RunningDaemon {
  #daemon: DaemonBundle.Daemon | null = null;
  #log = "";

  private constructor(directory: string, time: TestTime) {
    super(directory, time);
  }

  /** `args`: flags of `holdfast daemon`, each with its value. */
  static async start(args: readonly string[] = [], options: DaemonHereOptions = {}): Promise<DaemonHere> {
    const here = new DaemonHere(options.directory ?? newDirectory(), options.time ?? machineTime);
    try {
      await here.#begin(args, options);
      return here;
    } catch (error) {
      await here.end();
      if (options.directory === undefined) await here.stop();
      throw error;
    }
  }

  override get log(): string {
    return this.#log;
  }

  override async ready(): Promise<void> {
    await this.time.until(
      async () => (await this.get("/readyz").catch(() => null))?.status === 200,
      () => `readiness; log: ${this.#log}`,
    );
  }

  /** Ends it as SIGTERM does; the directory stays. */
  override async end(signal: NodeJS.Signals = "SIGTERM"): Promise<null> {
    if (signal !== "SIGTERM") throw new Error(`a daemon in the test's own process cannot get ${signal}`);
    if (this.#daemon !== null) await this.time.run(this.#daemon.stop());
    this.#daemon = null;
    return null;
  }

  async #begin(
    args: readonly string[],
    { connect, env = {}, clock = this.time.clock }: DaemonHereOptions,
  ): Promise<void> {
    // All of it first, what is read only in a cluster too: no time of the world passes meanwhile.
    const { Daemon, loadDaemonSettings }: typeof DaemonBundle = await programOf(connect);
    const flags = {
      state: this.state,
      socket: this.socket,
      metadataNetDir: join(this.directory, "net"),
      ...flagsOf(args),
    };
    const settings = loadDaemonSettings(flags, env);
    const write = (line: string) => {
      this.#log += line;
    };
    const log = pino({ level: settings.logLevel, base: null }, { write });
    this.#daemon = await Daemon.create(settings, log, clock, "0.0.0", connect);
    await this.time.run(this.#daemon.start());
  }
}

/** Of `dist/`; from the sources where it is handed a connection, whose errors it has to know by their classes. */
async function programOf(connect: Connect | undefined): Promise<typeof DaemonBundle> {
  if (connect === undefined) return createRequire(import.meta.url)(BUNDLE);
  await import("../../daemon/cluster-node.ts");
  return import("../../daemon/main.ts");
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
