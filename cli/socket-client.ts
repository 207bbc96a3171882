import type { IncomingMessage } from "node:http";
import type { Answer, PathOf } from "../admin/answers.ts";
import type { ApiError } from "../platform/api-error.ts";
import { hearSocketErrors } from "../platform/socket.ts";
import type { Client, Query } from "./client.ts";
import { CommandError, EXIT } from "./failure.ts";
import { unreachable } from "./unreachable.ts";

export class SocketClient implements Client {
  readonly kind = "node";
  readonly socket: string;
  /** Silence after which an answer is no longer expected, ms; 0 waits for ever. */
  readonly #silenceMsMax: number;

  constructor(socket: string, silenceMsMax: number) {
    this.socket = socket;
    this.#silenceMsMax = silenceMsMax;
  }

  /** The same daemon, for requests without a time limit. */
  patient(): SocketClient {
    return new SocketClient(this.socket, 0);
  }

  get<Path extends PathOf<"GET">>(path: Path, query: Query = {}): Promise<Answer<"GET", Path>> {
    const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
    const search = new URLSearchParams(given).toString();
    return this.#call("GET", search === "" ? path : `${path}?${search}`);
  }

  post<Path extends PathOf<"POST">>(path: Path, body: object): Promise<Answer<"POST", Path>> {
    return this.#call("POST", path, JSON.stringify(body));
  }

  /** Resolves when the daemon is ready; else the CommandError says why it is not. */
  async ready(): Promise<void> {
    const { status, text } = await this.#ask("GET", "/readyz");
    if (status >= 300) this.#understand(status, text);
  }

  async #call<T>(method: string, path: string, body?: string): Promise<T> {
    const { status, text } = await this.#ask(method, path, body);
    return this.#understand<T>(status, text);
  }

  async #ask(method: string, path: string, body?: string): Promise<{ status: number; text: string }> {
    // Loaded here and without an Agent, which would compile what only TCP needs: both are noticeable in a start of 80
    // ms.
    const { request } = process.getBuiltinModule("node:http");
    const { connect } = process.getBuiltinModule("node:net");
    const headers =
      body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const createConnection = () => connect(this.socket);
      const sent = hearSocketErrors(request({ createConnection, method, path, headers }, resolve));
      sent.setTimeout(this.#silenceMsMax, () => sent.destroy(silence(this.#silenceMsMax)));
      sent.on("error", reject);
      sent.end(body);
    }).catch((error: NodeJS.ErrnoException) => {
      throw unreachable(this.socket, error);
    });
    const text = await readText(answer).catch((error: NodeJS.ErrnoException) => {
      throw unreachable(this.socket, error);
    });
    return { status: answer.statusCode ?? 0, text };
  }

  #understand<T>(status: number, text: string): T {
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      throw unreachable(this.socket, Object.assign(new Error(`HTTP ${status} without JSON`), { code: "EPROTO" }));
    }
    if (status < 300) return answer as T;
    const { code = "", message = `HTTP ${status}`, hint = "" } = (answer ?? {}) as Partial<ApiError>;
    throw new CommandError(message, { hint, code, exitCode: EXIT.refused });
  }
}

function silence(ms: number): Error {
  return Object.assign(new Error(`no answer within ${ms / 1_000} s`), { code: "ETIMEDOUT" });
}

async function readText(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
