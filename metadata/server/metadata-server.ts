/*
 * metadata/server/: `holdfast metadata`, which answers guests
 *
 *   main, settings      the process
 *   metadata-server     its parts, put together, and where answers come from
 *   guest-server        requests of guests, as the listeners pass them on
 *   read-request, answer-guest, request-scheduler  their parts
 *   guest-memory        what was told a moment ago, what is never told twice, and which networks require tokens
 *   key-ring            secrets
 *   server-metrics
 */

import type { Buffer } from "node:buffer";
import type { Server } from "node:http";
import type { Server as NetServer } from "node:net";
import { IdentityClient, type IdentityOutcome } from "../../identity/client.ts";
import type { IdentitySource } from "../../identity/source.ts";
import type { Connect, OnList } from "../../kube/kube-api.ts";
import { HealthServer } from "../../platform/health-server.ts";
import { type Log, QuietLog } from "../../platform/log.ts";
import { closeServer, listen } from "../../platform/socket.ts";
import type { Clock } from "../../platform/time.ts";
import { BackendProxy } from "../proxy/proxy.ts";
import type { KubeTenants } from "../tenant/create-kube-tenant-source.ts";
import { type ContentSource, NodeContents } from "../tenant/node-content.ts";
import { Passwords } from "../tenant/passwords.ts";
import { StandaloneSource } from "../tenant/standalone-source.ts";
import type { Backend, TenantSource } from "../tenant/tenant-source.ts";
import { buildGuestServer } from "./guest-server.ts";
import { KeyRing } from "./key-ring.ts";
import { activationFd, listenForGroup } from "./listen.ts";
import { originByConnection, originByListener } from "./read-request.ts";
import { ServerMetrics } from "./server-metrics.ts";
import type { MetadataSettings } from "./settings.ts";

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

interface Sources {
  readonly identities: IdentitySource;
  readonly tenants: TenantSource;
  /** Why guests cannot be answered now; null: they can. */
  notReady(): Promise<string | null>;
  /** Begins to watch; does not wait. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

interface SourcesOptions {
  readonly settings: MetadataSettings;
  readonly log: Log;
  readonly clock: Clock;
  serviceSecret(): Buffer | null;
  onOutcome(outcome: IdentityOutcome): void;
  readonly onList: OnList;
  /** The way to the API server; default: over HTTP. */
  readonly connect?: Connect | undefined;
}

/** Creates what the settings select. Throws Error when a directory or the kubeconfig cannot be used. */
async function openSources(options: SourcesOptions): Promise<Sources> {
  const { settings, onOutcome } = options;
  const { kubernetes, fixed } = settings;
  if (kubernetes !== null && fixed !== null) {
    return openPodSources(options, kubernetes.kubeconfig, fixed.network);
  }
  const identities = new IdentityClient(settings.identitySocket, options.clock, onOutcome);
  const tenants =
    kubernetes === null
      ? standaloneTenants(options, identities)
      : withBalancers(await kubeTenants(options, kubernetes.kubeconfig), options);
  return {
    identities,
    tenants,
    notReady: () => identities.notReady(),
    start: () => tenants.start(),
    async stop() {
      await tenants.stop();
      await identities.close();
    },
  };
}

type RunningTenants = TenantSource & { start(): Promise<void>; stop(): Promise<void> };

function standaloneTenants({ settings, log, clock }: SourcesOptions, source: ContentSource): RunningTenants {
  const contents = new NodeContents({ source, log: new QuietLog(log, clock), clock });
  const tenants = new StandaloneSource(new Passwords(settings.state, clock), contents);
  return Object.assign(tenants, { start: async () => {}, stop: async () => {} });
}

async function kubeTenants(options: SourcesOptions, kubeconfig: string | null): Promise<KubeTenants> {
  // Read only where there is a cluster: its packages take memory and time.
  const { createKubeTenantSource } = await import("../tenant/create-kube-tenant-source.ts");
  const { settings, log, clock, serviceSecret: secret } = options;
  const { node } = settings;
  return createKubeTenantSource({ kubeconfig, node, log, clock, secret, connect: await wayOf(options) });
}

/** Networks of OVN-Kubernetes lead their guests to Services by balancers, which metadata-net makes. */
function withBalancers(tenants: KubeTenants, { settings, log, clock }: SourcesOptions): RunningTenants {
  const { balancersSocket: socket, metadataSocketGroup: group, node } = settings;
  const { backends: source, events } = tenants;
  let stopBalancers = async () => {};
  return {
    viewOf: (identity) => tenants.viewOf(identity),
    keepPassword: (identity, password) => tenants.keepPassword(identity, password),
    backendOf: (network) => tenants.backendOf(network),
    async start() {
      await tenants.start();
      const { serveBalancers } = await import("../balancers/serve-balancers.ts");
      const listenForHaproxy = (server: NetServer, path: string) => listenForGroup(server, path, group);
      const parts = { socket, listenForHaproxy, source, events, node, log, clock };
      stopBalancers = await serveBalancers(parts);
    },
    async stop() {
      await stopBalancers();
      await tenants.stop();
    },
  };
}

/** As the Service's own pod, on a network whose addresses OVN-Kubernetes allocates: without a daemon. */
async function openPodSources(options: SourcesOptions, kubeconfig: string | null, network: string): Promise<Sources> {
  const { createOvnIdentity } = await import("../../identity/sources/ovn/identity.ts");
  const connect = await wayOf(options);
  const tenants = await kubeTenants(options, kubeconfig);
  const api = connect(kubeconfig, options.clock);
  const ovn = createOvnIdentity({
    api,
    network,
    log: options.log,
    ...(options.settings.tokens === undefined ? {} : { tokens: options.settings.tokens }),
  });
  return {
    identities: counted(ovn, options.onOutcome),
    // The network's Service is this server itself.
    tenants: {
      viewOf: (identity) => tenants.viewOf(identity),
      keepPassword: (identity, password) => tenants.keepPassword(identity, password),
      backendOf: async () => null,
    },
    notReady: async () => ovn.notReady(),
    async start() {
      ovn.start();
      await tenants.start();
    },
    async stop() {
      await tenants.stop();
      await ovn.close();
      api.close();
    },
  };
}

/** The way to the API server, on which lists are counted. */
async function wayOf({ connect, onList }: SourcesOptions): Promise<Connect> {
  const way = connect ?? (await import("../../kube/http/http-kube-api.ts")).connectOverHttp;
  return (kubeconfig, clock) => way(kubeconfig, clock, { onList });
}

function counted(source: IdentitySource, onOutcome: (outcome: IdentityOutcome) => void): IdentitySource {
  return {
    async find(subject) {
      try {
        const found = await source.find(subject);
        onOutcome(found === null ? "nobody" : "found");
        return found;
      } catch (error) {
        onOutcome("away");
        throw error;
      }
    },
    close: () => source.close(),
  };
}
