import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import type { Finding } from "../ipam/finding.ts";
import { buildHealthServer, type MetricsText } from "./health-server.ts";
import type { HostPort } from "./host-port.ts";

const REMEDY =
  'Set metricsAddress to an address of this machine with a free port (under systemd see docs/operations.md, "Metrics"), or to off';
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
  #problem: string | null = null;
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
      this.#problem = null;
    } catch (error) {
      if (this.#closed) return;
      this.#problem = `metrics cannot be served at ${host}:${port}: ${(error as Error).message}`;
      this.#log.error(`${this.#problem}; trying again. ${REMEDY}`);
      this.#again = setTimeout(() => void this.start(), LISTEN_AGAIN_MS);
    }
  }

  /** For `holdfast check`. */
  findings(): Finding[] {
    return this.#problem === null ? [] : [{ invariant: "metrics", message: this.#problem, hint: REMEDY }];
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#again);
    await this.#server.close();
  }
}
