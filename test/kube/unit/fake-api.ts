import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { HttpKubeApi, type HttpKubeApiOptions } from "../../../kube/http/http-kube-api.ts";
import type { KubeConnection } from "../../../kube/http/kube-config.ts";
import { machineTime, type TestTime } from "../../harness/wait.ts";

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export type Handler = (asked: Asked, answer: ServerResponse, socket: Socket) => void;

/** A server with real sockets on the loopback that answers as the test says. */
export class FakeApi {
  readonly asked: Asked[] = [];
  handler: Handler = (_asked, answer) => json(answer, 200, {});
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #clients: HttpKubeApi[] = [];

  readonly #time: TestTime;

  private constructor(time: TestTime) {
    this.#time = time;
    this.#server = createServer((incoming, answer) => void this.#answer(incoming, answer));
    this.#server.on("connection", (socket: Socket) => {
      this.connections += 1;
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  /** `time`: of its clients. */
  static async start(handler?: Handler, time = machineTime): Promise<FakeApi> {
    const fake = new FakeApi(time);
    if (handler) fake.handler = handler;
    fake.#server.listen(0, "127.0.0.1");
    await once(fake.#server, "listening");
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** A client that is closed with the server. */
  client(options: HttpKubeApiOptions = {}, auth: Partial<KubeConnection> = {}): HttpKubeApi {
    const connection: KubeConnection = {
      server: new URL(this.url),
      tls: {},
      credentialsFrom: "the test",
      authHeaders: async () => ({ headers: {}, generation: 0 }),
      renew: async () => false,
      ...auth,
    };
    const client = new HttpKubeApi(connection, this.#time.clock, options);
    this.#clients.push(client);
    return this.#time.waitedFor(client, "send");
  }

  /** Ends every connection from the server's side. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #answer(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    incoming.on("error", () => {});
    answer.on("error", () => {});
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const url = new URL(incoming.url ?? "", this.url);
    const asked = {
      method: incoming.method ?? "",
      path: url.pathname,
      query: url.searchParams,
      headers: incoming.headers,
      body: Buffer.concat(chunks).toString(),
    };
    this.asked.push(asked);
    this.handler(asked, answer, incoming.socket);
  }
}

export function json(answer: ServerResponse, status: number, body: unknown, headers: object = {}): void {
  answer.writeHead(status, { "content-type": "application/json", ...headers });
  answer.end(JSON.stringify(body));
}

/** An instant `ms` from now, for `deadlineMs`. */
export const within = (ms: number) => performance.now() + ms;
