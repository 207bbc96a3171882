import type { FastifyInstance } from "fastify";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { ReaderQueue } from "../platform/listeners/reader-queue.ts";
import type { NodeAdminApi } from "./admin-api.ts";
import { type AdminRoute, answerRoute, isForReaders, mayWait, ROUTES } from "./routes.ts";

/** Everything but `/cni` on a daemon's socket. Errors are thrown as RefusalError and sent by the server. */
export function addAdminRoutes(server: FastifyInstance, api: NodeAdminApi, readers: ReaderQueue): void {
  for (const route of ROUTES) addRoute(server, route, api, readers);
}

/** The same for those who may only look: every other request is refused, and says what to do instead. */
export function addReadOnlyAdminRoutes(
  server: FastifyInstance,
  api: NodeAdminApi,
  { readers, read }: { readonly readers: ReaderQueue; readonly read: (body: string) => Promise<unknown> },
): void {
  for (const route of ROUTES) {
    if (isForReaders(route)) addRoute(server, route, api, readers, read);
    else
      server.route({
        method: route.method,
        url: route.path,
        // Before its body is read.
        onRequest: (_request, reply) => readers.run(reply.raw, () => refused(route)).then(() => {}),
        handler: () => refused(route),
      });
  }
}

async function refused({ method, path }: AdminRoute): Promise<never> {
  throw new RefusalError(refuse("READ_ONLY", { request: `${method} ${path}` }));
}

/** What only reads waits for its turn among this server's readers. `read`: bodies are texts, read in that turn. */
function addRoute(
  server: FastifyInstance,
  route: AdminRoute,
  api: NodeAdminApi,
  readers: ReaderQueue,
  read?: (body: string) => Promise<unknown>,
): void {
  server.route<{ Params: Record<string, string> }>({
    method: route.method,
    url: route.path,
    handler: async ({ params, query, body, url }, reply) => {
      const answer = async () =>
        answerRoute(route, api, {
          ...{ params, query },
          body: read && typeof body === "string" ? await read(body) : body,
        });
      if (!isForReaders(route)) return answer();
      const text = mayWait(route)
        ? await readers.runElsewhere(reply.raw, url, answer)
        : await readers.run(reply.raw, answer);
      return reply.type("application/json; charset=utf-8").send(text);
    },
  });
}
