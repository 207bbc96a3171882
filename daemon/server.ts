import Fastify, { type FastifyError, type FastifyInstance } from "fastify";
import { addAdminRoutes, addReadOnlyAdminRoutes } from "../admin/http.ts";
import { addCniRoute, refused } from "../cni/route.ts";
import { CNI_BODY_BYTES_MAX } from "../cni-shim/wire.ts";
import { addPortRoute } from "../guests/ports/route.ts";
import { isObject } from "../ipam/definition/definition-keys.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import { sendApiError } from "../platform/api-error.ts";
import { createBoundedServer } from "../platform/listeners/bounded-server.ts";
import { ReaderQueue } from "../platform/listeners/reader-queue.ts";
import { SharedAnswer } from "../platform/listeners/shared-answer.ts";
import { Turns } from "../platform/listeners/turns.ts";
import type { Log } from "../platform/log.ts";
import type { Clock } from "../platform/time.ts";
import { refusalOf } from "../store/refusal-of.ts";
import type { NodeCore } from "./node-core.ts";

/** Of what is shown of a path in an error: its end. */
const PATH_CHARS_MAX = 200;

export function buildServer(node: NodeCore, log: Log, clock: Clock): FastifyInstance {
  const server = emptyServer("plugin", log);
  addJsonParser(server);
  addCniRoute(server, node.cni);
  addAdminRoutes(server, node.admin, new ReaderQueue(clock));
  addPortRoute(server, node.ports);
  addHealthRoutes(server, node, log, clock);
  return server;
}

/** Questions only: for operators who are not root. */
export function buildReadOnlyServer(node: NodeCore, log: Log, clock: Clock): FastifyInstance {
  const server = emptyServer("readers", log);
  addTextParser(server);
  addReadOnlyAdminRoutes(server, node.admin, { readers: new ReaderQueue(clock), read: bodyReader(server) });
  addHealthRoutes(server, node, log, clock);
  return server;
}

function emptyServer(listener: "plugin" | "readers", log: Log): FastifyInstance {
  const server = Fastify({
    serverFactory: (handler) => createBoundedServer(listener, handler),
    logger: false,
    bodyLimit: CNI_BODY_BYTES_MAX,
    routerOptions: { maxParamLength: 300 },
    // Requests that arrive while the daemon ends are answered by the routes, in a form that a runtime understands.
    return503OnClosing: false,
    frameworkErrors: (error, { url }, reply) => {
      sendApiError(reply, refuse("REQUEST_INVALID", { key: "URL", value: url, remedy: error.message }));
    },
  });
  server.setErrorHandler((error: FastifyError, request, reply) => {
    const refusal = fastifyRefusal(error, request.url) ?? refusalOf(error);
    if (refusal.code === "INTERNAL_ERROR") log.error({ err: error, url: request.url }, refusal.message);
    if (request.url === "/cni") {
      const { status, body } = refused("1.1.0", refusal);
      return reply.code(status).send(body);
    }
    return sendApiError(reply, refusal);
  });
  server.setNotFoundHandler((request, reply) =>
    sendApiError(reply, refuse("NOT_FOUND", { what: `route ${request.method} ${request.url}` })),
  );
  return server;
}

/** Errors that fastify raises before a route runs: a body that is no JSON, too large, or of another type. */
function fastifyRefusal(error: FastifyError, url: string): Refusal | null {
  if (typeof error.code !== "string" || !error.code.startsWith("FST_") || (error.statusCode ?? 500) >= 500) return null;
  if (url === "/cni") return refuse("CONFIG_UNREADABLE", { problem: error.message });
  return refuse("REQUEST_INVALID", { key: "body", value: "refused", remedy: error.message });
}

function addHealthRoutes(server: FastifyInstance, node: NodeCore, log: Log, clock: Clock): void {
  const metrics = new SharedAnswer(clock, () => node.metrics.text(clock));
  const turns = new Turns(clock);
  server.get("/healthz", async (_request, reply) => {
    await turns.next(reply.raw);
    return "ok\n";
  });
  server.get("/readyz", async (_request, reply) => {
    await turns.next(reply.raw);
    const reason = node.whyNothingNew();
    if (reason === null) return "ready\n";
    return sendApiError(reply, refuse("NOT_READY", { reason }));
  });
  server.get("/metrics", async (_request, reply) => {
    const { contentType, body } = await metrics.next();
    await turns.next(reply.raw);
    log.debug("metrics read");
    return reply.type(contentType).send(body);
  });
}

/** JSON bodies are read at once, by `bodyReader`. */
function addJsonParser(server: FastifyInstance): void {
  const read = bodyReader(server);
  server.addContentTypeParser<string>("application/json", { parseAs: "string" }, (_request: unknown, body: string) =>
    read(body),
  );
}

/** JSON bodies are handed on as text: reading one of some MB takes time that its route answers for. */
function addTextParser(server: FastifyInstance): void {
  server.addContentTypeParser<string>(
    "application/json",
    { parseAs: "string" },
    async (_request: unknown, body: string) => body,
  );
}

/** As Fastify does, which refuses names that alter objects in JavaScript; but its error shows where such a name is. */
function bodyReader(server: FastifyInstance): (body: string) => Promise<unknown> {
  const parse = server.getDefaultJsonParser("error", "error");
  return (body) =>
    new Promise((resolve, reject) => {
      // It looks at no request.
      void parse(undefined as never, body, (error, value) =>
        error ? reject(refusalOfName(body) ?? error) : resolve(value),
      );
    });
}

/** null: the body is not JSON at all. */
function refusalOfName(body: string): RefusalError | null {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  const path = findForbidden(value);
  if (path === null) return null;
  const key = path.length <= PATH_CHARS_MAX ? path : `…${path.slice(-PATH_CHARS_MAX)}`;
  const remedy = "no object has a key of that name, which would alter objects in JavaScript: remove it";
  return new RefusalError(refuse("REQUEST_INVALID", { key, value: "refused", remedy }));
}

/** Without recursion: a body may be nested a million levels deep. */
function findForbidden(body: unknown): string | null {
  const open: [path: string, value: unknown][] = [["", body]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [path, value] = next;
    if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) open.push([`${path}[${index}]`, one]);
    } else if (isObject(value)) {
      for (const [name, one] of Object.entries(value)) {
        const at = path === "" ? name : `${path}.${name}`;
        if (name === "__proto__") return at;
        if (name === "constructor" && isObject(one) && Object.hasOwn(one, "prototype")) return `${at}.prototype`;
        open.push([at, one]);
      }
    }
  }
  return null;
}
