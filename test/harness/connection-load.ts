import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type NetConnectOpts, type Socket } from "node:net";

export interface ConnectionLoadOptions {
  readonly where: NetConnectOpts;
  /** `idle`: nothing is sent. `slow`: a request whose headers never end, one more each second. */
  readonly kind: "idle" | "slow";
  readonly count: number;
  /** What each sends at first, in base64. */
  readonly head?: string;
}

/**
 * By its path from the root of the repository: a bundle, such as that of the measurements, has all modules in one file.
 */
const SCRIPT = "test/harness/connection-load.ts";

/** Connections that never make a whole request, from a process of their own; each that is closed is opened again. */
export class ConnectionLoad {
  readonly #child;

  private constructor(options: ConnectionLoadOptions) {
    this.#child = fork(SCRIPT, [JSON.stringify(options)], { stdio: "inherit" });
  }

  /** Resolves when each of them was opened once. */
  static async start(options: ConnectionLoadOptions): Promise<ConnectionLoad> {
    const load = new ConnectionLoad(options);
    await once(load.#child, "message");
    return load;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

/** Of a connection that was refused, ms: a full backlog says so at once. */
const AGAIN_MS = 5;
const SLOW_MS = 1_000;
/** Of the header that each slow connection has sent when it begins. */
const HEADER_BYTES = 7_000;

function keepOpen({ where, kind, count, head = "" }: ConnectionLoadOptions): void {
  const open = new Set<Socket>();
  let openedCount = 0;
  const begin = () => {
    let isOpened = false;
    const socket = connect(where, () => {
      isOpened = true;
      open.add(socket);
      openedCount += 1;
      if (openedCount === count) process.send?.("opened");
      if (head !== "") socket.write(Buffer.from(head, "base64"));
      if (kind === "slow") socket.write(`GET /metrics HTTP/1.1\r\nhost: x\r\nx: ${"x".repeat(HEADER_BYTES)}\r\n`);
    });
    socket.on("error", () => {});
    socket.on("data", () => {});
    socket.on("close", () => {
      open.delete(socket);
      if (isOpened) setImmediate(begin);
      else setTimeout(begin, AGAIN_MS);
    });
  };
  for (let index = 0; index < count; index += 1) begin();
  if (kind === "slow") setInterval(() => open.forEach((socket) => void socket.write("x: x\r\n")), SLOW_MS);
  process.on("disconnect", () => process.exit());
}

if (process.argv[1] === import.meta.filename) keepOpen(JSON.parse(process.argv[2] as string));
