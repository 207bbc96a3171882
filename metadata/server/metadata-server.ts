/*
 * metadata/server/: `holdfast metadata`, which answers guests
 *
 *   main, settings      the process
 *   metadata-server     its parts, put together; sources: where answers come from
 *   guest-server        requests of guests, as the listeners pass them on
 *   read-request, answer-guest, request-scheduler  their parts
 *   guest-memory        what was told a moment ago, what is never told twice, and which networks require tokens
 *   key-ring            secrets
 *   server-metrics
 */

import type { Server } from "node:http";
import type { Connect } from "../../kube/kube-api.ts";
import { HealthServer } from "../../platform/health-server.ts";
import type { Log } from "../../platform/log.ts";
import { QuietLog } from "../../platform/log.ts";
import { closeServer, listen } from "../../platform/socket.ts";
import type { Clock } from "../../platform/time.ts";
import { BackendProxy } from "../proxy/proxy.ts";
import type { Backend } from "../tenant/tenant-source.ts";
import { buildGuestServer } from "./guest-server.ts";
import { KeyRing } from "./key-ring.ts";
import { activationFd, listenForGroup } from "./listen.ts";
import { originByConnection, originByListener } from "./read-request.ts";
import { ServerMetrics } from "./server-metrics.ts";
import type { MetadataSettings } from "./settings.ts";
import { openSources, type Sources } from "./sources.ts";

/** Longer than an answer of ours takes; a backend that hangs does not hold up the end. */
const STOP_GRACE_MS = 3_000;

/** The parts of one running metadata server, wired together. `start` before `stop`. */
export class MetadataServer {
  readonly #settings: MetadataSettings;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #ring: KeyRing;
  readonly #metrics: ServerMetrics;
  readonly #sources: Sources;
  readonly #proxy: BackendProxy;
  readonly #guests: Server;
  readonly #health: HealthServer;

  /** `connect`: default over HTTP. Throws Error when a file or directory of the settings cannot be used. */
  static async create(settings: MetadataSettings, log: Log, clock: Clock, connect?: Connect): Promise<MetadataServer> {
    const ring = new KeyRing(settings, log, clock);
    const metrics = new ServerMetrics();
    const sources = await openSources({
      settings,
      log,
      clock,
      serviceSecret: () => ring.serviceSecret,
      onOutcome: (outcome) => metrics.identityAnswered(outcome),
      onList: (page) => metrics.lists.observe(page),
      connect,
    });
    return new MetadataServer(settings, log, clock, { ring, metrics, sources });
  }

  private constructor(
    settings: MetadataSettings,
    log: Log,
    clock: Clock,
    { ring, metrics, sources }: { ring: KeyRing; metrics: ServerMetrics; sources: Sources },
  ) {
    this.#settings = settings;
    this.#log = log;
    this.#clock = clock;
    this.#ring = ring;
    this.#metrics = metrics;
    this.#sources = sources;
    const quiet = new QuietLog(log, clock);
    this.#proxy = new BackendProxy({
      timeoutMs: settings.backendTimeoutSeconds * 1_000,
      log: quiet,
      clock,
      onOutcome: (kind, outcome) => this.#metrics.forwarded(kind, outcome),
    });
    const { fixed } = settings;
    this.#guests = buildGuestServer({
      identities: sources.identities,
      tenants: sources.tenants,
      proxy: this.#proxy,
      defaultBackend: () => this.#nova(),
      keys: () => this.#ring.keys,
      origin: (incoming, lines) =>
        fixed === null
          ? originByListener(lines)
          : originByConnection(fixed.network, incoming.socket.remoteAddress, lines),
      metrics: this.#metrics,
      log: quiet,
      errors: log,
      clock,
    });
    this.#health = new HealthServer({
      address: settings.metricsAddress,
      metrics,
      notReady: () => sources.notReady(),
      log,
      clock,
    });
  }

  /** Throws Error when an address or a socket cannot be listened on. */
  async start(): Promise<void> {
    const { fixed, novaUrl } = this.#settings;
    try {
      await this.#sources.start();
      await this.#health.start();
      const where = fixed === null ? await this.#listenOnSocket() : await this.#listenOnAddress(fixed);
      const nova = novaUrl?.origin ?? null;
      this.#log.info({ ...where, metrics: this.#health.address, nova }, "listening");
    } catch (error) {
      await this.stop();
      throw error;
    }
    if (novaUrl && this.#ring.novaSecret.length === 0)
      this.#log.warn(
        "there is no --secret-file: requests to Nova are signed with the empty key, which is right only where its metadata_proxy_shared_secret is not set; whoever can reach that Nova can pass for any instance",
      );
  }

  /** Pending requests are answered first. */
  async stop(): Promise<void> {
    await closeServer(this.#guests, this.#clock, STOP_GRACE_MS);
    await this.#health.close();
    this.#proxy.close();
    await this.#sources.stop();
    this.#ring.stop();
  }

  /** Where metrics are served, once they are: the port that was chosen for port 0. */
  get port(): number {
    return this.#health.address?.port ?? 0;
  }

  #nova(): Backend | null {
    const { novaUrl } = this.#settings;
    return novaUrl && { kind: "nova", url: novaUrl.origin, secret: this.#ring.novaSecret, ca: this.#ring.ca };
  }

  async #listenOnSocket(): Promise<object> {
    const fd = activationFd(process.env);
    if (fd !== null) {
      await listen(this.#guests, { fd });
      return { socket: "of systemd" };
    }
    const { metadataSocket, metadataSocketGroup } = this.#settings;
    const { group } = await listenForGroup(this.#guests, metadataSocket, metadataSocketGroup);
    return { socket: metadataSocket, group };
  }

  async #listenOnAddress(fixed: NonNullable<MetadataSettings["fixed"]>): Promise<object> {
    await listen(this.#guests, fixed.listen);
    return { network: fixed.network, address: this.#guests.address() };
  }
}
