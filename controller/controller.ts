/*
 * controller/: `holdfast controller`, one active in a cluster (lease)
 *
 *   watched          what the API server shows, mirrored
 *   sweeper          every reason of every address judged (claims/reasons), then carried out (carry-out)
 *   adoption         claims that list an address nobody has recorded; pod-adoption, owner-pods: the same of pods
 *   network-imports  what was in use before a network was ours; whereabouts-records: the same of whereabouts
 *   network-status   what `kubectl get ipnetworks` shows; orphan-networks, recoveries, udn-conditions
 *   capi/            machines of Cluster API; machine-data/: Metal3's data of machines
 *   followed-resources  copies that are believed or doubted together; shared-parts: what they have in common, once
 *   observations     how long something must have been true
 */

import { hostname } from "node:os";
import type { SweptPod } from "../claims/reasons/fact-views.ts";
import { EventWriter } from "../kube/events.ts";
import type { Connect, OpenKubeApi } from "../kube/kube-api.ts";
import { POD_ADDRESSES_MAX } from "../kube/views/held-addresses.ts";
import type { CapiClusterView } from "../kube/views/machine-claim-view.ts";
import { HealthServer } from "../platform/health-server.ts";
import type { Log } from "../platform/log.ts";
import { logFailure, PeriodicTask, type RestOptions } from "../platform/periodic-task.ts";
import { type Clock, randomUuid, sleep } from "../platform/time.ts";
import { Adoption } from "./adoption.ts";
import { AskedNamespaces } from "./capi/asked-namespaces.ts";
import { ClusterMachines } from "./capi/cluster-machines.ts";
import { machineSources, servedPathIn } from "./capi/machine-sources.ts";
import { PausedClusters } from "./capi/paused-clusters.ts";
import { LEASE_RETRY_MS, LeaderLease } from "./lease.ts";
import { directReservation } from "./machine-data/direct-reservation.ts";
import { OwnMode } from "./machine-data/own-mode.ts";
import { ControllerMetrics } from "./metrics.ts";
import { NetworkImports } from "./network-imports.ts";
import { NetworkStatus } from "./network-status.ts";
import { OrphanNetworks } from "./orphan-networks.ts";
import { OwnerPods } from "./owner-pods.ts";
import { PodAdoption } from "./pod-adoption.ts";
import { Recoveries } from "./recoveries.ts";
import type { ControllerSettings } from "./settings.ts";
import { CARRY_OUT_REST, LOOK_REST, Sweeper } from "./sweeper.ts";
import { UdnConditions } from "./udn-conditions.ts";
import { Watched } from "./watched.ts";
import { WhereaboutsRecords } from "./whereabouts-records.ts";

/** How often networks are imported, counted and shown, ms. */
const NETWORKS_INTERVAL_MS = 3_000;
/** For work in hand to come to its end when the process shall stop, ms; after it the API is closed under it. */
const STOP_GRACE_MS = 1_000;

type Work =
  | "lease"
  | "sweep"
  | "carryOut"
  | "adoption"
  | "podAdoption"
  | "whereabouts"
  | "ownerPods"
  | "pausedClusters"
  | "namespaces"
  | "networks"
  | "udns";

/** The parts of one running controller, wired together. `start` before `stop`. */
export class Controller {
  readonly #settings: ControllerSettings;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #identity: string;
  readonly #api: OpenKubeApi;
  readonly #metrics: ControllerMetrics;
  readonly #watched: Watched;
  readonly #machines: ClusterMachines;
  readonly #lease: LeaderLease;
  /** null: Metal3's data kinds are left to CAPM3. */
  readonly #machineData: OwnMode | null;
  readonly #pausedClusters: PausedClusters;
  readonly #sweeper: Sweeper;
  readonly #adoption: Adoption;
  readonly #podAdoption: PodAdoption;
  readonly #whereabouts: WhereaboutsRecords;
  readonly #ownerPods: OwnerPods;
  readonly #networkImports: NetworkImports;
  readonly #networkStatus: NetworkStatus;
  readonly #orphanNetworks: OrphanNetworks;
  readonly #recoveries: Recoveries;
  readonly #udnConditions: UdnConditions;
  readonly #tasks: Readonly<Record<Work, PeriodicTask>>;
  readonly #health: HealthServer;
  #stopping = false;

  /** `connect`: the way to the API server. Throws when the kubeconfig cannot be used. */
  constructor(settings: ControllerSettings, log: Log, clock: Clock, connect: Connect) {
    this.#settings = settings;
    this.#log = log;
    this.#clock = clock;
    this.#api = connect(settings.kubeconfig, clock, {
      onRequest: (verb, status) => this.#metrics.requested(verb, status),
    });
    const api = this.#api;
    const shared = { api, log, idle: () => this.#idle() };
    const { namespace } = settings;
    const identity = settings.identity ?? `${hostname()}_${randomUuid(clock)}`;
    this.#identity = identity;
    const events = new EventWriter({ ...shared, component: "holdfast-controller", host: identity });
    const watched = new Watched(
      api,
      {
        somethingEnded: () => this.#tasks.sweep.trigger(),
        podAddressesCut: (pod) => this.#tellCut(pod, events),
        claimListed: () => this.#tasks.adoption.trigger(),
        allocation: (object) => {
          this.#networkStatus.touch(object.spec?.network);
          this.#machines.allocationSeen(object);
        },
        allocationGone: (object) => {
          this.#networkStatus.touch(object.spec?.network);
          this.#machines.allocationGone(object);
        },
        allocationsState: (state) => this.#machines.allocationsState(state),
        allocationsVersion: (version) => this.#machines.allocationsVersion(version),
        definitionsChanged: () => this.#definitionsChanged(),
      },
      log,
    );
    this.#watched = watched;
    this.#machines = new ClusterMachines({
      ...shared,
      ...{ watched, events, identity },
      passMs: settings.sweepIntervalSeconds * 1_000,
      onDefinitions: () => this.#definitionsChanged(),
      onOwnerGone: () => this.#tasks.sweep.trigger(),
      onCluster: (cluster) => this.#noteCluster(cluster),
    });
    this.#lease = new LeaderLease({ ...shared, namespace, identity });
    this.#machineData =
      settings.machineData === "off"
        ? null
        : new OwnMode({
            ...shared,
            events,
            machines: this.#machines.caches,
            catalog: watched.catalog,
            direct: directReservation(this.#machines),
            graceSeconds: settings.sweepGraceSeconds,
          });
    this.#pausedClusters = new PausedClusters({
      ...shared,
      allocations: watched.allocations,
      networks: watched.networks,
      servedPath: servedPathIn(this.#machines.caches),
    });
    const namespaces = new AskedNamespaces(api, () => this.#tasks.namespaces.trigger());
    const machines = machineSources({
      caches: this.#machines.caches,
      data: this.#machineData?.data ?? null,
      networks: watched.networks,
      namespaces,
      pausedClusters: this.#pausedClusters,
    });
    this.#sweeper = new Sweeper({
      ...shared,
      caches: { ...watched, machines },
      intervalSeconds: settings.sweepIntervalSeconds,
      doubt: () => this.#notReady(),
      onDue: () => this.#tasks.carryOut.trigger(),
      rules: {
        graceSeconds: settings.sweepGraceSeconds,
        podGoneReleaseSeconds: settings.podGoneReleaseSeconds,
        clusterGoneReleaseSeconds: settings.clusterGoneReleaseSeconds,
        coolingKeepSeconds: settings.coolingKeepSeconds,
        definitionOf: (network) => watched.catalog.definitionOf(network)?.definition ?? null,
      },
      onDone: (_object, { kind, why }) => this.#metrics.carriedOut(kind, why),
    });
    const { claims, pods, allocations, networks, catalog: definitions } = watched;
    this.#adoption = new Adoption({ ...shared, claims, allocations, definitions, events });
    const onRefused = (count: number) => this.#metrics.refused(count);
    this.#podAdoption = new PodAdoption({
      ...shared,
      pods,
      allocations,
      networks,
      definitions,
      events,
      onRefused,
    });
    this.#networkImports = new NetworkImports({ ...shared, definitions, networks, onRefused });
    const graceSeconds = settings.sweepGraceSeconds;
    this.#whereabouts = new WhereaboutsRecords({ ...shared, allocations, graceSeconds });
    const keepSeconds = Math.max(settings.coolingKeepSeconds, graceSeconds);
    const { pools } = this.#machines.caches;
    this.#orphanNetworks = new OrphanNetworks({
      ...{ ...shared, definitions, allocations, networks },
      ...{ pools, keepSeconds },
    });
    this.#recoveries = new Recoveries({ ...shared, networks });
    this.#ownerPods = new OwnerPods({ ...shared, caches: watched, definitions });
    this.#networkStatus = new NetworkStatus({ ...shared, definitions, allocations, networks });
    this.#udnConditions = new UdnConditions({
      ...shared,
      events,
      onChange: () => this.#tasks.udns.trigger(),
    });
    this.#metrics = new ControllerMetrics({
      networks: () => this.#networkStatus.counts,
      verdicts: () => (this.#lease.leads ? this.#sweeper.counts : new Map()),
      overdueSeconds: () => this.#sweeper.overdueSeconds,
      conflicts: () => this.#adoption.conflictCount,
      leads: () => this.#lease.leads,
      resources: () => ({
        ...{ ...watched.synced, ...this.#machines.caches.synced },
        ...this.#machineData?.synced,
      }),
      machineData: () => this.#machineData?.counts ?? null,
      machineClaims: () => (this.#lease.leads ? this.#machines.claimCounts : new Map()),
    });
    const sweepMs = settings.sweepIntervalSeconds * 1_000;
    const task = (
      what: string,
      intervalMs: number,
      work: (signal: AbortSignal) => Promise<void>,
      rest: RestOptions = {},
      nextMs?: () => number,
    ) =>
      new PeriodicTask({
        ...{ clock, intervalMs, work, rest, ...(nextMs && { nextMs }) },
        onFailure: logFailure(log, what),
      });
    this.#tasks = {
      lease: task("the lease", LEASE_RETRY_MS, () => this.#lease.turn()),
      sweep: task(
        "the sweep",
        sweepMs,
        (signal) => this.#sweeper.runPass(signal),
        LOOK_REST,
        () => this.#sweeper.nextDueMs,
      ),
      carryOut: task("carrying out", sweepMs, (signal) => this.#sweeper.carryOutDue(signal), CARRY_OUT_REST),
      adoption: task("adoption", sweepMs, (signal) => this.#adoption.runPass(signal)),
      podAdoption: task("adoption of pods", sweepMs, (signal) => this.#podAdoption.runPass(signal)),
      whereabouts: task("whereabouts' records", sweepMs, (signal) => this.#whereabouts.runPass(signal)),
      ownerPods: task("the owner pods", sweepMs, (signal) => this.#ownerPods.runPass(signal)),
      pausedClusters: task("the paused clusters", sweepMs, (signal) => this.#pausedClusters.runPass(signal)),
      namespaces: task("the namespaces", sweepMs, (signal) => namespaces.runPass(signal)),
      networks: task("the networks", NETWORKS_INTERVAL_MS, (signal) => this.#networksPass(signal)),
      udns: task("the user-defined networks", sweepMs, (signal) => this.#udnConditions.runPass(signal)),
    };
    this.#health = new HealthServer({
      address: settings.metricsAddress,
      metrics: this.#metrics,
      notReady: () => this.#notReady(),
      log,
      clock,
    });
  }

  /** Serves HTTP, then begins to look and to work. Throws when the address cannot be listened on. */
  async start(): Promise<void> {
    const { metricsAddress } = this.#settings;
    if (metricsAddress !== null) this.#metrics.addProcess();
    await this.#health.start();
    this.#log.info({ ...metricsAddress, identity: this.#identity }, "listening");
    this.#watched.start();
    this.#udnConditions.start();
    for (const task of Object.values(this.#tasks)) task.start();
    void this.#startMachines();
  }

  /** After everything else: the lists of ten thousand machines would keep those of pods waiting. */
  async #startMachines(): Promise<void> {
    await this.#watched.listed();
    if (this.#stopping) return;
    this.#machines.start();
    await this.#machines.caches.listed();
    if (!this.#stopping) this.#machineData?.start();
  }

  /** Ends within three seconds, whatever the API server does. */
  async stop(): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    const tasks = Object.values(this.#tasks).map((task) => task.stop());
    const ended = Promise.all([...tasks, this.#machines.stopWork(), this.#machineData?.stopWork()]);
    await Promise.race([ended, sleep(this.#clock, STOP_GRACE_MS)]);
    await this.#lease.stepDown();
    this.#api.close();
    await Promise.all([
      ended,
      this.#watched.stop(),
      this.#machines.stop(),
      this.#machineData?.stop(),
      this.#udnConditions.stop(),
      this.#health.close(),
    ]);
  }

  /** Where HTTP is served, once it is: the port that was chosen for port 0. */
  get port(): number {
    return this.#health.address?.port ?? 0;
  }

  /** Before anything of it is released: what a pause tells is remembered although it may last a second only. */
  #noteCluster(cluster: CapiClusterView): void {
    if (this.#pausedClusters.note(cluster)) this.#tasks.pausedClusters.trigger();
  }

  #definitionsChanged(): void {
    this.#podAdoption.forget();
    this.#machines.definitionsChanged();
    this.#tasks.networks.trigger();
  }

  #tellCut({ key, namespace, name, uid }: SweptPod, events: EventWriter): void {
    const message = `the pod reports more than ${POD_ADDRESSES_MAX} addresses; the others are not read`;
    this.#log.warn({ pod: key }, message);
    events.warn({ apiVersion: "v1", kind: "Pod", namespace, name, uid }, "TooManyAddresses", message);
  }

  /** Why nothing may be written now, or null. */
  #idle(): string | null {
    if (this.#stopping) return "it is stopping";
    return this.#watched.doubt ?? (this.#lease.leads ? null : "another controller works");
  }

  #notReady(): string | null {
    return this.#stopping ? "it is stopping" : this.#watched.doubt;
  }

  async #networksPass(signal: AbortSignal): Promise<void> {
    if (this.#watched.definitionsKnown) await this.#networkImports.runPass(signal);
    await this.#networkStatus.runPass(signal, { writes: this.#idle() === null });
    if (this.#watched.definitionsKnown) await this.#orphanNetworks.runPass(signal);
    await this.#recoveries.runPass(signal);
  }
}
