import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { HOLDFAST, until } from "./daemon.ts";
import { freePorts } from "./kube-process.ts";

export interface ControllerOptions {
  /** Path of a kubeconfig file, from `cluster.kubeconfig("holdfast-controller")`. */
  readonly kubeconfig: string;
  /** Settings as flags: `{ coolingSeconds: 1 }` is `--cooling-seconds 1`, `true` the bare flag. */
  readonly flags?: Readonly<Record<string, string | number | boolean>>;
  readonly env?: Readonly<Record<string, string>>;
  /** Wait until /readyz on its metrics port answers 200; default true. */
  readonly wait?: boolean;
}

/** A real `holdfast controller` process, its metrics on a free port of the loopback. */
export class ControllerProcess {
  readonly process: ChildProcess;
  /** Of /metrics, /healthz and /readyz. */
  readonly port: number;
  #log = "";

  private constructor(child: ChildProcess, port: number) {
    this.process = child;
    this.port = port;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#log += chunk.toString();
      });
    }
  }

  /** Throws with its log when it ends before it is ready. */
  static async start(options: ControllerOptions): Promise<ControllerProcess> {
    const port = (await freePorts(1))[0] as number;
    const flags = flagsOf({
      kubeconfig: options.kubeconfig,
      ...options.flags,
      metricsAddress: `127.0.0.1:${port}`,
    });
    const child = spawn(process.execPath, [HOLDFAST, "controller", ...flags], {
      env: { ...environment(), ...options.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const controller = new ControllerProcess(child, Number(port));
    if (options.wait === false) return controller;
    try {
      await controller.ready();
    } catch (error) {
      await controller.stop("SIGKILL");
      throw error;
    }
    return controller;
  }

  /** Everything it has printed so far. */
  get log(): string {
    return this.#log;
  }

  get running(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null;
  }

  async ready(): Promise<void> {
    await until(async () => {
      if (!this.running) throw new Error(`the controller ended: ${this.#log}`);
      return (await this.get("/readyz").catch(() => null))?.status === 200;
    }, "the controller's readiness");
  }

  /** Rejects when nobody listens. */
  get(path: string): Promise<{ status: number; body: string }> {
    return new Promise((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port: this.port, path, agent: false }, (answer) => {
        let body = "";
        answer.on("data", (chunk: Buffer) => {
          body += chunk.toString();
        });
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body }));
        answer.on("error", reject);
      });
      sent.on("error", reject);
      sent.end();
    });
  }

  /** Ends it with a signal and returns its exit code. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    if (this.running) {
      const exited = once(this.process, "exit");
      this.process.kill(signal);
      await exited;
    }
    return this.process.exitCode;
  }
}

function flagsOf(settings: Readonly<Record<string, string | number | boolean>>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => {
    const flag = `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (value === false) return [];
    return value === true ? [flag] : [flag, String(value)];
  });
}

/** Without settings of ours, which are for the tests or a developer's own: unknown ones are refused. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_")));
}
