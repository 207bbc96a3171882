/*
 * daemon/: `holdfast daemon`, one on each node: what is made, in which order, and how it ends
 *
 *   main, settings      the process
 *   daemon              the parts of a node, put together; server: its socket
 *   cluster-node        the parts that need the Kubernetes API
 *   node-imports        what was in use on this node before a network was ours
 *   settlement, spool, witness  DELs and ends that nobody told, found out
 *   metrics, network-series
 */

import { readFileSync } from "node:fs";
import type { FastifyInstance } from "fastify";
import { NodeAdmin } from "../admin/node-admin.ts";
import { ClaimWaiters } from "../claims/claim-waiters.ts";
import type { CniContext } from "../cni/context.ts";
import { cniDel } from "../cni/del.ts";
import { AddConfigs } from "../cni/request.ts";
import { ContentService } from "../identity/content.ts";
import { IdentityServer } from "../identity/server.ts";
import type { Connect } from "../kube/kube-api.ts";
import { PortService } from "../metadata/ports/port-service.ts";
import { BootAgreement, readBootId } from "../platform/boot-id.ts";
import { ensureFolder } from "../platform/folders.ts";
import { HealthServer } from "../platform/health-server.ts";
import { armKillPoint } from "../platform/kill-point.ts";
import type { Log } from "../platform/log.ts";
import { namespaceState } from "../platform/namespaces.ts";
import { ResolverFiles } from "../platform/resolv-conf.ts";
import { listenOnSocket, removeStale } from "../platform/socket.ts";
import { type Clock, interval, type Timer } from "../platform/time.ts";
import { WarnOnce } from "../platform/warn-once.ts";
import type { NodeContext } from "../store/node-context.ts";
import type { NodeStore } from "../store/node-store.ts";
import { SqliteStore } from "../store/standalone/standalone-store.ts";
import { buildIdentityService } from "./build-identity.ts";
import type { ClusterNode } from "./cluster-node.ts";
import { ApiRequestMetrics, Metrics } from "./metrics.ts";
import { buildServer } from "./server.ts";
import type { DaemonSettings } from "./settings.ts";
import { Settlement } from "./settlement.ts";
import { Spool } from "./spool.ts";
import { Witness } from "./witness.ts";

/** Rests end and a full disk is tried again at this pace, ms. */
const HOUSEKEEPING_INTERVAL_MS = 5_000;
/** Longer than any whole request takes once nothing waits; a client that sent half of one would hold up the end for ever. */
const STOP_GRACE_MS = 3_000;

/** The parts of one running daemon, wired together. `start` before `stop`. */
export class Daemon {
  readonly #settings: DaemonSettings;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #store: NodeStore;
  readonly #cluster: ClusterNode | null;
  readonly #settlement: Settlement | null;
  readonly #spool: Spool;
  readonly #waiting: ClaimWaiters;
  readonly #ports: PortService;
  readonly #witness: Witness;
  readonly #server: FastifyInstance;
  readonly #health: HealthServer;
  readonly #identityServer: IdentityServer;
  readonly #timers: Timer[] = [];
  #drained = false;
  #stopping = false;

  /** `connect`: the way to the API server; default: over HTTP. Throws when the state folder or the kubeconfig cannot be used. */
  static async create(
    settings: DaemonSettings,
    log: Log,
    clock: Clock,
    version: string,
    connect?: Connect,
  ): Promise<Daemon> {
    ensureFolder(settings.state, "state");
    const context: NodeContext = {
      clock,
      node: settings.node,
      bootId: readBootId(settings.bootIdFile),
      bootTimeUs,
      hostLocalDirs: settings.hostLocalDirs,
      namespaceGone: (netns) => namespaceState(netns) === "gone",
      namespaceAlive: (netns) => namespaceState(netns) === "alive",
      killPoint: armKillPoint(process.env.HOLDFAST_KILL_POINT),
    };
    if (settings.kubernetes === null) return new Daemon(settings, context, log, version, null);
    // Read only where there is a cluster: its packages take memory and time.
    const { ClusterNode } = await import("./cluster-node.ts");
    const way = connect ?? (await import("../kube/http/http-kube-api.ts")).connectOverHttp;
    const { state, addDeadlineMs, recoverySeconds } = settings;
    const { kubeconfig } = settings.kubernetes;
    const requests = new ApiRequestMetrics();
    const cluster = new ClusterNode({
      kubeconfig,
      state,
      addDeadlineMs,
      recoverySeconds,
      context,
      log,
      onRequest: (verb, status, ms) => requests.observe(verb, status, ms),
      connect: way,
    });
    return new Daemon(settings, context, log, version, { cluster, requests });
  }

  private constructor(
    settings: DaemonSettings,
    context: NodeContext,
    log: Log,
    version: string,
    kubernetes: { readonly cluster: ClusterNode; readonly requests: ApiRequestMetrics } | null,
  ) {
    this.#settings = settings;
    this.#log = log;
    const { bootId, clock } = context;
    this.#clock = clock;
    this.#waiting = new ClaimWaiters(clock);
    this.#cluster = kubernetes?.cluster ?? null;
    const behind = this.#cluster ?? new SqliteStore(settings.state, context, log);
    this.#store = behind instanceof SqliteStore ? behind : behind.store;
    const notReady = () => this.#notReady();
    this.#settlement =
      this.#cluster &&
      new Settlement({
        cluster: this.#cluster,
        log,
        mayBegin: () => this.#drained && this.#store.status.kind === "ready",
        mayCompare: () => this.#notReady() === null,
      });
    this.#ports = new PortService({
      store: this.#store,
      clock,
      log,
      enabled: settings.metadata === "on",
      ovn: this.#cluster?.ovn ?? null,
      notReady,
    });
    const resolverFiles = new ResolverFiles({
      paths: settings.resolvConfPaths,
      refused: settings.kubernetes !== null && settings.resolvConfInNads === "off",
      clock,
    });
    const bootAgreement = new BootAgreement();
    const cni: CniContext = {
      clock,
      store: this.#store,
      cluster: this.#cluster,
      waiting: this.#waiting,
      log,
      warnings: new WarnOnce(log),
      bootId,
      bootAgreement,
      addDeadlineMs: settings.addDeadlineMs,
      ports: this.#ports,
      metadataWaitMs: settings.metadataWaitMs,
      resolverFiles,
      configs: new AddConfigs(),
      killPoint: context.killPoint,
      notReady,
    };
    this.#spool = new Spool(settings.spool, clock, log, (wire) => cniDel(cni, wire, "DEL from the spool"));
    this.#witness = new Witness({
      store: this.#store,
      clock,
      log,
      bootId,
      graceSeconds: settings.witnessGraceSeconds,
      podHasEnded: async (pod) => this.#cluster === null || this.#cluster.podHasEnded(pod),
    });
    const spool = () => this.#spool.counts();
    const metrics = new Metrics({
      store: this.#store,
      notReady,
      spool,
      waiting: () => this.#waiting.count,
      owed: () => this.#cluster?.store.owedCount ?? 0,
      lost: () => this.#cluster?.store.lostCount ?? 0,
      requests: kubernetes?.requests ?? null,
      ports: this.#ports,
    });
    const identity = buildIdentityService(behind, this.#ports, resolverFiles, notReady);
    this.#identityServer = new IdentityServer({
      service: identity,
      content: behind instanceof SqliteStore ? new ContentService(behind) : null,
      clock,
      log,
      notReady,
      watchChanges: (changed) => {
        this.#store.watchAttachments(changed);
        this.#cluster?.ovn.watch(changed);
      },
    });
    const admin = new NodeAdmin({
      store: this.#store,
      manifests: behind instanceof SqliteStore ? behind : null,
      identity,
      resolverFiles,
      waiting: this.#waiting,
      version,
      notReady,
      spool,
      findings: async () => [
        ...bootAgreement.findings(),
        ...(this.#settlement?.findings() ?? []),
        ...((await this.#cluster?.findings()) ?? []),
        ...this.#ports.findings(),
        ...this.#health.findings(),
      ],
      rebuild: (backup, replace) => this.#rebuild(backup, replace),
    });
    this.#server = buildServer(cni, admin, metrics);
    const address = settings.metricsAddress;
    this.#health = new HealthServer({ address, metrics, notReady, log, clock, keepsTrying: true });
  }

  /** Opens the state, serves the socket, then drains the spool; only after that is ADD served. */
  async start(): Promise<void> {
    await this.#store.open();
    try {
      const { socket, identitySocket, identityGroup } = this.#settings;
      await removeStale(socket, "--socket");
      if (identitySocket !== null) await this.#identityServer.listen(identitySocket, identityGroup);
      await listenOnSocket(this.#server, socket);
    } catch (error) {
      await Promise.all([this.#server.close(), this.#identityServer.close()]);
      this.#identityServer.end();
      await this.#store.close();
      throw error;
    }
    this.#log.info(
      { socket: this.#settings.socket, state: this.#settings.state, node: this.#settings.node },
      "listening",
    );
    await this.#health.start();
    this.#cluster
      ?.start(() => this.#settlement?.lostTouch())
      .catch((error: Error) => this.#log.error({ err: error }, "the cluster"));
    await this.#becomeReady();
    const settlement = this.#settlement;
    if (settlement) {
      const intervalMs = this.#settings.reassertIntervalSeconds * 1_000;
      this.#every(intervalMs, "comparing with the API", () => settlement.compare());
    }
    this.#spool.keepDraining();
    this.#every(this.#settings.witnessIntervalSeconds * 1_000, "witness", () => this.#witness.runPass());
    settlement?.begin();
    this.#store.watchAttachments((network) => network === null && settlement?.reopened());
    this.#every(HOUSEKEEPING_INTERVAL_MS, "housekeeping", () => this.#store.housekeeping(bootTimeUs()));
  }

  /** A rebuilt state knows nothing of the DELs that were spooled meanwhile: they come first again. */
  async #rebuild(backup: string | null, replace: boolean): Promise<void> {
    if (this.#store.status.kind === "rebuild-required") this.#drained = false;
    await this.#store.rebuild(backup, replace);
    await this.#becomeReady();
  }

  async #becomeReady(): Promise<void> {
    if (this.#store.status.kind !== "ready") return;
    try {
      await this.#spool.drain();
    } catch (error) {
      this.#log.error({ err: error as Error }, "the spool cannot be drained yet; ADD waits for it");
      return;
    }
    this.#drained = true;
    if (this.#cluster === null) this.#log.info("ready");
  }

  /** What was asked before is answered first; what waits is sent away to ask again. */
  async stop(): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    for (const timer of this.#timers) timer.cancel();
    this.#settlement?.stop();
    this.#waiting.close();
    this.#ports.close();
    const hangUp = this.#clock.timer(STOP_GRACE_MS, () => this.#server.server.closeAllConnections());
    await Promise.all([this.#server.close(), this.#identityServer.close(), this.#health.close()]);
    hangUp.cancel();
    await this.#spool.stop();
    // First, so that no owed release keeps the end waiting for an API server that is away.
    await this.#cluster?.stop();
    // Before the state is free for a successor, whose file it would be by then.
    this.#identityServer.end();
    await this.#store.close();
  }

  #notReady(): string | null {
    if (this.#stopping) return "it is stopping";
    const { status } = this.#store;
    if (status.kind !== "ready") return "reason" in status ? status.reason : `its state is ${status.kind}`;
    if (!this.#drained) return "the spool is not drained yet";
    return this.#cluster?.notReady() ?? this.#settlement?.pending ?? null;
  }

  /** Runs work again and again, never twice at once; a failure is logged and the next turn comes. */
  #every(intervalMs: number, what: string, work: () => Promise<void>): void {
    let running = false;
    const timer = interval(this.#clock, intervalMs, () => {
      if (running || this.#stopping) return;
      running = true;
      const retryReady = this.#drained ? Promise.resolve() : this.#becomeReady();
      retryReady
        .then(work)
        .catch((error: Error) => this.#log.warn({ err: error }, `${what} did not finish; it comes again`))
        .finally(() => {
          running = false;
        });
    });
    this.#timers.push(timer);
  }
}

/** Microseconds since boot, as the stamps count them: CLOCK_BOOTTIME, to a hundredth of a second. */
function bootTimeUs(): number {
  return Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1_000_000;
}
