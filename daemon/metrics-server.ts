import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { buildHealthServer, type MetricsText } from "./controller-server.ts";
import type { HostPort } from "./host-port.ts";

/** Pause before an address that cannot be listened on is tried again, ms. */
const LISTEN_AGAIN_MS = 5_000;

/**
 * /healthz, /readyz and /metrics by TCP, for Prometheus: nothing else of the daemon can be asked there. An address that
 * is taken is tried again: no container waits for it.
 */
export class MetricsServer {
  readonly #server: FastifyInstance;
  /** null: off. */
  readonly #address: HostPort | null;
  readonly #log: Logger;
  #again: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(address: HostPort | null, metrics: MetricsText, notReady: () => string | null, log: Logger) {
    this.#server = buildHealthServer(metrics, notReady);
    this.#address = address;
    this.#log = log;
  }

  async start(): Promise<void> {
    if (this.#address === null) return;
    const { host, port } = this.#address;
    try {
      await this.#server.listen({ port, host: host === "" ? "::" : host });
    } catch (error) {
      if (this.#closed) return;
      const where = `${host}:${port}`;
      this.#log.error(
        `metrics cannot be served at ${where}: ${(error as Error).message}; trying again. Set metricsAddress to an address of this machine with a free port (under systemd see docs/operations.md, "Metrics"), or to off`,
      );
      this.#again = setTimeout(() => void this.start(), LISTEN_AGAIN_MS);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#again);
    await this.#server.close();
  }
}
