import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { refuse } from "../ipam/refusals.ts";
import { createBoundedServer } from "../platform/listeners/bounded-server.ts";
import { closeServer, listen, listenOnSocket } from "../platform/socket.ts";
import type { Clock } from "../platform/time.ts";
import { answerRequest, type IdentityReply, type IdentityRequestParts, refusalReply } from "./answer-request.ts";
import { IdentityGeneration } from "./generation.ts";

const STOP_GRACE_MS = 1_000;

interface IdentityServerParts extends IdentityRequestParts {
  readonly clock: Clock;
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
    this.#server = createBoundedServer("identity", (request, response) => {
      answer(parts, request, response).catch((error: Error) => {
        parts.log.error({ err: error }, "the identity socket");
        response.destroy();
      });
    });
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
