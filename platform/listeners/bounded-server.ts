/*
 * platform/listeners/: what whoever reaches a listener can take
 *
 *   listeners        the table: who reaches which, and its bounds
 *   bounded-server   an HTTP server with the bounds of a row, as far as the process has descriptors
 *   reader-queue, shared-answer, turns   the share of a process that questions get
 */

import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createStreams, type Socket, type Server as StreamServer } from "node:net";
import { LISTENERS, type ListenerName } from "./listeners.ts";

/** How often Node looks for requests that are too slow, ms. */
const CHECK_INTERVAL_MS = 1_000;

/** For the database, files, and connections of our own. */
export const DESCRIPTORS_KEPT = 256;
/** Also where there are hardly any descriptors. */
const CONNECTIONS_MIN = 16;

/** Of each connection, two: the relay leads it on by one of its own. */
const LEADING: readonly string[] = ["relay"] satisfies ListenerName[];

/** Listeners with at most so many places have them on every machine. */
const SMALL_MAX = 256;

/**
 * With the bounds of a row, not listening yet. When it is full, whoever comes gets the place of who has waited longest
 * without a request: nobody is kept out who asks at once, as the kubelet's probes do (docs/decisions/0084).
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
    // A request before the answer to the one before: thousands would come with one read, and no client of ours does so.
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

/**
 * At once. The listeners of a process leave it descriptors: where its limit is low, those with many places have fewer,
 * the same share each. So accepting never finds none, and nor does the state database.
 */
export function connectionsMaxOf(name: ListenerName, limit = descriptorLimit()): number {
  const { connectionsMax, processes } = LISTENERS[name];
  if (connectionsMax <= SMALL_MAX) return connectionsMax;
  const all = Object.entries(LISTENERS).filter(([, row]) =>
    row.processes.some((one) => (processes as readonly string[]).includes(one)),
  );
  let left = limit - DESCRIPTORS_KEPT;
  let shares = 0;
  for (const [one, row] of all)
    if (row.connectionsMax <= SMALL_MAX) left -= row.connectionsMax;
    else shares += LEADING.includes(one) ? 2 : 1;
  const share = Math.floor(left / shares);
  return Math.max(CONNECTIONS_MIN, Math.min(connectionsMax, share));
}

/** Node raises the soft limit to the hard one when it starts. */
function descriptorLimit(): number {
  try {
    const line = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    return line === null ? Number.POSITIVE_INFINITY : Number(line[1]);
  } catch {
    // Not Linux.
    return Number.POSITIVE_INFINITY;
  }
}
