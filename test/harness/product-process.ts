import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cleanEnv, HOLDFAST } from "./daemon.ts";
import { until } from "./wait.ts";

/** A real process of the built command line. */
export class ProductProcess {
  readonly child: ChildProcess;
  readonly #command: string;
  #log = "";

  /** `args` begin with the command; `within` is a command to run it under, e.g. `["ip", "netns", "exec", …]`. */
  constructor(args: readonly string[], within: readonly string[] = []) {
    const [command, ...words] = [...within, process.execPath, HOLDFAST, ...args] as [string, ...string[]];
    this.#command = `holdfast ${args[0]}`;
    this.child = spawn(command, words, { env: cleanEnv(), stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#log += chunk;
      });
    }
  }

  /** Everything it has printed. */
  get log(): string {
    return this.#log;
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Polls until true. Throws with the log when the process ends before. */
  async until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
    await until(
      () => {
        if (this.hasEnded) throw new Error(`${this.#command} ended: ${this.#log}`);
        return condition();
      },
      () => `${this.#command}: ${what}; log: ${this.#log}`,
    );
  }

  /** Ends it with a signal and waits for that; its exit code, null after a signal that it did not handle. */
  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    if (!this.hasEnded) {
      const exited = once(this.child, "exit");
      this.child.kill(signal);
      await exited;
    }
    return this.child.exitCode;
  }
}
