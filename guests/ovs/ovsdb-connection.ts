import { createConnection, type Socket } from "node:net";
import type { Clock, Timer } from "../../platform/time.ts";

/** Longest wait for an answer, ms: a server that compacts a big database is silent for seconds. */
const ANSWER_MS_MAX = 10_000;
/** Of one message: the whole northbound database of a node with thousands of Services has some ten million. */
const MESSAGE_CHARS_MAX = 1 << 26;
/** Requests without an answer. */
const PENDING_MAX = 1_000;

/** What the server said to a request: an error of JSON-RPC, or that there was no answer. */
export class OvsdbError extends Error {}

interface Pending {
  readonly take: (result: unknown) => void;
  readonly fail: (error: OvsdbError) => void;
  readonly timer: Timer;
}

export interface ConnectionEvents {
  readonly opened: () => void;
  /** A request of the server's that expects no answer. An Error thrown here ends the connection. */
  readonly notified: (method: string, params: unknown) => void;
  /** Once, also when it was never open. */
  readonly closed: (error: NodeJS.ErrnoException | null) => void;
}

/** One connection: JSON-RPC 1.0 over a unix socket (RFC 7047, section 4). Answers the server's `echo`. */
export class OvsdbConnection {
  readonly #clock: Clock;
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  readonly #messages = new JsonObjects(MESSAGE_CHARS_MAX);
  readonly #notified: ConnectionEvents["notified"];
  #lastId = 0;

  constructor(path: string, clock: Clock, { opened, notified, closed }: ConnectionEvents) {
    this.#clock = clock;
    this.#notified = notified;
    let failure: Error | null = null;
    this.#socket = createConnection(path, opened).setEncoding("utf8");
    this.#socket.on("data", (chunk: string) => this.#receive(chunk));
    this.#socket.on("error", (error) => {
      failure = error;
    });
    this.#socket.on("close", () => {
      const error = new OvsdbError(`the connection to ${path} ended: ${failure?.message ?? "the server closed it"}`);
      for (const [id] of this.#pending) this.#settle(id)?.fail(error);
      closed(failure);
    });
  }

  /** `take` is called before a later message is read, and its Error ends the connection. One of the two is called. */
  call(method: string, params: unknown, take: Pending["take"], fail: Pending["fail"]): void {
    if (this.#socket.destroyed || this.#pending.size >= PENDING_MAX) {
      fail(new OvsdbError(this.#socket.destroyed ? "there is no connection" : "too many requests have no answer"));
      return;
    }
    this.#lastId += 1;
    const id = this.#lastId;
    // Nobody knows what became of the request: everything is read again on the next connection.
    const timer = this.#clock.timer(ANSWER_MS_MAX, () => this.end(new Error(`no answer in ${ANSWER_MS_MAX} ms`)));
    this.#pending.set(id, { take, fail, timer });
    this.#send({ id, method, params });
  }

  /** Closes it; requests without an answer fail. */
  end(error?: Error): void {
    this.#socket.destroy(error);
  }

  #send(message: object): void {
    this.#socket.write(JSON.stringify(message));
  }

  #receive(chunk: string): void {
    try {
      for (const message of this.#messages.push(chunk)) this.#take(message as Record<string, unknown>);
    } catch (error) {
      this.end(error as Error);
    }
  }

  #take({ id, method, params, result, error }: Record<string, unknown>): void {
    if (this.#socket.destroyed) return;
    if (method === "echo") this.#send({ id, result: params, error: null });
    else if (typeof method === "string") this.#notified(method, params);
    else {
      const pending = this.#settle(id as number);
      if (error === null || error === undefined) pending?.take(result);
      else pending?.fail(new OvsdbError(errorText(error)));
    }
  }

  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.timer.cancel();
    return pending;
  }
}

/** `<error>` of RFC 7047, section 3.1. */
export function errorText(error: unknown): string {
  if (typeof error !== "object" || error === null || !("error" in error)) return JSON.stringify(error);
  const { error: name, details } = error as { error: unknown; details?: unknown };
  return typeof details === "string" && details !== "" ? `${name}: ${details}` : String(name);
}

/** Takes JSON objects apart that follow one another without length or separator, as in OVSDB (RFC 7047, section 4). */
export class JsonObjects {
  readonly #charsMax: number;
  /** Of the object that is not complete yet. */
  #parts: string[] = [];
  #chars = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;

  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  /** The objects that end in this chunk. Throws Error for what is no JSON, and for an object above the limit. */
  push(chunk: string): readonly unknown[] {
    const objects: unknown[] = [];
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      if (!this.#endsAt(chunk[at] as string)) continue;
      objects.push(JSON.parse(this.#parts.join("") + chunk.slice(start, at + 1)));
      this.#parts = [];
      this.#chars = 0;
      start = at + 1;
    }
    const rest = chunk.slice(start);
    this.#chars += rest.length;
    if (this.#chars > this.#charsMax) throw new Error(`a message has more than ${this.#charsMax} characters`);
    if (rest !== "") this.#parts.push(rest);
    return objects;
  }

  #endsAt(character: string): boolean {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false;
      else if (character === "\\") this.#escaped = true;
      else if (character === '"') this.#inString = false;
      return false;
    }
    if (character === '"') this.#inString = true;
    else if (character === "{") this.#depth += 1;
    else if (character === "}") {
      this.#depth -= 1;
      return this.#depth === 0;
    }
    return false;
  }
}
