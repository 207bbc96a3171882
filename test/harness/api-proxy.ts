import { once } from "node:events";
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Clock } from "../../platform/time.ts";
import type { Cluster } from "./world/cluster.ts";

export interface ProxyRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

/**
 * What becomes of a request. `drop-request`: the connection ends before anything is forwarded. `drop-answer`: the
 * server does it, the connection ends instead of the answer. `twice`: forwarded once more after the first answer, and
 * that to the second goes back. `hang`: not forwarded, never answered. `end-watch`: the answer ends after its headers.
 * `silent-watch`: nothing follows the headers. A `body` that is no string is sent as JSON.
 */
export type ProxyAct =
  | { readonly status: number; readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> }
  | { readonly delayMs: number }
  | "drop-request"
  | "drop-answer"
  | "twice"
  | "hang"
  | "end-watch"
  | "silent-watch";

export interface ProxyRule {
  readonly when: (request: ProxyRequest) => boolean;
  /** How many requests it is for; default: all. */
  readonly times?: number;
  readonly act: ProxyAct;
}

export interface ProxyLogEntry extends ProxyRequest {
  /** What was sent, as far as it has arrived. */
  body: string;
  /** The server's status, or that of the rule; null while there is none. */
  status: number | null;
  readonly act: ProxyAct | null;
}

/**
 * A proxy on the loopback before a cluster's API server, with the same certificate; plain HTTP where the server has
 * none.
 */
export class ApiProxy {
  /** Every request since the start, oldest first; a test may empty it. */
  readonly log: ProxyLogEntry[] = [];
  readonly ca: string;
  readonly #upstream: URL;
  readonly #upstreamAgent: http.Agent;
  readonly #server: http.Server;
  readonly #sockets = new Set<Socket>();
  readonly #watches = new Set<OpenWatch>();
  readonly #headers: Readonly<Record<string, string>>;
  /** Of what is answered later. */
  readonly #clock: Clock;
  #rules: { rule: ProxyRule; left: number }[] = [];

  private constructor(cluster: Cluster, headers: Readonly<Record<string, string>>) {
    this.#headers = headers;
    this.#clock = cluster.time.clock;
    this.ca = cluster.ca;
    this.#upstream = new URL(cluster.server);
    const handle = (asked: IncomingMessage, answer: ServerResponse) => this.#handle(asked, answer);
    if (this.#isSecure) {
      this.#upstreamAgent = new https.Agent({ keepAlive: true, ca: cluster.ca });
      this.#server = https.createServer({ cert: cluster.ca, key: cluster.key }, handle);
    } else {
      this.#upstreamAgent = new http.Agent({ keepAlive: true });
      this.#server = http.createServer(handle);
    }
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    // A watch is open for as long as it takes.
    this.#server.requestTimeout = 0;
    this.#server.headersTimeout = 0;
  }

  /** `headers` are added to every request. */
  static async start(cluster: Cluster, headers: Readonly<Record<string, string>> = {}): Promise<ApiProxy> {
    const proxy = new ApiProxy(cluster, headers);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    return proxy;
  }

  /** For `cluster.kubeconfig(user, proxy.url)`. */
  get url(): string {
    return `${this.#upstream.protocol}//127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Adds a rule; the first that fits a request decides. Returns what removes it. */
  rule(rule: ProxyRule): () => void {
    const entry = { rule, left: rule.times ?? Number.POSITIVE_INFINITY };
    this.#rules.push(entry);
    return () => {
      this.#rules = this.#rules.filter((other) => other !== entry);
    };
  }

  /** Removes every rule. What hangs or is silent stays so. */
  clear(): void {
    this.#rules = [];
  }

  /** Ends every open watch as a server does that has had enough. */
  endWatches(): void {
    for (const { answer } of this.#watches) answer.end();
  }

  /** Keeps every open watch open, and forwards nothing of it any more. */
  silenceWatches(): void {
    for (const { answer, from } of this.#watches) silence(from, answer);
  }

  /** Destroys every connection of the clients. */
  cutConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cutConnections();
    this.#upstreamAgent.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  get #isSecure(): boolean {
    return this.#upstream.protocol === "https:";
  }

  #handle(asked: IncomingMessage, answer: ServerResponse): void {
    const seen = { method: asked.method ?? "", path: asked.url ?? "", headers: asked.headers };
    const act = this.#actFor(seen);
    const entry: ProxyLogEntry = { ...seen, body: "", status: null, act };
    this.log.push(entry);
    answer.on("error", () => {});
    asked.on("error", () => {});
    asked.on("data", (chunk: Buffer) => {
      entry.body += chunk.toString();
    });
    if (act === "hang") return;
    if (act === "drop-request") asked.socket.destroy();
    else if (typeof act === "object" && act !== null && "status" in act) answerItself(act, entry, answer);
    else if (typeof act === "object" && act !== null) {
      asked.pause();
      this.#clock.timer(act.delayMs, () => this.#forward(asked, answer, entry));
    } else this.#forward(asked, answer, entry);
  }

  #actFor(seen: ProxyRequest): ProxyAct | null {
    const entry = this.#rules.find(({ rule, left }) => left > 0 && rule.when(seen));
    if (entry === undefined) return null;
    entry.left -= 1;
    return entry.rule.act;
  }

  #forward(asked: IncomingMessage, answer: ServerResponse, entry: ProxyLogEntry): void {
    const sent = this.#sent(entry, (from) => this.#answer(from, answer, entry));
    sent.on("error", () => asked.socket.destroy());
    // A client that goes away ends its watch at the server too; what drop-answer began is finished.
    answer.once("close", () => {
      if (entry.act !== "drop-answer") sent.destroy();
    });
    asked.pipe(sent);
  }

  #sent(entry: ProxyLogEntry, answered: (from: IncomingMessage) => void): ClientRequest {
    const { hostname, port } = this.#upstream;
    const { method, path } = entry;
    const headers = { ...entry.headers, ...this.#headers };
    const { request } = this.#isSecure ? https : http;
    return request({ hostname, port, method, path, headers, agent: this.#upstreamAgent }, (from) => {
      entry.status = from.statusCode ?? null;
      answered(from);
    });
  }

  #answer(from: IncomingMessage, answer: ServerResponse, entry: ProxyLogEntry): void {
    from.on("error", () => answer.destroy());
    if (entry.act === "drop-answer") {
      from.resume();
      from.once("end", () => answer.destroy());
      return;
    }
    if (entry.act === "twice") {
      from.resume();
      from.once("end", () => {
        const again = this.#sent(entry, (second) => this.#answer(second, answer, { ...entry, act: null }));
        again.on("error", () => answer.destroy());
        again.end(entry.body);
      });
      return;
    }
    answer.writeHead(from.statusCode ?? 502, from.headers);
    // Without this a watch's headers wait for its first event.
    answer.flushHeaders();
    if (entry.act === "end-watch") {
      from.destroy();
      answer.end();
      return;
    }
    if (/[?&]watch=(1|true)/.test(entry.path)) {
      const watch = { answer, from };
      this.#watches.add(watch);
      answer.once("close", () => this.#watches.delete(watch));
    }
    if (entry.act === "silent-watch") silence(from, answer);
    else from.pipe(answer);
  }
}

interface OpenWatch {
  readonly answer: ServerResponse;
  readonly from: IncomingMessage;
}

/** Reads on, so that the server goes on sending, and forwards nothing; also not the end. */
function silence(from: IncomingMessage, answer: ServerResponse): void {
  from.unpipe(answer);
  from.removeAllListeners("error");
  from.on("error", () => {});
  from.resume();
}

function answerItself(
  act: {
    readonly status: number;
    readonly body?: unknown;
    readonly headers?: Readonly<Record<string, string>>;
  },
  entry: ProxyLogEntry,
  answer: ServerResponse,
): void {
  entry.status = act.status;
  const body = typeof act.body === "string" ? act.body : JSON.stringify(act.body ?? {});
  answer.writeHead(act.status, { "content-type": "application/json", ...act.headers });
  answer.end(body);
}
