import { hostname } from "node:os";
import { EventWriter } from "../kube/events.ts";
import type { Connect, OpenKubeApi, RequestObservers } from "../kube/kube-api.ts";
import type { IPAllocation } from "../kube/objects.ts";
import { ServerClock } from "../kube/server-clock.ts";
import { withWriteGuard } from "../kube/write-guard.ts";
import { HealthServer } from "../platform/health-server.ts";
import type { Log } from "../platform/log.ts";
import { type Clock, randomUuid, sleep } from "../platform/time.ts";
import { AddressParts } from "./address-parts.ts";
import { LeaderLease } from "./lease.ts";
import { MachineParts } from "./machine-parts.ts";
import { ControllerMetrics } from "./metrics.ts";
import { NetworkParts } from "./network-parts.ts";
import type { Occasion, PartContext } from "./part.ts";
import { PartTask } from "./part-task.ts";
import type { ControllerSettings } from "./settings.ts";
import { followChanges } from "./sweep/follow-changes.ts";
import { Watched } from "./watched.ts";

/** For work in hand to come to its end when the process shall stop, ms; after it the API is closed under it. */
const STOP_GRACE_MS = 1_000;

/** One running controller: what it watches, its parts, and their tasks. `start` before `stop`. */
export class Controller {
  readonly #context: PartContext & { readonly api: OpenKubeApi };
  readonly #lease: LeaderLease;
  readonly #machines: MachineParts;
  readonly #addresses: AddressParts;
  readonly #networks: NetworkParts;
  readonly #metrics: ControllerMetrics;
  readonly #tasks: readonly PartTask[];
  readonly #health: HealthServer;
  #stopping = false;

  /** `connect`: the way to the API server. Throws when the kubeconfig cannot be used. */
  constructor(settings: ControllerSettings, log: Log, clock: Clock, connect: Connect) {
    const observers: RequestObservers = {
      onRequest: (verb, status) => this.#metrics.requested(verb, status),
      onList: (page) => this.#metrics.lists.observe(page),
    };
    const connection = () => connect(settings.kubeconfig, clock, observers);
    const serverClock = new ServerClock(clock);
    const api = withWriteGuard(serverClock.over(connection()), () => this.#lease.whyNot);
    const identity = settings.identity ?? `${hostname()}_${randomUuid(clock)}`;
    const idle = () => this.#idle();
    const events = new EventWriter({ api, component: "holdfast-controller", host: identity });
    const watched = this.#watch(api, log);
    const occur = (occasion: Occasion) => this.#occur(occasion);
    const serverMs = () => serverClock.nowMs;
    const context = { api, log, settings, identity, events, watched, serverMs, idle, occur };
    this.#context = context;
    const { namespace } = settings;
    const onLead = () => this.#occur("changed");
    this.#lease = new LeaderLease({ api: connection(), log, namespace, identity, onLead });
    this.#machines = new MachineParts({
      ...context,
      onDefinitions: () => this.#definitionsChanged(),
      onFollowed: () => this.#addresses.sweeper.knownChanged(),
      onNamespace: (name) => this.#addresses.sweeper.factChanged("namespace", name),
    });
    const onRefused = (count: number) => this.#metrics.refused(count);
    this.#addresses = new AddressParts({
      ...{ ...context, onRefused, machines: this.#machines.sources },
      doubt: () => this.#notReady(),
      onCarriedOut: ({ kind, why }) => this.#metrics.carriedOut(kind, why),
      onPutBack: () => this.#metrics.putBack(),
    });
    const { caches } = this.#machines.cluster;
    const data = this.#machines.data?.data ?? null;
    followChanges({ ...watched, machines: caches, data }, this.#addresses.sweeper);
    const { pools } = caches;
    this.#networks = new NetworkParts({ ...context, onRefused, pools });
    const [addresses, machines, networks] = [this.#addresses, this.#machines, this.#networks];
    const leads = () => this.#lease.leads;
    this.#metrics = new ControllerMetrics({ watched, addresses, machines, networks, leads });
    const parts = [...addresses.parts, ...machines.parts, ...networks.parts];
    this.#tasks = parts.map((part) => new PartTask(part, { clock, log, idle }));
    const { metricsAddress: address } = settings;
    const notReady = () => this.#notReady();
    this.#health = new HealthServer({ address, metrics: this.#metrics, notReady, log, clock });
  }

  /** Serves HTTP, then begins to look and to work. Throws when the address cannot be listened on. */
  async start(): Promise<void> {
    const { settings, log, identity, watched } = this.#context;
    const { metricsAddress } = settings;
    if (metricsAddress !== null) this.#metrics.addProcess();
    await this.#health.start();
    log.info({ ...metricsAddress, identity }, "listening");
    this.#lease.start();
    watched.start();
    this.#networks.udnConditions.start();
    for (const task of this.#tasks) task.start();
    // After everything else: the lists of ten thousand machines would keep those of pods waiting.
    void watched.listed().then(() => this.#machines.start(() => this.#stopping));
  }

  /** Ends within three seconds, whatever the API server does. */
  async stop(): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    const { api, watched } = this.#context;
    const tasks = this.#tasks.map((task) => task.stop());
    const ended = Promise.all([...tasks, this.#machines.stopWork()]);
    await Promise.race([ended, sleep(api.clock, STOP_GRACE_MS)]);
    // Whatever still runs writes nothing from here on, so that another one may.
    api.close();
    await this.#lease.stop();
    const { udnConditions } = this.#networks;
    await Promise.all([ended, watched.stop(), this.#machines.stop(), udnConditions.stop(), this.#health.close()]);
  }

  /** Where HTTP is served, once it is: the port that was chosen for port 0. */
  get port(): number {
    return this.#health.address?.port ?? 0;
  }

  #watch(api: OpenKubeApi, log: Log): Watched {
    const cluster = () => this.#machines.cluster;
    const seen = (how: "allocationSeen" | "allocationGone") => (object: IPAllocation) => cluster()[how](object);
    return new Watched(
      api,
      {
        changed: () => {
          this.#addresses.sweeper.knownChanged();
          this.#occur("changed");
        },
        somethingEnded: () => this.#occur("owner-ended"),
        podAddressesCut: (pod) => this.#addresses.warnCut(pod),
        claimListed: () => this.#occur("claim-listed"),
        allocation: seen("allocationSeen"),
        allocationGone: seen("allocationGone"),
        allocationDeleted: (object) => this.#addresses.lost.noteDeleted(object),
        networkChanged: () => cluster().networkChanged(),
        networkGone: (object) => this.#networks.lost.noteGone(object),
        allocationsState: (state) => {
          cluster().allocationsState(state);
          this.#addresses.lost.noteState(state);
        },
        definitionsChanged: () => this.#definitionsChanged(),
      },
      log,
    );
  }

  #occur(occasion: Occasion): void {
    for (const task of this.#tasks) task.occur(occasion);
  }

  #definitionsChanged(): void {
    this.#addresses.definitionsChanged();
    this.#machines.cluster.definitionsChanged();
    this.#occur("definitions-changed");
  }

  #idle(): string | null {
    return this.#notReady() ?? this.#lease.whyNot;
  }

  #notReady(): string | null {
    return this.#stopping ? "it is stopping" : this.#context.watched.doubt;
  }
}
