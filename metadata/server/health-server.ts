import { createServer, type Server } from "node:http";
import type { ServerMetrics } from "./server-metrics.ts";

/** /healthz, /readyz and /metrics, not listening yet. `notReady` says why, or null. */
export function buildHealthServer(metrics: ServerMetrics, notReady: () => Promise<string | null>): Server {
  return createServer((request, response) => {
    const send = (status: number, body: string, type = "text/plain; charset=UTF-8") => {
      response.writeHead(status, { "content-type": type }).end(body);
    };
    const failed = (error: Error) => send(500, `${error.message}\n`);
    switch (request.url) {
      case "/healthz":
        return send(200, "ok\n");
      case "/readyz":
        notReady().then((why) => (why === null ? send(200, "ready\n") : send(503, `${why}\n`)), failed);
        return;
      case "/metrics":
        metrics.text().then(({ contentType, body }) => send(200, body, contentType), failed);
        return;
      default:
        return send(404, "there are /healthz, /readyz and /metrics\n");
    }
  });
}
