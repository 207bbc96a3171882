import { createServer, type Server } from "node:http";
import type { NetMetrics } from "./metrics.ts";

/** /healthz, /readyz and /metrics, not listening yet. `notReady` says why, or null. */
export function buildNetServer(metrics: NetMetrics, notReady: () => string | null): Server {
  return createServer((request, answer) => {
    const send = (status: number, body: string, type = "text/plain; charset=utf-8") =>
      answer.writeHead(status, { "content-type": type }).end(body);
    if (request.method !== "GET" && request.method !== "HEAD") send(405, "only GET\n");
    else if (request.url === "/healthz") send(200, "ok\n");
    else if (request.url === "/readyz") {
      const reason = notReady();
      if (reason === null) send(200, "ready\n");
      else send(503, `${reason}\n`);
    } else if (request.url === "/metrics") {
      metrics.text().then(
        ({ contentType, body }) => send(200, body, contentType),
        (error: Error) => send(500, `${error.message}\n`),
      );
    } else send(404, "there are /healthz, /readyz and /metrics\n");
  });
}
