import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { cleanEnv, HOLDFAST, run, type TestDaemon, until } from "./daemon.ts";

export interface MetadataNodeOptions {
  readonly serverArgs?: readonly string[];
  readonly netArgs?: readonly string[];
}

/** `holdfast metadata` and `holdfast metadata-net` beside a daemon: all that a node needs to answer its VMs. */
export class MetadataNode {
  readonly #folder: string;
  readonly #daemonSocket: string;
  readonly #options: MetadataNodeOptions;
  server: ChildProcess | null = null;
  net: ChildProcess | null = null;
  #log = "";

  private constructor(daemon: Pick<TestDaemon, "folder" | "socket">, options: MetadataNodeOptions) {
    this.#folder = daemon.folder;
    this.#daemonSocket = daemon.socket;
    this.#options = options;
  }

  static async start(
    daemon: Pick<TestDaemon, "folder" | "socket">,
    options: MetadataNodeOptions = {},
  ): Promise<MetadataNode> {
    // haproxy is not root, and has to reach the server's socket in there.
    chmodSync(daemon.folder, 0o711);
    const node = new MetadataNode(daemon, options);
    try {
      await node.startServer();
      node.startNet();
      return node;
    } catch (error) {
      await node.stop();
      throw error;
    }
  }

  /** Everything that both have printed. */
  get log(): string {
    return this.#log;
  }

  get socket(): string {
    return join(this.#folder, "metadata.sock");
  }

  /** Where metadata-net keeps what it generates; its names of links and namespaces follow from it. */
  get runDir(): string {
    return join(this.#folder, "net");
  }

  async startServer(): Promise<void> {
    const server = this.#spawn([
      "metadata",
      "--metadata-socket",
      this.socket,
      "--identity-socket",
      join(this.#folder, "identity.sock"),
      "--state",
      join(this.#folder, "metadata"),
      "--metrics-address",
      "off",
      ...(this.#options.serverArgs ?? []),
    ]);
    this.server = server;
    await until(() => {
      if (server.exitCode !== null) throw new Error(`holdfast metadata ended: ${this.#log}`);
      return existsSync(this.socket);
    }, "the socket of holdfast metadata");
  }

  startNet(): void {
    this.net = this.#spawn([
      "metadata-net",
      "--socket",
      this.#daemonSocket,
      "--metadata-socket",
      this.socket,
      "--run-dir",
      this.runDir,
      "--metrics-address",
      "off",
      ...(this.#options.netArgs ?? []),
    ]);
  }

  async kill(which: "server" | "net", signal: NodeJS.Signals): Promise<void> {
    const child = this[which];
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  }

  /** Ends both; metadata-net takes away what it made. */
  async stop(): Promise<void> {
    await this.kill("net", "SIGTERM");
    await this.kill("server", "SIGTERM");
  }

  #spawn(args: readonly string[]): ChildProcess {
    const child = spawn(process.execPath, [HOLDFAST, ...args], {
      env: cleanEnv(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => {
        this.#log += `${args[0]}: ${chunk}`;
      });
    }
    return child;
  }
}

export interface GuestAnswer {
  /** 0: no HTTP answer. */
  readonly status: number;
  readonly body: string;
}

/** One request from a guest's namespace, with curl. `args` are more of curl's. */
export async function ask(
  namespace: string,
  path: string,
  args: readonly string[] = [],
): Promise<GuestAnswer> {
  const url = path.startsWith("http") ? path : `http://169.254.169.254${path}`;
  const { stdout } = await run("ip", [
    "netns",
    "exec",
    namespace,
    "curl",
    "-s",
    "--path-as-is",
    "--max-time",
    "20",
    "-w",
    "\n%{http_code}",
    ...args,
    url,
  ]);
  const at = stdout.lastIndexOf("\n");
  return { status: Number(stdout.slice(at + 1)) || 0, body: stdout.slice(0, Math.max(0, at)) };
}
