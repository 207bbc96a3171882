/*
 * metadata/relay/: guests' connections to other ports of their network's Service than the one for port 80
 *
 *   service-relay       which ports there are, and the connections to them; relay-header: what haproxy says of one
 *   followed-networks   what metadata-net is told of its networks, here and of balancers
 */

import { connect, type Server, type Socket } from "node:net";
import {
  type ServicesReport,
  serviceKey,
  type WantedService,
  type WantedServices,
} from "../../guests/services/services-wire.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { createBoundedStreams } from "../../platform/listeners/bounded-server.ts";
import { LISTENERS } from "../../platform/listeners/listeners.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import type { NetworkPorts } from "../tenant/services.ts";
import { FollowedNetworks } from "./followed-networks.ts";
import { readRelayHeader } from "./relay-header.ts";

const { headerBytesMax, headerMs, silentMs } = LISTENERS.relay;
/** For one endpoint to accept a connection, ms. */
const CONNECT_MS_MAX = 2_000;

/** Where the ports of networks come from. */
interface PortSource {
  /** Calls back after each change that may be one of ports. */
  watch(changed: () => void): void;
  /** null: the network has no Service that can be used. Throws ApiAway. */
  portsOf(network: string): Promise<NetworkPorts | null>;
  /** Tells the network's owner that guests of this node do not reach these ports. Throws ApiAway. */
  tellUnopened(network: string, problem: string): Promise<void>;
}

interface RelayOptions {
  readonly source: PortSource;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}

/** A port of a network that guests reach. */
interface OpenPort {
  readonly network: string;
  readonly port: number;
  readonly service: string;
}

interface KnownService extends WantedService {
  readonly service: string;
}

/**
 * Leads connections of guests to a ready endpoint of this node, byte for byte. When a port goes, its connections end.
 */
export class ServiceRelay {
  readonly #options: RelayOptions;
  readonly #networks: FollowedNetworks<KnownService>;
  readonly server: Server;
  #open: ReadonlyMap<string, OpenPort> = new Map();
  /** What is under way, by key of the port. */
  readonly #connections = new Map<string, Set<Socket>>();
  /** So that endpoints get connections in turn. */
  #turn = 0;

  constructor(options: RelayOptions) {
    this.#options = options;
    const { clock, source } = options;
    this.#networks = new FollowedNetworks<KnownService>({
      clock,
      watch: (changed) => source.watch(changed),
      wantedOf: (network) => this.#wantedOf(network),
      isUnknown: ({ ports }) => ports === null,
      changed: (services) => this.#take(services),
    });
    this.server = createBoundedStreams("relay", (guest) => this.#accept(guest));
  }

  start(): void {
    this.#networks.start();
  }

  async stop(): Promise<void> {
    await this.#networks.stop();
    this.#take([]);
    if (this.server.listening) await new Promise((resolve) => this.server.close(resolve));
  }

  /** As BalancerService has it. */
  async poll(report: ServicesReport, hungUp: AbortSignal): Promise<WantedServices | null> {
    if (report.problem !== null) this.#tellUnopened(report.problem);
    const found = await this.#networks.poll(report, hungUp);
    return (
      found && {
        version: found.version,
        services: found.wanted.map(({ network, ports }) => ({ network, ports })),
      }
    );
  }

  #tellUnopened(problem: string): void {
    const { source, log } = this.#options;
    for (const { network, ports } of this.#networks.wanted) {
      if (ports === null) continue;
      source.tellUnopened(network, problem).catch((error: Error) => {
        if (!(error instanceof ApiAway))
          log.warn({ network, err: error }, "nobody was told of ports that are not open");
      });
    }
  }

  async #wantedOf(network: string): Promise<KnownService | null> {
    const { source, log } = this.#options;
    try {
      const found = await source.portsOf(network);
      if (found === null || found.ports.length === 0) return null;
      return { network, service: found.service, ports: found.ports.map(({ port }) => port) };
    } catch (error) {
      if (!(error instanceof ApiAway))
        log.warn({ network, err: error as Error }, "the ports of a network cannot be told");
      return { network, service: "", ports: null };
    }
  }

  /** Cuts what is connected to a port that is no more, or another Service's now. */
  #take(services: readonly KnownService[]): void {
    const open = new Map<string, OpenPort>();
    for (const { network, service, ports } of services) {
      if (ports === null) for (const [key, known] of this.#open) if (known.network === network) open.set(key, known);
      for (const port of ports ?? []) open.set(serviceKey(network, port), { network, port, service });
    }
    for (const [key, { service }] of this.#open) {
      if (open.get(key)?.service === service) continue;
      for (const socket of this.#connections.get(key) ?? []) socket.destroy();
    }
    this.#open = open;
  }

  #accept(guest: Socket): void {
    const late = this.#options.clock.timer(headerMs, () => guest.destroy());
    guest.on("error", () => guest.destroy());
    guest.once("close", () => late.cancel());
    let data = Buffer.alloc(0);
    const hear = (piece: Buffer) => {
      data = Buffer.concat([data, piece]);
      try {
        const header = readRelayHeader(data, headerBytesMax);
        if (header === null) return;
        guest.off("data", hear).pause();
        late.cancel();
        if (data.length > header.bytes) guest.unshift(data.subarray(header.bytes));
        void this.#lead(guest, header.key);
      } catch {
        guest.destroy();
      }
    };
    guest.on("data", hear);
  }

  async #lead(guest: Socket, key: string): Promise<void> {
    const { source, log } = this.#options;
    const open = this.#open.get(key);
    if (open === undefined) {
      guest.destroy();
      return;
    }
    this.#keep(key, guest);
    try {
      const found = await source.portsOf(open.network);
      const endpoints = found?.ports.find(({ port }) => port === open.port)?.endpoints ?? [];
      if (found?.service !== open.service) guest.destroy();
      else await this.#join(guest, endpoints);
    } catch (error) {
      guest.destroy();
      if (!(error instanceof ApiAway))
        log.warn({ network: open.network, err: error as Error }, "a guest's connection cannot be led on");
    }
  }

  #keep(key: string, guest: Socket): void {
    const own = this.#connections.get(key) ?? new Set();
    this.#connections.set(key, own.add(guest));
    guest.once("close", () => {
      own.delete(guest);
      if (own.size === 0 && this.#connections.get(key) === own) this.#connections.delete(key);
    });
  }

  /** To the first that accepts, beginning with the one whose turn it is. */
  async #join(guest: Socket, endpoints: readonly string[]): Promise<void> {
    this.#turn += 1;
    for (const index of endpoints.keys()) {
      if (guest.destroyed) return;
      const endpoint = endpoints[(this.#turn + index) % endpoints.length] as string;
      const backend = await this.#connect(endpoint);
      if (backend === null) continue;
      join(guest, backend);
      return;
    }
    guest.destroy();
  }

  /** null: it does not accept. */
  #connect(endpoint: string): Promise<Socket | null> {
    const [host = "", port = ""] = endpoint.split(":");
    return new Promise((resolve) => {
      const backend = connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true });
      const late = this.#options.clock.timer(CONNECT_MS_MAX, () => backend.destroy());
      backend.once("connect", () => {
        late.cancel();
        resolve(backend);
      });
      backend.on("error", () => backend.destroy());
      backend.once("close", () => {
        late.cancel();
        resolve(null);
      });
    });
  }
}

/** Both ways, until either side is gone; what one has sent to its end before it went still arrives at the other. */
function join(guest: Socket, backend: Socket): void {
  for (const [one, other] of [
    [guest, backend],
    [backend, guest],
  ] as const) {
    one.setTimeout(silentMs, () => one.destroy());
    one.once("close", () => {
      if (!(one.readableEnded && one.writableFinished)) other.destroy();
    });
    one.pipe(other);
  }
  if (guest.destroyed) backend.destroy();
}
