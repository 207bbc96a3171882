import Fastify, { type FastifyInstance } from "fastify";
import type { ControllerMetrics } from "./controller-metrics.ts";

/** /healthz, /readyz and /metrics of the controller, not listening yet. `notReady` says why, or null. */
export function buildControllerServer(
  metrics: ControllerMetrics,
  notReady: () => string | null,
): FastifyInstance {
  const server = Fastify({ logger: false, forceCloseConnections: true });
  server.get("/healthz", async () => "ok\n");
  server.get("/readyz", async (_request, reply) => {
    const reason = notReady();
    return reason === null ? "ready\n" : reply.code(503).send(`${reason}\n`);
  });
  server.get("/metrics", async (_request, reply) => {
    const { contentType, body } = await metrics.text();
    return reply.type(contentType).send(body);
  });
  return server;
}
