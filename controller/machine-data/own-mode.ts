/*
 * controller/machine-data/: Metal3's machine data where CAPM3 is not (--machine-data=own)
 *
 *   own-mode                     what runs, and whether it may write; kind-owner: whether CAPM3 owns the kinds
 *   data-world                   what the API server shows; work-queue: what is to be looked at
 *   machine-status, host-references   a Metal3Machine: its claim, its status, its host
 *   vm-claims, vm-caches         a VM whose annotation names a template: its claim
 *   claim-indexing, template-indexes  a Metal3DataClaim: its index
 *   data-rendering, data-pools, direct-reservation   a Metal3Data: its addresses
 *   secrets, secret-turns        and its Secrets
 *   data-expiry, standing        data whose claim is gone
 *   template-status, data-status, data-bodies   what is written
 */

import type { ChangingCache } from "../../claims/reasons/facts.ts";
import type { EventWriter } from "../../kube/events.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import type { MachineCaches } from "../capi/machine-caches.ts";
import type { ControllerPart } from "../part.ts";
import { PartTask } from "../part-task.ts";
import { ClaimIndexing } from "./claim-indexing.ts";
import { PARTS } from "./data-bodies.ts";
import { DataExpiry } from "./data-expiry.ts";
import { DataPools, type DirectAddresses } from "./data-pools.ts";
import { DataRendering } from "./data-rendering.ts";
import { DataStatus } from "./data-status.ts";
import { DataWorld } from "./data-world.ts";
import { HostReferences } from "./host-references.ts";
import { KindOwner } from "./kind-owner.ts";
import { MachineStatus } from "./machine-status.ts";
import { SecretTurns } from "./secret-turns.ts";
import { Secrets } from "./secrets.ts";
import { computedNetworks, TemplateStatus } from "./template-status.ts";
import { VmCaches } from "./vm-caches.ts";
import { VmClaims } from "./vm-claims.ts";
import { STAGES, type Stage, WorkQueue } from "./work-queue.ts";

/** Objects settled at once: each waits for the API server most of the time. */
const AT_ONCE = 8;
/** Rounds of one pass: what one stage writes comes back as an event and is the next stage's work. */
const ROUNDS_PER_PASS = 8;
/** How often objects that wait are looked at, ms; and while nothing waits: who owns the kinds is followed by nobody. */
const WAITING_INTERVAL_MS = 2_000;
const QUIET_INTERVAL_MS = 30_000;
/** How often missing Secrets are looked for, ms, and how many creates that takes at most: 5 a second in all. */
const SECRETS_INTERVAL_MS = 1_000;
const SECRETS_PER_TURN = 5;
/** How often a template's indexes are shown at most, ms. */
const TEMPLATES_INTERVAL_MS = 3_000;

export interface OwnModeOptions {
  readonly api: KubeApi;
  readonly machines: MachineCaches;
  readonly catalog: Pick<DefinitionCatalog, "networks" | "definitionOf">;
  readonly direct: DirectAddresses;
  readonly events: Pick<EventWriter, "warn">;
  readonly graceSeconds: number;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

export interface OwnModeCounts {
  readonly objects: Readonly<Record<"ready" | "waiting" | "failed", number>>;
  /** CAPM3 owns the kinds, so nothing is written. */
  readonly isRefused: boolean;
  /** Secrets that did not exist before. */
  readonly secrets: number;
}

/** `start` before `stop`. Every step is safe beside another controller that does the same: docs/decisions/0040. */
export class OwnMode {
  readonly #options: OwnModeOptions;
  readonly #owner: KindOwner;
  readonly #world: DataWorld;
  readonly #queue: WorkQueue;
  readonly #machines: MachineStatus;
  readonly #vms: VmCaches;
  readonly #vmClaims: VmClaims;
  readonly #claims: ClaimIndexing;
  readonly #rendering: DataRendering;
  readonly #hosts: HostReferences;
  readonly #expiry: DataExpiry;
  readonly #templates: TemplateStatus;
  readonly #secrets: Secrets;
  readonly #turns: SecretTurns;
  /** Creates of Secrets that may still be sent. */
  #secretsLeft = 0;
  /** Why nothing was written when that was asked last; null: it was. */
  #problem: string | null = null;
  readonly #tasks: readonly PartTask[];
  readonly #leftovers: PartTask;

  constructor(options: OwnModeOptions) {
    this.#options = options;
    const { api, log, events, machines } = options;
    const graceMs = options.graceSeconds * 1_000;
    this.#owner = new KindOwner(api, log);
    this.#queue = new WorkQueue({ clock: api.clock, onMark: () => work.trigger() });
    const onTemplate = (key: string) => {
      this.#templates.touch(key);
      templates.changed();
    };
    const world = new DataWorld({
      ...{ api, log, queue: this.#queue },
      clusters: machines.clusters,
      onTemplate,
      onDataGone: (uid) => this.#rendering.forget(uid),
      onChange: () => {
        for (const one of [leftovers, secrets]) one.changed();
      },
    });
    this.#world = world;
    const status = new DataStatus(api, log);
    const queue = this.#queue;
    const shared = { api, world, status, events, queue };
    this.#secrets = new Secrets(api);
    this.#hosts = new HostReferences({ api, world, graceMs, log });
    this.#machines = new MachineStatus({ ...shared, hosts: this.#hosts, secrets: this.#secrets });
    this.#vms = new VmCaches(api, (key) => this.#queue.mark("vms", key), log);
    this.#vmClaims = new VmClaims({ ...shared, vms: this.#vms, log });
    this.#claims = new ClaimIndexing(shared);
    const { catalog, direct } = options;
    const dnsServersOf = (network: string) => catalog.definitionOf(network)?.definition.dns.nameservers ?? [];
    const pools = new DataPools({ api, machines, dnsServersOf, direct });
    this.#turns = new SecretTurns(api.clock);
    this.#rendering = new DataRendering({
      ...shared,
      clock: api.clock,
      pools,
      secrets: this.#secrets,
      turns: this.#turns,
    });
    this.#expiry = new DataExpiry({ api, world, graceMs, log });
    this.#templates = new TemplateStatus({
      ...{ ...shared, log },
      computedIn: (spec) => computedNetworks(spec, catalog),
    });
    const task = (part: ControllerPart) =>
      new PartTask({ ...part, rest: { restShare: 0 } }, { clock: api.clock, log, idle: () => this.#problem });
    const whileWaiting = (everyMs: number, waits: () => boolean) => ({
      ...{ everyMs, quietMs: QUIET_INTERVAL_MS },
      nextMs: () => (waits() ? api.clock.monotonicMs() + everyMs : Number.POSITIVE_INFINITY),
    });
    const work = task({
      name: "machine data",
      ...whileWaiting(WAITING_INTERVAL_MS, () => queue.isWaiting),
      work: (signal) => this.#pass(signal),
    });
    const templates = task({
      name: "the indexes of templates",
      ...whileWaiting(TEMPLATES_INTERVAL_MS, () => this.#templates.isDue),
      work: (signal) => this.#whileAllowed((mayGoOn) => this.#templates.runPass(signal, mayGoOn)),
    });
    // Secrets are not followed: as long as there is any, the next turn comes.
    const secrets = task({
      name: "the Secrets of machines",
      ...whileWaiting(SECRETS_INTERVAL_MS, () => this.#world.caches.datas.items.size > 0),
      work: (signal) => this.#secretsPass(signal),
    });
    const leftovers = task({
      name: "what machines left behind",
      ...whileWaiting(WAITING_INTERVAL_MS, () => this.#expiry.isWaiting || this.#hosts.isWaiting),
      work: (signal) =>
        this.#whileAllowed(async (mayGoOn) => {
          await this.#expiry.runPass(signal, mayGoOn);
          await this.#hosts.runPass(signal, mayGoOn);
        }),
    });
    this.#leftovers = leftovers;
    this.#tasks = [work, secrets, templates, leftovers];
  }

  /** A Cluster has changed, or is gone: one that was paused kept what machines left behind. */
  clusterChanged(): void {
    this.#leftovers.changed();
  }

  start(): void {
    this.#world.caches.start();
    this.#vms.start();
    for (const task of this.#tasks) task.start();
  }

  /** Work in hand comes to its end; the caches are followed until `stop`. */
  async stopWork(): Promise<void> {
    await Promise.all(this.#tasks.map((task) => task.stop()));
  }

  async stop(): Promise<void> {
    await Promise.all([this.#world.caches.stop(), this.#vms.stop()]);
  }

  get data(): ChangingCache<Reflected> {
    return this.#world.caches.datas;
  }

  get synced(): Record<string, boolean> {
    return { ...this.#world.caches.synced, ...this.#vms.synced };
  }

  get counts(): OwnModeCounts {
    const objects = { ready: 0, waiting: 0, failed: 0 };
    for (const { ready, errorMessage } of this.#world.caches.datas.items.values())
      objects[ready ? "ready" : errorMessage === "" ? "waiting" : "failed"] += 1;
    return { objects, isRefused: this.#owner.isForeign, secrets: this.#secrets.createdCount };
  }

  /** Whether writing goes on: nothing is in doubt, and CAPM3 was not installed a moment ago. */
  async #mayWrite(): Promise<boolean> {
    const { idle, machines } = this.#options;
    const doubt = idle() ?? machines.doubt ?? this.#world.caches.doubt;
    this.#problem = doubt ?? (await this.#owner.problem());
    return this.#problem === null;
  }

  async #whileAllowed(work: (mayGoOn: () => Promise<boolean>) => Promise<void>): Promise<void> {
    if (await this.#mayWrite()) await work(() => this.#mayWrite());
  }

  async #pass(signal: AbortSignal): Promise<void> {
    // Looked up first: where the kinds are another's, the log and the metric say so even without the lease.
    await this.#owner.problem();
    this.#queue.retry();
    for (let round = 0; round < ROUNDS_PER_PASS && !this.#queue.isEmpty; round += 1)
      for (const stage of STAGES) if (!(await this.#stage(stage, signal))) return;
  }

  /** Returns whether it came to its end. */
  async #stage(stage: Stage, signal: AbortSignal): Promise<boolean> {
    const keys = this.#queue.take(stage);
    const budget = new TurnBudget(this.#options.api.clock);
    let isOver = false;
    await severalAtOnce(keys, AT_ONCE, async (key) => {
      if (isOver || signal.aborted || !(await this.#mayWrite())) {
        isOver = true;
        this.#queue.wait(stage, key);
        return;
      }
      try {
        if (await this.#settle(stage, key)) this.#queue.settled(stage, key);
        else this.#queue.wait(stage, key);
      } catch (error) {
        // Whatever one object meets, the others go on.
        const what = error instanceof ApiAway ? { problem: error.message } : { err: error as Error };
        this.#options.log.warn({ [stage]: key, ...what }, "not settled; will retry");
        this.#queue.wait(stage, key);
      }
      if (budget.isSpent) await budget.nextTurn();
    });
    return !isOver;
  }

  async #settle(stage: Stage, key: string): Promise<boolean> {
    const { claims, datas, metal3Machines } = this.#world.caches;
    if (stage === "machines") {
      const machine = metal3Machines.items.get(key);
      return machine === undefined || this.#machines.settle(machine);
    }
    if (stage === "vms") return this.#vmClaims.settle(key);
    if (stage === "claims") {
      const claim = claims.items.get(key);
      return claim === undefined || this.#claims.settle(claim);
    }
    const data = datas.items.get(key);
    return data === undefined || this.#rendering.settle(data);
  }

  /** Secrets that somebody deleted come again: a create of every one in turn, refused where it is there. */
  async #secretsPass(signal: AbortSignal): Promise<void> {
    if (!(await this.#mayWrite())) return;
    const { datas } = this.#world.caches;
    const budget = new TurnBudget(this.#options.api.clock);
    this.#turns.begin(datas.items.keys());
    // What is too little for one more object is left to the next turn.
    this.#secretsLeft = SECRETS_PER_TURN + Math.min(this.#secretsLeft, PARTS.length - 1);
    while (this.#secretsLeft >= PARTS.length && !signal.aborted) {
      const key = this.#turns.next();
      if (key === null) return;
      const data = datas.items.get(key);
      if (data !== undefined) {
        if (!(await this.#mayWrite())) return;
        this.#secretsLeft -= await this.#rendering.remake(data);
      }
      if (budget.isSpent) await budget.nextTurn();
    }
  }
}
