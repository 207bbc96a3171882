import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";

/** Below the ports that the kernel gives to clients: nobody takes one while its server is stopped for a test. */
const PORT_MIN = 12_000;
const PORT_MAX = 32_000;
/** What is kept of a process's output, for messages. */
const LOG_CHARACTERS_MAX = 20_000;

/** A server process of the test cluster. It ends when the test process does, however that ends. */
export class KubeProcess {
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | null = null;
  #log = "";

  constructor(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.#command = command;
    this.#args = args;
    this.#env = env;
  }

  get running(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** The end of what it printed. */
  get log(): string {
    return this.#log;
  }

  /** Starts it; does nothing while it runs. */
  start(): void {
    if (this.running) return;
    const child = spawn("setpriv", ["--pdeathsig", "KILL", "--", this.#command, ...this.#args], {
      env: { ...process.env, ...this.#env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        this.#log = (this.#log + chunk.toString()).slice(-LOG_CHARACTERS_MAX);
      });
    }
    child.on("error", (error) => {
      this.#log += `\n${error.message}`;
    });
    this.#child = child;
  }

  signal(signal: NodeJS.Signals): void {
    if (this.running) this.#child?.kill(signal);
  }

  /** Kills it and waits until it is gone. */
  async end(): Promise<void> {
    if (!this.running || this.#child === null) return;
    const exited = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exited;
  }
}

/** As many different TCP ports of the loopback as asked for, free at this moment. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN));
    if (await isFree(port)) ports.add(port);
  }
  return [...ports];
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
