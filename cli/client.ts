import type { IncomingMessage } from "node:http";
import type { Command } from "commander";
import type { ApiError } from "../daemon/api-error.ts";
import { EXIT, Failure } from "./failure.ts";
import { SOCKET_DEFAULT, unreachable } from "./unreachable.ts";

export type Query = Readonly<Record<string, string | undefined>>;

/** The socket API of one daemon. Whatever goes wrong is thrown as a Failure that can be shown. */
export class Client {
  readonly socket: string;
  /** Silence after which an answer is no longer expected, ms; 0 waits for ever. */
  readonly #silenceMsMax: number;

  constructor(socket: string, silenceMsMax: number) {
    this.socket = socket;
    this.#silenceMsMax = silenceMsMax;
  }

  /** The client that the options of a command and the environment ask for. */
  static of(command: Command): Client {
    const { socket, timeout } = command.optsWithGlobals<{ socket?: string; timeout: number }>();
    return new Client(socket ?? (process.env.HOLDFAST_SOCKET || SOCKET_DEFAULT), timeout * 1_000);
  }

  /** The same daemon, for work that takes as long as it takes. */
  patient(): Client {
    return new Client(this.socket, 0);
  }

  get<T>(path: string, query: Query = {}): Promise<T> {
    const given = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
    const search = new URLSearchParams(given).toString();
    return this.#call("GET", search === "" ? path : `${path}?${search}`);
  }

  post<T>(path: string, body: object): Promise<T> {
    return this.#call("POST", path, JSON.stringify(body));
  }

  async #call<T>(method: string, path: string, body?: string): Promise<T> {
    // Loaded here and without an Agent, which would compile what only TCP needs: both are felt in a start of 80 ms.
    const { request } = process.getBuiltinModule("node:http");
    const { connect } = process.getBuiltinModule("node:net");
    const headers =
      body === undefined
        ? {}
        : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const createConnection = () => connect(this.socket);
      const sent = request({ createConnection, method, path, headers }, resolve);
      sent.setTimeout(this.#silenceMsMax, () => sent.destroy(silence(this.#silenceMsMax)));
      sent.on("error", reject);
      sent.end(body);
    }).catch((error: NodeJS.ErrnoException) => {
      throw unreachable(this.socket, error);
    });
    const text = await readText(answer).catch((error: NodeJS.ErrnoException) => {
      throw unreachable(this.socket, error);
    });
    return this.#understand<T>(answer.statusCode ?? 0, text);
  }

  #understand<T>(status: number, text: string): T {
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      throw unreachable(
        this.socket,
        Object.assign(new Error(`HTTP ${status} without JSON`), { code: "EPROTO" }),
      );
    }
    if (status < 300) return answer as T;
    const { code = "", message = `HTTP ${status}`, hint = "" } = (answer ?? {}) as Partial<ApiError>;
    throw new Failure(message, { hint, code, exitCode: EXIT.refused });
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
