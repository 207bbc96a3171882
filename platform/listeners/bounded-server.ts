/*
 * platform/listeners/: what whoever reaches a listener can take
 *
 *   listeners        the table: who reaches which, and its bounds
 *   bounded-server   an HTTP server with the bounds of a row
 *   descriptors      how many connections the process can have
 *   reader-queue, shared-answer, turns   the share of a process that questions get
 */

import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createStreams, type Socket, type Server as StreamServer } from "node:net";
import { connectionsMaxOf } from "./descriptors.ts";
import { LISTENERS, type ListenerName } from "./listeners.ts";

/** How often Node looks for requests that are too slow, ms. */
const CHECK_INTERVAL_MS = 1_000;

/**
 * An HTTP server with the bounds of a row of the table, not listening yet. When it is full, whoever comes gets the
 * place of the connection that has waited longest without a request: those who hold places keep nobody out who asks at
 * once, as the kubelet's probes do (docs/decisions/0084).
 */
export function createBoundedServer(name: ListenerName, answer: RequestListener): Server {
  const { headerBytesMax, headerMs, requestMs, keepAliveMs, silentMs } = LISTENERS[name];
  const server = createServer(
    {
      maxHeaderSize: headerBytesMax,
      headersTimeout: headerMs,
      requestTimeout: requestMs,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: CHECK_INTERVAL_MS,
    },
    (request, response) => {
      if (!request.socket.destroyed) answer(request, response);
    },
  );
  server.timeout = silentMs;
  const places = new Places(connectionsMaxOf(name));
  server.on("connection", (socket: Socket) => places.take(socket));
  // Before the listener that answers, which may end the response at once.
  server.prependListener("request", (request, response) => {
    places.asks(request);
    response.once("close", () => places.waits(request.socket));
  });
  return server;
}

/** A server of bytes with the bounds of a row, not listening yet: full, it closes newcomers, whom haproxy lets wait. */
export function createBoundedStreams(name: "relay", accept: (socket: Socket) => void): StreamServer {
  const server = createStreams({ allowHalfOpen: true, noDelay: true }, accept);
  server.maxConnections = connectionsMaxOf(name);
  return server;
}

/** The connections of a server, and which of them goes when there are too many. */
class Places {
  readonly #countMax: number;
  /** Without a whole request, or with an answer that was sent, the longest first. */
  readonly #waiting = new Set<Socket>();
  /** With a request, the oldest first. */
  readonly #asking = new Map<Socket, IncomingMessage>();

  constructor(countMax: number) {
    this.#countMax = countMax;
  }

  take(socket: Socket): void {
    this.#waiting.add(socket);
    socket.once("close", () => {
      this.#waiting.delete(socket);
      this.#asking.delete(socket);
    });
    if (this.#waiting.size + this.#asking.size > this.#countMax) this.#removeOne();
  }

  asks(request: IncomingMessage): void {
    // A request before the answer to the one before: thousands would come with one read, and nobody who asks us does
    // so.
    if (this.#asking.has(request.socket)) {
      request.socket.destroy();
      return;
    }
    this.#waiting.delete(request.socket);
    this.#asking.set(request.socket, request);
  }

  waits(socket: Socket): void {
    this.#asking.delete(socket);
    if (!socket.destroyed) this.#waiting.add(socket);
  }

  /** Where all others have asked, a request whose body does not come goes before the newcomer. */
  #removeOne(): void {
    let [gone] = this.#waiting;
    if (this.#waiting.size === 1)
      for (const [socket, request] of this.#asking) {
        if (request.complete) continue;
        gone = socket;
        break;
      }
    if (gone === undefined) return;
    this.#waiting.delete(gone);
    this.#asking.delete(gone);
    gone.destroy();
  }
}
