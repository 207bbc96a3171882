/*
 * guests/services/: ports of Services beside port 80
 *
 *   service-ports    follows what `holdfast metadata` wants, and has it carried out
 *   services-wire    the protocol with it
 */

import { isDeepStrictEqual } from "node:util";
import { PORT_MAX } from "../../platform/host-port.ts";
import { JsonFields } from "../../platform/json-fields.ts";
import type { Log } from "../../platform/log.ts";
import { Notifier } from "../../platform/notifier.ts";
import { type Clock, sleep } from "../../platform/time.ts";
import { AWAY_MS_MAX, AWAY_MS_MIN, EXCHANGE_MS_MIN, exchange, METADATA_SERVER, POLL_MS } from "../long-poll.ts";
import { SERVICES_PATH, type ServicesReport, type WantedService, type WantedServices } from "./services-wire.ts";

export type OpenPorts = ReadonlyMap<string, readonly number[]>;

export interface ServicePortsOptions {
  /** The socket of `holdfast metadata` for this. */
  readonly socket: string;
  /** Opens these ports, and closes all others. false: it cannot be tried yet. */
  readonly open: (ports: OpenPorts) => Promise<boolean>;
  readonly log: Pick<Log, "info" | "warn">;
  readonly clock: Clock;
}

/** Keeps the ports open that the Services of this node's networks have; while nobody says which, all stays. */
export class ServicePorts {
  readonly #options: ServicePortsOptions;
  readonly #stopping = new AbortController();
  readonly #changes: Notifier;
  #polling = new AbortController();
  #networks: readonly string[] = [];
  #applied: string | null = null;
  #problem: string | null = null;
  #ports: OpenPorts = new Map();
  #running: Promise<void> = Promise.resolve();

  constructor(options: ServicePortsOptions) {
    this.#options = options;
    this.#changes = new Notifier(options.clock);
  }

  start(): void {
    this.#running = this.#follow();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#polling.abort();
    this.#changes.close();
    await this.#running;
  }

  /** They are not open any more: the next answer is carried out again, and says why that fails. */
  lost(): void {
    this.#applied = null;
    this.#polling.abort();
    this.#changes.notify();
  }

  /** The networks with guests at this node's listener. */
  serve(networks: readonly string[]): void {
    if (isDeepStrictEqual(networks, this.#networks)) return;
    this.#networks = networks;
    this.#polling.abort();
    this.#changes.notify();
  }

  async #follow(): Promise<void> {
    const { socket, clock } = this.#options;
    const { signal } = this.#stopping;
    let awayMs = AWAY_MS_MIN;
    while (!signal.aborted) {
      this.#polling = new AbortController();
      const polling = this.#polling.signal;
      await this.#changes.until(() => this.#networks.length > 0, POLL_MS);
      if (signal.aborted || this.#networks.length === 0) continue;
      const report: ServicesReport = {
        ...{ applied: this.#applied, networks: this.#networks, problem: this.#problem, waitMs: POLL_MS },
      };
      try {
        const question = { socket, path: SERVICES_PATH, report, signal: polling };
        const wanted = await exchange(METADATA_SERVER, question, readWanted);
        if (wanted.version !== this.#applied) await this.#carryOut(wanted);
        awayMs = AWAY_MS_MIN;
        await sleep(clock, EXCHANGE_MS_MIN, signal);
      } catch {
        // Of a socket that is not there nothing is said: that is so wherever there is no cluster.
        if (polling.aborted) continue;
        await sleep(clock, awayMs, signal);
        awayMs = Math.min(2 * awayMs, AWAY_MS_MAX);
      }
    }
  }

  async #carryOut({ version, services }: WantedServices): Promise<void> {
    const { log, open } = this.#options;
    const ports = new Map(
      services.map(({ network, ports: wanted }) => [network, wanted ?? this.#ports.get(network) ?? []] as const),
    );
    let isTried: boolean;
    try {
      isTried = await open(ports);
    } catch (error) {
      const problem = (error as Error).message;
      if (problem !== this.#problem) log.warn({ problem }, "ports of Services cannot be opened for guests");
      this.#problem = problem;
      throw error;
    }
    if (!isTried) {
      this.#problem = null;
      throw new Error("the listener is not made yet");
    }
    if (!isDeepStrictEqual(ports, this.#ports))
      log.info({ ports: Object.fromEntries(ports) }, "the ports of Services that guests reach");
    this.#problem = null;
    this.#ports = ports;
    this.#applied = version;
  }
}

function readWanted(value: unknown): WantedServices {
  const wanted = new JsonFields(value);
  return { version: wanted.string("version"), services: wanted.list("services", readService) };
}

function readService(value: unknown): WantedService {
  const service = new JsonFields(value);
  const network = service.string("network", (text) => /^[^\s|,]+$/.test(text));
  if (service.get("ports") === null) return { network, ports: null };
  return { network, ports: service.list("ports", readPort) };
}

function readPort(value: unknown): number {
  if (!Number.isInteger(value) || (value as number) < 1 || (value as number) > PORT_MAX || value === 80)
    throw new Error(`ports: expected numbers of ports other than 80`);
  return value as number;
}
