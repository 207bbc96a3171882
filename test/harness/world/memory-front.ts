import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Failure } from "../kube-fake/failure.ts";
import type { ServerAnswer } from "../kube-fake/requests.ts";
import { requestOf } from "./memory-api.ts";
import type { MemoryCluster } from "./memory-cluster.ts";

const UNAUTHORIZED = {
  kind: "Status",
  apiVersion: "v1",
  status: "Failure",
  reason: "Unauthorized",
  code: 401,
};
const MINOR = "20";

/** The server in memory behind plain HTTP on the loopback: for proxies and for processes of their own. */
export class MemoryFront {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cluster: MemoryCluster | null = null;

  private constructor() {
    this.#server = createServer((asked, answer) => {
      this.#handle(asked, answer).catch(() => asked.socket.destroy());
    });
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#server.requestTimeout = 0;
    this.#server.headersTimeout = 0;
  }

  static async start(): Promise<MemoryFront> {
    const front = new MemoryFront();
    front.#server.listen(0, "127.0.0.1");
    await once(front.#server, "listening");
    return front;
  }

  serve(cluster: MemoryCluster): void {
    this.#cluster = cluster;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Destroys every connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #handle(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const text = await bodyOf(asked);
    const cluster = this.#cluster as MemoryCluster;
    if (cluster.isAway) {
      asked.socket.destroy();
      return;
    }
    if (asked.url === "/version") return reply(answer, plain(200, { major: "1", minor: MINOR }));
    const user = cluster.userOf((asked.headers.authorization ?? "").replace(/^Bearer /, ""));
    if (user === null) return reply(answer, plain(401, UNAUTHORIZED));
    const { method = "GET", url = "/", headers } = asked;
    const request = requestOf({ method, url, headers, user });
    const sent = text === "" ? {} : { body: JSON.parse(text) };
    if (request.query.watch === "true" || request.query.watch === "1")
      return this.#watch(cluster, { ...request, ...sent }, answer);
    const said = await cluster.answer({ ...request, ...sent });
    if (said === null) asked.socket.destroy();
    else reply(answer, said);
  }

  #watch(cluster: MemoryCluster, request: ReturnType<typeof requestOf>, answer: ServerResponse): void {
    // The server tells what there is already while it opens the watch.
    const lines: string[] = [];
    let isOpen = false;
    const write = (line: string) => (isOpen ? answer.write(line) : lines.push(line));
    let endsAtOnce = false;
    try {
      const close = cluster.objects.watch(request, {
        event: (event) => void write(`${JSON.stringify(event)}\n`),
        end: () => {
          if (isOpen) answer.end();
          else endsAtOnce = true;
        },
        cut: () => answer.destroy(),
      });
      answer.once("close", close);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      reply(answer, plain(error.code, error.body));
      return;
    }
    answer.writeHead(200, { "content-type": "application/json" });
    answer.flushHeaders();
    isOpen = true;
    for (const line of lines) answer.write(line);
    if (endsAtOnce) answer.end();
  }
}

async function bodyOf(asked: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of asked) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function plain(status: number, body: unknown): ServerAnswer {
  return { status, body, serverMs: 0, retryAfterMs: 0 };
}

function reply(answer: ServerResponse, { status, body, retryAfterMs }: ServerAnswer): void {
  const retry = retryAfterMs > 0 ? { "retry-after": `${retryAfterMs / 1_000}` } : {};
  answer.writeHead(status, { "content-type": "application/json", ...retry });
  answer.end(JSON.stringify(body));
}
