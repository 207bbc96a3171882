import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import { readFact } from "../../claims/reasons/fresh-read.ts";
import type { MachineMemory } from "../../claims/reasons/read-facts.ts";
import { machinePaths } from "../../kube/cluster-api.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { changeNetworkObject } from "../../kube/network-object.ts";
import type { IPNetwork } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import { type CapiClusterView, projectCapiCluster } from "../../kube/views/machine-claim-view.ts";
import type { Log } from "../../platform/log.ts";

export interface PausedClustersOptions {
  readonly api: KubeApi;
  readonly allocations: Cache<CachedAllocation>;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly servedPath: MachineMemory["servedPath"];
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Remembers in IPNetworks which Clusters of their machines are paused. A move to another management cluster begins with
 * a pause and ends without the Cluster: only the record tells later that its claims have not ended.
 */
export class PausedClusters {
  readonly #options: PausedClustersOptions;
  /** `namespace/name`, as they were last seen: what a watch shows only once is kept here. */
  readonly #paused = new Set<string>();
  #waits = false;

  constructor(options: PausedClustersOptions) {
    this.#options = options;
  }

  /** A Cluster was added, changed or deleted: how it was seen last. Returns whether there is something to write. */
  note({ key, paused }: Pick<CapiClusterView, "key" | "paused">): boolean {
    const was = this.#paused.has(key);
    if (paused) this.#paused.add(key);
    else this.#paused.delete(key);
    return was !== paused;
  }

  wasSeenPaused(cluster: string): boolean {
    return this.#paused.has(cluster);
  }

  get waits(): boolean {
    return this.#waits;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { allocations, networks, idle } = this.#options;
    if (idle() !== null || !allocations.known || !networks.known) return;
    this.#waits = false;
    const listed = new Map<string, readonly string[]>();
    for (const { object } of networks.items.values()) {
      const { pausedClusters = [] } = object.status ?? {};
      if (pausedClusters.length > 0) listed.set(object.spec.network, pausedClusters);
    }
    if (this.#paused.size === 0 && listed.size === 0) return;
    const held = await this.#clustersByNetwork();
    for (const network of new Set([...held.keys(), ...listed.keys()])) {
      if (signal.aborted || idle() !== null) return;
      try {
        await this.#write(network, held.get(network) ?? new Set(), listed.get(network) ?? []);
      } catch (error) {
        if (!(error instanceof ApiAway)) throw error;
        this.#waits = true;
        this.#options.log.warn({ network, problem: error.message }, "paused clusters not recorded; will retry");
      }
    }
  }

  async #clustersByNetwork(): Promise<Map<string, Set<string>>> {
    const { api, allocations } = this.#options;
    const found = new Map<string, Set<string>>();
    const budget = new TurnBudget(api.clock);
    for (const one of [...allocations.items.values()]) {
      if (budget.isSpent) await budget.nextTurn();
      if (one.ownerKind !== "IPAddressClaim" || one.state !== "Bound") continue;
      const { owner, network } = one.object.spec;
      if (!owner.cluster) continue;
      const cluster = `${owner.namespace}/${owner.cluster}`;
      const known = found.get(network);
      if (known === undefined) found.set(network, new Set([cluster]));
      else known.add(cluster);
    }
    return found;
  }

  async #write(network: string, held: ReadonlySet<string>, listed: readonly string[]): Promise<void> {
    const { api, log } = this.#options;
    const added = [...held].filter((one) => this.#paused.has(one) && !listed.includes(one));
    const removed: string[] = [];
    for (const one of listed) {
      const isOver = !held.has(one) || (!this.#paused.has(one) && (await this.#goesOn(one)));
      if (isOver) removed.push(one);
    }
    if (added.length === 0 && removed.length === 0) return;
    const written = await changeNetworkObject<boolean>(api, network, {
      failed: `the paused clusters of network ${network} could not be recorded`,
      decide: (known) => {
        if (known === null) return { kind: "leave", result: false };
        const before = known.status?.pausedClusters ?? [];
        const pausedClusters = [...new Set([...before, ...added])].filter((one) => !removed.includes(one));
        if (pausedClusters.join() === before.join()) return { kind: "leave", result: false };
        const fields = { status: { pausedClusters: pausedClusters.toSorted() } };
        return { kind: "write", fields, afterWrite: () => true };
      },
    });
    if (written) log.info({ network, paused: added, over: removed }, "paused clusters recorded");
  }

  /** By a quorum read: a Cluster that is there and not paused. One that is gone may have moved. */
  async #goesOn(cluster: string): Promise<boolean> {
    const { api, servedPath } = this.#options;
    const [namespace = "", name = ""] = cluster.split("/");
    const paths = machinePaths("clusters", { namespace, name }, servedPath("clusters"));
    const found = await readFact(api, paths, projectCapiCluster);
    if (found.kind === "unknown") throw new ApiAway(`Cluster ${cluster} cannot be read`);
    return found.kind === "present" && !found.it.paused;
  }
}
