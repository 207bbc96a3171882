import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, rmSync } from "node:fs";
import { type Agent, type IncomingHttpHeaders, request } from "node:http";
import { join } from "node:path";
import { LISTENER_HEADERS } from "../../metadata/proxy/listener-headers.ts";
import { cleanEnv, HOLDFAST, newFolder, until } from "../harness/daemon.ts";
import { FakeIdentity } from "./fake-identity.ts";

export interface Asked {
  readonly method?: string;
  readonly network?: string | null;
  readonly source?: string | null;
  /** Header lines of the guest, as they are. */
  readonly lines?: readonly (readonly [name: string, value: string])[];
  readonly body?: string | Buffer;
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  json(): any;
}

/** A real `holdfast metadata` process behind which a stand-in for the daemon knows who is where. */
export class Stage {
  readonly folder: string;
  readonly identity: FakeIdentity;
  #process: ChildProcess | null = null;
  #args: readonly string[];
  #log = "";

  private constructor(folder: string, identity: FakeIdentity, args: readonly string[]) {
    this.folder = folder;
    this.identity = identity;
    this.#args = args;
  }

  /** `args` may depend on the folder. */
  static async start(args: readonly string[] | ((folder: string) => readonly string[]) = []): Promise<Stage> {
    const folder = newFolder();
    const identity = await FakeIdentity.start(join(folder, "identity.sock"));
    const stage = new Stage(folder, identity, typeof args === "function" ? args(folder) : args);
    try {
      await stage.run();
    } catch (error) {
      await stage.stop();
      throw error;
    }
    return stage;
  }

  get socket(): string {
    return join(this.folder, "m.sock");
  }

  /** Everything the process has printed. */
  get log(): string {
    return this.#log;
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  /** `host:port` of the health server. */
  get metrics(): string {
    const line = this.#log.split("\n").findLast((text) => text.includes('"listening"')) ?? "{}";
    const { metrics } = JSON.parse(line) as { metrics: { address: string; port: number } };
    return `http://${metrics.address}:${metrics.port}`;
  }

  async run(args = this.#args): Promise<void> {
    this.#args = args;
    const started = this.#log.length;
    const child = spawn(
      process.execPath,
      [
        HOLDFAST,
        "metadata",
        "--metadata-socket",
        this.socket,
        "--identity-socket",
        join(this.folder, "identity.sock"),
        "--state",
        join(this.folder, "state"),
        "--metrics-address",
        "127.0.0.1:0",
        ...args,
      ],
      { env: cleanEnv(), stdio: ["ignore", "pipe", "pipe"] },
    );
    this.#process = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#log += chunk;
      });
    }
    await until(() => {
      if (child.exitCode !== null) throw new Error(`holdfast metadata ended: ${this.#log}`);
      return existsSync(this.socket) && this.#log.slice(started).includes('"listening"');
    }, `holdfast metadata; log: ${this.#log}`);
  }

  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
    const child = this.#process;
    if (child && child.exitCode === null && child.signalCode === null) {
      const exited = once(child, "exit");
      child.kill(signal);
      await exited;
    }
    return child?.exitCode ?? null;
  }

  async stop(): Promise<void> {
    await this.end();
    await this.identity.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** One request as a listener hands it on; from 10.10.0.5 of network blue unless told otherwise. */
  ask(target: string, asked: Asked = {}): Promise<Answered> {
    return ask({ socketPath: this.socket }, target, asked);
  }
}

/** One request, on a connection of its own unless there is an agent. */
export function ask(
  where: { readonly agent?: Agent } & (
    | { readonly socketPath: string }
    | { readonly host: string; readonly port: number }
  ),
  target: string,
  { method = "GET", network = "blue", source = "10.10.0.5", lines = [], body }: Asked = {},
): Promise<Answered> {
  const raw = ["host", "169.254.169.254"];
  if (network !== null) raw.push(LISTENER_HEADERS.network, network);
  if (source !== null) raw.push(LISTENER_HEADERS.source, source);
  for (const [name, value] of lines) raw.push(name, value);
  if (body !== undefined) raw.push("content-length", String(Buffer.byteLength(body)));
  return new Promise((resolve, reject) => {
    // Node takes header lines as a flat list, and then sends them as they are.
    const headers = raw as unknown as Record<string, string>;
    const sent = request({ agent: false, ...where, method, path: target, headers }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          text,
          json: () => JSON.parse(text),
        });
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
