import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Finding } from "../ipam/finding.ts";
import type { HostPort } from "./host-port.ts";
import { createBoundedServer } from "./listeners/bounded-server.ts";
import { SharedAnswer } from "./listeners/shared-answer.ts";
import { Turns } from "./listeners/turns.ts";
import type { Log } from "./log.ts";
import { listen } from "./socket.ts";
import type { Clock, Timer } from "./time.ts";

const REMEDY =
  'Set metricsAddress to an address of this machine with a free port (under systemd see docs/operations.md, "Metrics"), or to off';
/** Pause before another attempt to listen on a busy address, ms. */
const LISTEN_AGAIN_MS = 5_000;

interface MetricsText {
  text(clock: Clock): Promise<Metrics>;
}

interface Metrics {
  readonly contentType: string;
  readonly body: string;
}

export interface HealthServerOptions {
  /** null: off. */
  readonly address: HostPort | null;
  readonly metrics: MetricsText;
  /** Why the process does not serve now; null: it serves. */
  readonly notReady: () => string | null | Promise<string | null>;
  readonly log: Log;
  readonly clock: Clock;
  /** Keep trying when the address is in use, so that the process itself does not wait for its metrics. */
  readonly keepsTrying?: boolean;
}

/** /healthz, /readyz and /metrics of a process by TCP, and nothing else. */
export class HealthServer {
  readonly #options: HealthServerOptions;
  readonly #server: Server;
  readonly #metrics: SharedAnswer<Metrics>;
  readonly #turns: Turns;
  #again: Timer | null = null;
  #problem: string | null = null;
  #closed = false;

  constructor(options: HealthServerOptions) {
    this.#options = options;
    this.#metrics = new SharedAnswer(options.clock, () => options.metrics.text(options.clock));
    this.#turns = new Turns(options.clock);
    this.#server = createBoundedServer("health", (request, response) => {
      this.#answer(request, response).catch((error: Error) => send(response, 500, error.message));
    });
  }

  /** The address in use; null: it does not listen. */
  get address(): AddressInfo | null {
    return this.#server.address() as AddressInfo | null;
  }

  /** Throws Error when the address cannot be listened on, unless it keeps trying. */
  async start(): Promise<void> {
    const { address, clock, keepsTrying, log } = this.#options;
    if (address === null) return;
    try {
      const { host, port } = address;
      // Without a host, Node takes every address, also on a machine without IPv6.
      await listen(this.#server, { port, ...(host === "" ? {} : { host }) });
      this.#problem = null;
    } catch (error) {
      if (!keepsTrying) throw error;
      if (this.#closed) return;
      this.#problem = `metrics cannot be served at ${address.host}:${address.port}: ${(error as Error).message}`;
      log.error(`${this.#problem}; trying again. ${REMEDY}`);
      this.#again = clock.timer(LISTEN_AGAIN_MS, () => void this.start());
    }
  }

  /** For `holdfast check`. */
  findings(): Finding[] {
    return this.#problem === null ? [] : [{ invariant: "metrics", message: this.#problem, hint: REMEDY }];
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#again?.cancel();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  async #answer({ method, url = "" }: IncomingMessage, response: ServerResponse): Promise<void> {
    await this.#turns.next(response);
    const path = url.split("?", 1)[0];
    if (path !== "/healthz" && path !== "/readyz" && path !== "/metrics")
      return send(response, 404, "there are /healthz, /readyz and /metrics");
    if (method !== "GET" && method !== "HEAD") return send(response, 405, "only GET");
    if (path === "/healthz") return send(response, 200, "ok");
    if (path === "/readyz") {
      const reason = await this.#options.notReady();
      return reason === null ? send(response, 200, "ready") : send(response, 503, reason);
    }
    const { contentType, body } = await this.#metrics.next();
    await this.#turns.next(response);
    response.writeHead(200, { "content-type": contentType }).end(body);
  }
}

function send(response: ServerResponse, status: number, line: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(`${line}\n`);
}
