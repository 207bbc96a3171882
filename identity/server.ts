import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { parse } from "node:querystring";
import { type Refusal, refuse } from "../ipam/refusals.ts";
import { statusOf } from "../platform/api-error.ts";
import { createBoundedServer } from "../platform/listeners/bounded-server.ts";
import type { Log } from "../platform/log.ts";
import { closeServer, listen, listenOnSocket } from "../platform/socket.ts";
import type { Clock } from "../platform/time.ts";
import { refusalOf } from "../store/refusal-of.ts";
import { type ContentService, readContentQuery } from "./content.ts";
import { IdentityGeneration } from "./generation.ts";
import { readIdentityQuery } from "./query.ts";
import type { IdentityService } from "./service.ts";

const STOP_GRACE_MS = 1_000;

interface IdentityServerParts extends IdentityRequestParts {
  readonly clock: Clock;
  /** Calls back after each change of this node's attachments, before any caller is told of it. */
  watchChanges(changed: () => void): void;
}

/** Read-only: who is behind an address. Without the other socket's framework, whose routes could be reachable here. */
export class IdentityServer {
  readonly #clock: Clock;
  readonly #server: Server;
  #generation: IdentityGeneration | null = null;

  constructor(parts: IdentityServerParts) {
    this.#clock = parts.clock;
    parts.watchChanges(() => this.#generation?.next());
    this.#server = createBoundedServer("identity", (request, response) => {
      answer(parts, request, response).catch((error: Error) => {
        parts.log.error({ err: error }, "the identity socket");
        response.destroy();
      });
    });
  }

  /** Mode 0660 for a group, else 0600. Throws. Comes first: no answer of the previous daemon is used again after it. */
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

async function answer(parts: IdentityServerParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url = "" } = request;
  if (method === "GET") return send(response, await answerRequest(parts, url));
  response.setHeader("connection", "close");
  const what = `route ${method} ${url.split("?")[0]}; this socket is read-only`;
  send(response, refusalReply(refuse("NOT_FOUND", { what })));
}

function send(response: ServerResponse, { status, type, body }: IdentityReply): void {
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) });
  response.end(body);
}

interface IdentityRequestParts {
  readonly service: IdentityService;
  /** null: in Kubernetes, which keeps content itself. */
  readonly content: ContentService | null;
  readonly log: Log;
  notReady(): string | null;
}

interface IdentityReply {
  readonly status: number;
  readonly type: "application/json" | "text/plain";
  readonly body: string;
}

/** Answers a GET for a path with its query. Never rejects. */
export async function answerRequest(
  { service, content, log, notReady }: IdentityRequestParts,
  url: string,
): Promise<IdentityReply> {
  const cut = url.indexOf("?");
  const path = cut < 0 ? url : url.slice(0, cut);
  switch (path) {
    case "/healthz":
      return { status: 200, type: "text/plain", body: "ok\n" };
    case "/readyz": {
      const reason = notReady();
      return reason === null
        ? { status: 200, type: "text/plain", body: "ready\n" }
        : refusalReply(refuse("NOT_READY", { reason }));
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
        return { status: 200, type: "application/json", body: JSON.stringify(answered) };
      } catch (error) {
        const refusal = refusalOf(error);
        if (refusal.code === "INTERNAL_ERROR") log.error({ err: error as Error, url }, refusal.message);
        return refusalReply(refusal);
      }
  }
  return refusalReply(refuse("NOT_FOUND", { what: `route GET ${path}` }));
}

function refusalReply({ code, message, hint }: Refusal): IdentityReply {
  const body = JSON.stringify({ code, message, hint });
  return { status: statusOf(code), type: "application/json", body };
}
