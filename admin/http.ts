import type { FastifyInstance } from "fastify";
import type { NodeAdminApi } from "./admin-api.ts";
import { answerRoute, ROUTES } from "./routes.ts";

/**
 * The admin API on a daemon's socket (everything but `/cni`). Errors are thrown as RefusalError and sent by the server.
 */
export function addAdminRoutes(server: FastifyInstance, api: NodeAdminApi): void {
  for (const route of ROUTES) {
    server.route<{ Params: Record<string, string> }>({
      method: route.method,
      url: route.path,
      handler: ({ params, query, body }) => answerRoute(route, api, { params, query, body }),
    });
  }
}
