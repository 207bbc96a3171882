/** A daemon that does as it is told, on a real unix socket. */
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { CniWireRequest } from "../../cni-shim/wire.ts";
import { temporaryDirectory } from "./harness.ts";

export interface Daemon {
  readonly socketPath: string;
  /** What arrived, whole requests only: head and body. */
  readonly requests: { head: string; body: Buffer }[];
  close(): Promise<void>;
}

/** What the daemon does with one connection, once a whole request is there. */
export type Script = (connection: Socket, body: Buffer) => void;

/** Listens on a unix socket. `onConnect` runs before anything is read; `script` for each whole request. */
export async function listen(
  socketPath: string,
  script: Script,
  onConnect?: (connection: Socket) => void,
): Promise<Daemon> {
  const requests: Daemon["requests"] = [];
  const open = new Set<Socket>();
  const server = createServer((connection) => {
    open.add(connection);
    connection.on("close", () => open.delete(connection));
    connection.on("error", () => {}); // a shim that gave up
    let received = Buffer.alloc(0);
    connection.on("data", (chunk) => {
      received = Buffer.concat([received, chunk]);
      const request = wholeRequest(received);
      if (request === undefined) return;
      connection.removeAllListeners("data").resume();
      requests.push(request);
      script(connection, request.body);
    });
    onConnect?.(connection);
  });
  await new Promise<void>((done, failed) => server.once("error", failed).listen(socketPath, done));
  const close = () =>
    new Promise<void>((done) => {
      for (const connection of open) connection.destroy();
      server.close(() => done());
    });
  return { socketPath, requests, close };
}

function wholeRequest(received: Buffer): { head: string; body: Buffer } | undefined {
  const headEnd = received.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const head = received.subarray(0, headEnd).toString();
  const length = Number(/^Content-Length: (\d+)$/m.exec(head.replaceAll("\r", ""))?.[1]);
  const body = received.subarray(headEnd + 4);
  return body.length >= length ? { head, body } : undefined;
}

/** `listen` in a directory of its own, closed after the test. */
export async function startDaemon(script: Script, onConnect?: (connection: Socket) => void): Promise<Daemon> {
  const daemon = await listen(join(temporaryDirectory(), "holdfast.sock"), script, onConnect);
  onTestFinished(() => daemon.close());
  return daemon;
}

/** The bytes of an answer as the daemon writes it. */
export function httpAnswer(status: number, body: string | Buffer): Buffer {
  const bytes = Buffer.from(body);
  const head = `HTTP/1.1 ${status} Some Reason\r\nContent-Type: application/json\r\nContent-Length: ${bytes.length}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), bytes]);
}

/** A script that gives the same bytes to every request and closes. */
export function always(answer: string | Buffer): Script {
  return (connection) => connection.end(answer);
}

export function wireRequest(body: Buffer): CniWireRequest {
  return JSON.parse(body.toString());
}
