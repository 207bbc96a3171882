import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { parse } from "node:querystring";
import { type Refusal, refuse } from "../ipam/refusals.ts";
import { statusOf } from "../platform/api-error.ts";
import type { Log } from "../platform/log.ts";
import { closeServer, listen, listenOnSocket } from "../platform/socket.ts";
import type { Clock } from "../platform/time.ts";
import { refusalOf } from "../store/refusal-of.ts";
import { type ContentService, readContentQuery } from "./content.ts";
import { IdentityGeneration } from "./generation.ts";
import { readIdentityQuery } from "./query.ts";
import type { IdentityService } from "./service.ts";

/** One metadata server keeps a few connections; a failing client takes no more memory than these. */
const CONNECTIONS_MAX = 512;
/** Longer than any valid request. */
const HEADER_BYTES_MAX = 8_192;
const STOP_GRACE_MS = 1_000;

interface IdentityServerParts {
  readonly service: IdentityService;
  /** null: in Kubernetes, which keeps content itself. */
  readonly content: ContentService | null;
  readonly clock: Clock;
  readonly log: Log;
  notReady(): string | null;
  /** Calls back after each change of this node's attachments, before any caller is told of it. */
  watchChanges(changed: () => void): void;
}

/**
 * The socket for clients that may know who is behind an address, and nothing else: it changes nothing and lists
 * nothing. Without the framework of the other socket, whose routes and plug-ins could become reachable here.
 */
export class IdentityServer {
  readonly #clock: Clock;
  readonly #server: Server;
  #generation: IdentityGeneration | null = null;

  constructor(parts: IdentityServerParts) {
    this.#clock = parts.clock;
    parts.watchChanges(() => this.#generation?.next());
    const options = { maxHeaderSize: HEADER_BYTES_MAX, keepAliveTimeout: 60_000, requestTimeout: 10_000 };
    this.#server = createServer(options, (request, response) => {
      answer(parts, request, response).catch((error: Error) => {
        parts.log.error({ err: error }, "the identity socket");
        response.destroy();
      });
    });
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /**
   * Mode 0660 for a group, else 0600. Throws when the path cannot be used. Must come before anything is answered
   * elsewhere, so that no answer of the previous daemon is used again after that.
   */
  async listen(path: string, gid: number | null): Promise<void> {
    const socket = { listen: (where: { path: string }) => listen(this.#server, where) };
    await listenOnSocket(socket, path, { flag: "--identity-socket", gid });
    this.#generation = new IdentityGeneration(path, gid, this.#clock);
  }

  /** Answers pending requests; a client that does not read its answer does not hold up the end. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    await closeServer(this.#server, this.#clock, STOP_GRACE_MS);
  }

  /** Call when nothing changes any more. */
  end(): void {
    this.#generation?.end();
    this.#generation = null;
  }
}

async function answer(
  { service, content, log, notReady }: IdentityServerParts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = request.url ?? "";
  const cut = url.indexOf("?");
  const path = cut < 0 ? url : url.slice(0, cut);
  if (request.method !== "GET") {
    response.setHeader("connection", "close");
    return sendRefusal(
      response,
      refuse("NOT_FOUND", { what: `route ${request.method} ${path}; this socket is read-only` }),
    );
  }
  switch (path) {
    case "/healthz":
      return send(response, 200, "ok\n", "text/plain");
    case "/readyz": {
      const reason = notReady();
      return reason === null
        ? send(response, 200, "ready\n", "text/plain")
        : sendRefusal(response, refuse("NOT_READY", { reason }));
    }
    case "/v1/identity":
    case "/v1/content":
      if (path === "/v1/content" && content === null) break;
      try {
        const query = parse(cut < 0 ? "" : url.slice(cut + 1));
        const answered =
          content !== null && path === "/v1/content"
            ? content.answer(readContentQuery(query))
            : await service.answer(readIdentityQuery(query));
        return send(response, 200, JSON.stringify(answered), "application/json");
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal.code === "INTERNAL_ERROR") log.error({ err: error as Error, url }, refusal.message);
        return sendRefusal(response, refusal);
      }
  }
  sendRefusal(response, refuse("NOT_FOUND", { what: `route GET ${path}` }));
}

function sendRefusal(response: ServerResponse, { code, message, hint }: Refusal): void {
  send(response, statusOf(code), JSON.stringify({ code, message, hint }), "application/json");
}

function send(response: ServerResponse, status: number, body: string, type: string): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) });
  response.end(body);
}
