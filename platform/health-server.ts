import Fastify, { type FastifyInstance } from "fastify";

/** Everything measured, as Prometheus reads it. */
export interface MetricsText {
  text(): Promise<{ readonly contentType: string; readonly body: string }>;
}

/** /healthz, /readyz and /metrics, not listening yet. `notReady` says why, or null. */
export function buildHealthServer(metrics: MetricsText, notReady: () => string | null): FastifyInstance {
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
