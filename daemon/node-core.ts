import { NodeAdmin } from "../admin/node-admin.ts";
import { AddWaiters } from "../claims/add-waiters.ts";
import type { CniContext } from "../cni/context.ts";
import { cniDel } from "../cni/del.ts";
import { ReadyGate } from "../cni/ready-gate.ts";
import { AddConfigs } from "../cni/request.ts";
import { CniService } from "../cni/route.ts";
import { readClosedBridges } from "../guests/ports/closed-bridges.ts";
import { PortService } from "../guests/ports/port-service.ts";
import { ContentService } from "../identity/content.ts";
import type { IdentityService } from "../identity/service.ts";
import type { Finding } from "../ipam/finding.ts";
import type { Connect } from "../kube/kube-api.ts";
import { networkNotes } from "../networks/definition-findings.ts";
import { RuntimeConfigurations } from "../networks/runtime-configurations.ts";
import { ensureDirectory } from "../platform/files.ts";
import type { Log } from "../platform/log.ts";
import type { Machine } from "../platform/machine.ts";
import { Namespaces } from "../platform/namespaces.ts";
import { logFailure, PeriodicTask } from "../platform/periodic-task.ts";
import { ResolverFiles } from "../platform/resolv-conf.ts";
import { type Clock, isoTime } from "../platform/time.ts";
import { WarnOnce } from "../platform/warn-once.ts";
import type { Agreement } from "../store/cluster/agreement/agreement.ts";
import { pathExistsForInit } from "../store/host-local/machine-paths.ts";
import { isOfState } from "../store/journal/files/state-files.ts";
import type { NodeContext } from "../store/node-context.ts";
import type { NodeStore } from "../store/node-store.ts";
import { CONTACT, Readiness, whyAway } from "../store/readiness.ts";
import { SqliteStore } from "../store/standalone/standalone-store.ts";
import { buildIdentityService } from "./build-identity.ts";
import type { ClusterNode } from "./cluster-node.ts";
import { ApiRequestMetrics, Metrics } from "./metrics.ts";
import { checkPrivate, makePrivate, type PrivateDirectory } from "./private-directory.ts";
import type { DaemonSettings } from "./settings.ts";
import { Spool } from "./spool.ts";
import { Witness } from "./witness.ts";

/** Rests end and a full disk is tried again at this pace, ms. */
const HOUSEKEEPING_INTERVAL_MS = 5_000;

export interface NodeSurroundings {
  readonly machine: Machine;
  readonly log: Log;
  readonly clock: Clock;
  readonly version: string;
  /** The way to the API server; undefined: over HTTP. */
  readonly connect: Connect | undefined;
}

/**
 * Everything of a daemon but its sockets: what the world asks of a node goes in at `cni`, `admin`, `identity` and
 * `ports`. `open`, then `begin`; `halt`, then `end`.
 */
export class NodeCore {
  readonly cni: CniService;
  readonly admin: NodeAdmin;
  readonly identity: IdentityService;
  /** null: in Kubernetes, where Secrets and ConfigMaps are read from the API. */
  readonly content: ContentService | null;
  readonly ports: PortService;
  readonly metrics: Metrics;
  readonly #settings: DaemonSettings;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #machine: Machine;
  readonly #store: NodeStore;
  readonly #cluster: ClusterNode | null;
  /** null: without a cluster. */
  readonly #agreement: Agreement | null;
  readonly #readiness: Readiness;
  readonly #spool: Spool;
  readonly #waiting: AddWaiters;
  readonly #witness: Witness;
  readonly #tasks: PeriodicTask[] = [];
  moreFindings: () => readonly Finding[] = () => [];
  #drained = false;
  #stopping = false;

  /** Throws when the state directory or the kubeconfig cannot be used. */
  static async create(settings: DaemonSettings, around: NodeSurroundings): Promise<NodeCore> {
    const { machine, clock, log } = around;
    ensureDirectory(settings.state, "state");
    makePrivate(stateDirectory(settings), log);
    const namespaces = new Namespaces(machine, clock);
    const context: NodeContext = {
      clock,
      node: settings.node,
      bootId: machine.bootId,
      kernelBootId: machine.kernelBootId,
      bootTimeUs: () => machine.bootTimeUs(),
      hostLocalDirs: settings.hostLocalDirs,
      pathExists: pathExistsForInit,
      bootRecord: `${settings.socket}.state`,
      namespaceGone: (netns) => namespaces.stateOf(netns) === "gone",
      namespaceAlive: (netns) => namespaces.stateOf(netns) === "alive",
      killPoint: machine.killPoint,
    };
    if (settings.kubernetes === null) return new NodeCore(settings, around, { context, namespaces }, null);
    // Read only where there is a cluster: its packages take memory and time.
    const { ClusterNode } = await import("./cluster-node.ts");
    const connect = around.connect ?? (await import("../kube/http/http-kube-api.ts")).connectOverHttp;
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
      observers: requests.observers,
      connect,
    });
    return new NodeCore(settings, around, { context, namespaces }, { cluster, requests });
  }

  private constructor(
    settings: DaemonSettings,
    { machine, log, clock, version }: NodeSurroundings,
    { context, namespaces }: { readonly context: NodeContext; readonly namespaces: Namespaces },
    kubernetes: { readonly cluster: ClusterNode; readonly requests: ApiRequestMetrics } | null,
  ) {
    this.#settings = settings;
    this.#log = log;
    this.#clock = clock;
    this.#machine = machine;
    this.#waiting = new AddWaiters(clock);
    this.#cluster = kubernetes?.cluster ?? null;
    const behind = this.#cluster ?? new SqliteStore(settings.state, context, log);
    this.#store = behind instanceof SqliteStore ? behind : behind.store;
    const notReady = () => this.notReady();
    const whyNothingNew = () => this.whyNothingNew();
    this.#agreement = this.#cluster?.store.agreement ?? null;
    this.#readiness = new Readiness([
      { name: "process", whyNot: () => (this.#stopping ? { reason: "it is stopping", outlook: "ends" } : null) },
      { name: "state", whyNot: () => whyAway(this.#store.status) },
      { name: "spool", whyNot: () => (this.#drained ? null : "the spool is not drained yet") },
      ...(this.#cluster?.needs ?? []),
    ]);
    this.#store.watchStatus(() => this.#readiness.changed());
    const gate = new ReadyGate(clock, this.#waiting, () => this.#readiness.whyNot(CONTACT));
    this.#readiness.watch(() => gate.changed());
    this.ports = new PortService({
      store: this.#store,
      clock,
      log,
      enabled: settings.metadata === "on",
      byDefault: settings.metadataDefault === "on",
      ovn: this.#cluster?.ovn ?? null,
      notReady,
    });
    const resolverFiles = new ResolverFiles({
      paths: settings.resolvConfPaths,
      refused: settings.kubernetes !== null && settings.resolvConfInNads === "off",
      clock,
    });
    const runtimeConfigurations = new RuntimeConfigurations();
    const cni: CniContext = {
      clock,
      store: this.#store,
      cluster: this.#cluster,
      waiting: this.#waiting,
      gate,
      log,
      warnings: new WarnOnce(log),
      machine,
      namespaces,
      addDeadlineMs: settings.addDeadlineMs,
      ports: this.ports,
      metadataWaitMs: settings.metadataWaitMs,
      closedBridges: () => readClosedBridges(settings.metadataNetDir),
      resolverFiles,
      configs: new AddConfigs(),
      runtimeConfigurations,
      notReady,
    };
    this.#spool = new Spool(settings.spool, clock, log, (wire) => cniDel(cni, wire, "DEL from the spool"));
    this.#witness = new Witness({
      store: this.#store,
      clock,
      log,
      machine,
      namespaces,
      graceSeconds: settings.witnessGraceSeconds,
      podState: kubernetes === null ? null : (pod) => kubernetes.cluster.podState(pod),
      isSettled: () => (this.#agreement?.pending ?? null) === null,
    });
    const spool = () => this.#spool.counts();
    const outstanding = () => this.#cluster?.store.pendingCount ?? 0;
    this.metrics = new Metrics({
      store: this.#store,
      notReady: whyNothingNew,
      spool,
      waiting: () => this.#waiting.count,
      pending: outstanding,
      lost: () => this.#cluster?.store.lostCount ?? 0,
      requests: kubernetes?.requests ?? null,
      ports: this.ports,
    });
    this.cni = new CniService(cni, this.metrics);
    this.identity = buildIdentityService(behind, this.ports, resolverFiles, notReady);
    this.content = behind instanceof SqliteStore ? new ContentService(behind) : null;
    this.admin = new NodeAdmin({
      store: this.#store,
      manifests: behind instanceof SqliteStore ? behind : null,
      identity: this.identity,
      resolverFiles,
      waiting: this.#waiting,
      version,
      node: settings.node,
      since: isoTime(clock.wallMs()),
      notReady: whyNothingNew,
      outstanding,
      spool,
      findings: async () => [
        ...checkPrivate(stateDirectory(settings)),
        ...this.#spool.findings(),
        ...(this.#agreement?.findings() ?? []),
        ...((await this.#cluster?.findings()) ?? []),
        ...this.ports.findings(),
        ...this.moreFindings(),
      ],
      notes: () => [
        ...(this.#cluster?.notes() ?? []),
        ...runtimeConfigurations.notes((network) => this.#store.appliedDefinition(network)),
        ...(behind instanceof SqliteStore ? networkNotes(behind.definitionSources()) : []),
      ],
      rebuild: (backup, replace) => this.#rebuild(backup, replace),
    });
  }

  /** Opens the state. `close` ends it where nothing was begun. */
  open(): Promise<void> {
    return this.#store.open();
  }

  async close(): Promise<void> {
    await this.#store.close();
  }

  /** After `open`, and with its sockets served: drains the spool; only after that is ADD served. */
  async begin(): Promise<void> {
    this.#cluster?.start(() => this.#readiness.changed());
    await this.#becomeReady();
    this.#spool.keepDraining();
    this.#every(this.#settings.witnessIntervalSeconds * 1_000, "witness", () => this.#witness.runPass());
    this.#agreement?.begin({
      intervalMs: this.#settings.reassertIntervalSeconds * 1_000,
      readiness: this.#readiness,
    });
    this.#store.watchAttachments((network) => network === null && this.#agreement?.reopened());
    const housekeeping = () => this.#store.housekeeping(this.#machine.bootTimeUs());
    this.#every(HOUSEKEEPING_INTERVAL_MS, "housekeeping", housekeeping);
  }

  /** Calls `changed` when what `identity` would answer may have changed, before anybody is answered. */
  watchChanges(changed: () => void): void {
    this.#store.watchAttachments(changed);
    this.#cluster?.ovn.watch(changed);
  }

  /** Why nothing can be served; null: it can. */
  notReady(): string | null {
    return this.#readiness.whyNot(CONTACT)?.reason ?? null;
  }

  /** For a new owner. While contact with the API server is lost, what is held already is still answered. */
  whyNothingNew(): string | null {
    return this.#readiness.whyNot()?.reason ?? null;
  }

  /** Nothing new is begun; what waits is left to the next daemon. */
  halt(): void {
    this.#stopping = true;
    this.#readiness.changed();
    for (const task of this.#tasks) void task.stop();
    this.#agreement?.halt();
    this.#waiting.close();
    this.ports.close();
  }

  /** After `halt`, when nobody is being answered any more. */
  async end(): Promise<void> {
    await this.#spool.stop();
    // First, so that no pending release keeps the end waiting for an API server that is away.
    await this.#cluster?.stop();
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
    this.#readiness.changed();
    if (this.#cluster === null) this.#log.info("ready");
  }

  /** For the first time after `intervalMs`. */
  #every(intervalMs: number, what: string, work: () => Promise<void>): void {
    const task = new PeriodicTask({
      ...{ clock: this.#clock, intervalMs, onFailure: logFailure(this.#log, what) },
      work: async () => {
        if (!this.#drained) await this.#becomeReady();
        await work();
      },
    });
    this.#tasks.push(task);
    task.start(intervalMs);
  }
}

function stateDirectory({ state }: DaemonSettings): PrivateDirectory {
  return { path: state, flag: "state", isOurs: isOfState };
}
