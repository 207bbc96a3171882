import type { IncomingMessage } from "node:http";
import { Agent, type RequestOptions, request } from "node:https";

/** An object of the API as tests look at it. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every shape
export type KubeObject = any;

export interface KubeAnswer {
  /** HTTP status. */
  readonly status: number;
  /** The parsed JSON answer; text where it is no JSON. */
  readonly body: KubeObject;
}

const PATCH_TYPES = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
} as const;

/**
 * A small client of an API server, by path. `call` returns every answer; the others throw an error with the answer's
 * text when the status is 300 or more.
 */
export abstract class KubeApi {
  /** Sends a request; rejects only when the connection fails. `headers` replace the usual ones. */
  abstract call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<KubeAnswer>;

  get(path: string): Promise<KubeObject> {
    return this.#must("GET", path);
  }

  /** The items of a list. */
  async list(path: string): Promise<KubeObject[]> {
    return (await this.#must("GET", path)).items;
  }

  /** The object, or null when there is none. */
  async find(path: string): Promise<KubeObject | null> {
    const answer = await this.call("GET", path);
    return answer.status === 404 ? null : succeeded("GET", path, answer);
  }

  /** `path` is the collection's. */
  create(path: string, object: unknown): Promise<KubeObject> {
    return this.#must("POST", path, object);
  }

  replace(path: string, object: unknown): Promise<KubeObject> {
    return this.#must("PUT", path, object);
  }

  async patch(path: string, patch: unknown, type: keyof typeof PATCH_TYPES = "merge"): Promise<KubeObject> {
    const answer = await this.call("PATCH", path, patch, { "content-type": PATCH_TYPES[type] });
    return succeeded("PATCH", path, answer);
  }

  /** `options` are DeleteOptions, e.g. `{ propagationPolicy: "Foreground" }`. An object that is gone is no error. */
  async delete(path: string, options?: object): Promise<KubeObject> {
    const answer = await this.call("DELETE", path, options);
    return answer.status === 404 ? null : succeeded("DELETE", path, answer);
  }

  /** Closes the idle connections. */
  abstract close(): void;

  async #must(method: string, path: string, body?: unknown): Promise<KubeObject> {
    return succeeded(method, path, await this.call(method, path, body));
  }
}

/** The client of a real server. */
export class ServerApi extends KubeApi {
  readonly #server: URL;
  readonly #agent: Agent;
  readonly #token: string;

  constructor(server: string, ca: string, token: string) {
    super();
    this.#server = new URL(server);
    this.#token = token;
    this.#agent = new Agent({ keepAlive: true, ca });
  }

  override call(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<KubeAnswer> {
    const text = body === undefined ? "" : JSON.stringify(body);
    const options: RequestOptions = {
      host: this.#server.hostname,
      port: this.#server.port,
      method,
      path,
      agent: this.#agent,
      headers: {
        authorization: `Bearer ${this.#token}`,
        accept: "application/json",
        ...(text === "" ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
        ...headers,
      },
    };
    return new Promise((resolve, reject) => {
      const sent = request(options, (answer) => {
        readAll(answer).then((content) => resolve({ status: answer.statusCode ?? 0, body: parsed(content) }), reject);
      });
      sent.on("error", reject);
      sent.end(text);
    });
  }

  override close(): void {
    this.#agent.destroy();
  }
}

function succeeded(method: string, path: string, answer: KubeAnswer): KubeObject {
  if (answer.status < 300) return answer.body;
  throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
}

async function readAll(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

function parsed(text: string): KubeObject {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
