import { Buffer } from "node:buffer";
import { connect, type Socket } from "node:net";

/** Longer than any answer about one VM, such as four objects of content in base64; a longer one is cut off. */
const ANSWER_BYTES_MAX = 8 << 20;
const HEAD_BYTES_MAX = 16 << 10;

export interface Reply {
  readonly status: number;
  readonly body: string;
}

/** The daemon has received the request and does not answer. */
export class NoAnswerInTime extends Error {
  override readonly name = "NoAnswerInTime";
}

interface ConnectionError extends Error {
  readonly code?: string;
}

/**
 * One keep-alive connection to a daemon of ours, for one GET after the other. It parses only what that writes (HTTP/1.1
 * with a Content-Length): Node's own client takes three times as long, felt when many VMs boot (docs/decisions/0049).
 */
export class LeanConnection {
  readonly #socket: Socket;
  #got: Buffer = Buffer.alloc(0);
  /** Came after that, and is not joined with it before there is enough: each time costs a copy of all. */
  #parts: Buffer[] = [];
  #partsBytes = 0;
  /** Bytes of the answer, as far as its head has said. */
  #needed = 0;
  #waiting: { resolve(reply: Reply): void; reject(error: ConnectionError): void } | null = null;

  /** `ended`: the connection can be used no more. */
  constructor(socketPath: string, { timeoutMs, ended }: { timeoutMs: number; ended: () => void }) {
    this.#socket = connect(socketPath);
    this.#socket.setTimeout(timeoutMs, () => {
      if (this.#waiting) this.#socket.destroy(new NoAnswerInTime("no answer in time"));
    });
    this.#socket.on("data", (chunk) => this.#receive(chunk));
    this.#socket.on("error", (error: ConnectionError) => this.#fail(error));
    this.#socket.on("close", () => {
      this.#fail(new Error("the connection ended before an answer"));
      ended();
    });
  }

  /** `path` must be valid in a request line. One request at a time. Rejects when the connection ends or times out. */
  get(path: string): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.ref();
      this.#socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    // Unrequested data would be taken for the answer to the next request.
    if (this.#waiting === null) return void this.#socket.destroy();
    this.#parts.push(chunk);
    this.#partsBytes += chunk.length;
    if (this.#got.length + this.#partsBytes < this.#needed) return;
    this.#got =
      this.#got.length + this.#partsBytes === chunk.length ? chunk : Buffer.concat([this.#got, ...this.#parts]);
    this.#parts = [];
    this.#partsBytes = 0;
    let reply: Reply | number;
    try {
      reply = readReply(this.#got);
    } catch (error) {
      this.#socket.destroy(error as Error);
      return;
    }
    if (typeof reply === "number") {
      this.#needed = reply;
      return;
    }
    this.#got = Buffer.alloc(0);
    this.#needed = 0;
    const waiting = this.#waiting;
    this.#waiting = null;
    // An idle connection does not keep the process alive.
    this.#socket.unref();
    waiting?.resolve(reply);
  }

  #fail(error: ConnectionError): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.reject(error);
  }
}

/** A number: the answer has at least so many bytes. Throws for anything but an answer of a daemon of ours. */
function readReply(got: Buffer): Reply | number {
  const headEnd = got.indexOf("\r\n\r\n");
  if (headEnd < 0) {
    if (got.length > HEAD_BYTES_MAX) throw new Error("its answer has no end of the head");
    return got.length + 1;
  }
  const head = got.toString("latin1", 0, headEnd);
  const status = /^HTTP\/1\.1 (\d{3})/.exec(head)?.[1];
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (status === undefined || length === undefined) throw new Error("its answer is not one of a daemon");
  if (Number(length) > ANSWER_BYTES_MAX) throw new Error("its answer is too long");
  const end = headEnd + 4 + Number(length);
  if (got.length < end) return end;
  if (got.length > end) throw new Error("its answer is longer than it says");
  return { status: Number(status), body: got.toString("utf8", headEnd + 4, end) };
}
