import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createBoundedServer } from "../../platform/listeners/bounded-server.ts";
import type { ListenerName } from "../../platform/listeners/listeners.ts";
import { listen } from "../../platform/socket.ts";

/** A process with the server of one row of the table of listeners, on a port of 127.0.0.1; it answers "ok". */
export class ListenerProcess {
  readonly port: number;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.port = port;
  }

  static async start(name: ListenerName): Promise<ListenerProcess> {
    const child = fork(import.meta.filename, [name], { stdio: "inherit" });
    const [port] = (await once(child, "message")) as [number];
    return new ListenerProcess(child, port);
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

async function serve(name: ListenerName): Promise<void> {
  const server = createBoundedServer(name, (_request, response) => response.end("ok"));
  await listen(server, { port: 0, host: "127.0.0.1" });
  process.send?.((server.address() as AddressInfo).port);
  process.on("disconnect", () => process.exit());
}

if (process.argv[1] === import.meta.filename) await serve(process.argv[2] as ListenerName);
