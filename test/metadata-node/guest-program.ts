import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { NamespaceGuest } from "../harness/metadata/guest.ts";
import { until } from "../harness/wait.ts";

/** A Python program that runs in a guest meanwhile. */
export class GuestProgram {
  readonly #process: ChildProcess;
  readonly #closed: Promise<unknown>;
  #output = "";

  constructor({ namespace }: NamespaceGuest, script: string, args: readonly string[] = []) {
    const words = ["netns", "exec", namespace, "python3", "-c", script, ...args];
    this.#process = spawn("ip", words, { stdio: ["pipe", "pipe", "inherit"] });
    this.#closed = once(this.#process, "close");
    this.#process.stdout?.on("data", (chunk: Buffer) => {
      this.#output += chunk;
    });
  }

  /** Waits until it has printed a text. */
  said(text: string): Promise<void> {
    return until(() => this.#output.includes(text), `a guest's program to say "${text}"`);
  }

  /** How often it has printed a text. */
  times(text: string): number {
    return this.#output.split(text).length - 1;
  }

  write(text: string): void {
    this.#process.stdin?.write(text);
  }

  /** Everything that it has printed, when it has ended by itself. */
  async ended(): Promise<string> {
    await this.#closed;
    return this.#output;
  }

  /** Ends its standard input, and waits for its end. */
  stop(): Promise<string> {
    this.#process.stdin?.end();
    return this.ended();
  }
}
