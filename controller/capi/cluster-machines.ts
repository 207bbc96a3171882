/*
 * controller/capi/: addresses of machines (Cluster API)
 *
 *   cluster-machines   everything here, put together for the controller
 *   machine-caches     what the API server shows of machines, mirrored
 *   pools              every AddressPool: whether it gives addresses, and which
 */

import type { KubeApi } from "../../kube/kube-api.ts";
import type { CapiClusterView } from "../../kube/views/machine-claim-view.ts";
import type { FollowedLog } from "../followed-resources.ts";
import { PeriodicTask, type PeriodicTaskOptions } from "../periodic-task.ts";
import type { Watched } from "../watched.ts";
import { MachineCaches } from "./machine-caches.ts";
import { Pools } from "./pools.ts";

/** How often pools are evaluated, ms. */
const POOLS_INTERVAL_MS = 3_000;

export interface ClusterMachinesOptions {
  readonly api: KubeApi;
  readonly watched: Watched;
  /** An AddressPool that defines a network has changed, or does no longer. */
  readonly onDefinitions: () => void;
  /** What addresses are held for is gone: a claim or a pool. */
  readonly onOwnerGone: () => void;
  /** A Cluster has changed, or is gone. */
  readonly onCluster: (cluster: CapiClusterView) => void;
  readonly log: FollowedLog & PeriodicTaskOptions["log"];
}

/** The parts that give addresses to machines. What they doubt never stops the work for pods. */
export class ClusterMachines {
  readonly caches: MachineCaches;
  readonly #pools: Pools;
  readonly #tasks: readonly PeriodicTask[];

  constructor({ api, watched, onDefinitions, onOwnerGone, onCluster, log }: ClusterMachinesOptions) {
    const { catalog, allocations, networks } = watched;
    const poolsChanged = () => {
      this.#pools.touchDefinitions();
      poolsTask.trigger();
    };
    const defining = (pool: { readonly definition: unknown }) => {
      if (pool.definition !== null) onDefinitions();
      poolsChanged();
    };
    this.caches = new MachineCaches(
      api,
      {
        claim: () => {},
        claimGone: onOwnerGone,
        address: () => {},
        addressGone: () => {},
        pool: (pool, previous) => {
          catalog.upsertPool(pool);
          if (pool.generation !== previous?.generation || pool.paused !== previous.paused)
            defining(pool.definition === null ? (previous ?? pool) : pool);
        },
        poolGone: (pool) => {
          catalog.removePool(pool.key);
          defining(pool);
          onOwnerGone();
        },
        cluster: onCluster,
        clusterGone: onCluster,
        metal3Pool: poolsChanged,
        poolsInterrupted: () => catalog.poolsInterrupted(),
      },
      log,
    );
    this.#pools = new Pools({
      ...{ api, allocations, networks },
      caches: this.caches,
      definitions: catalog,
      onChange: () => {},
    });
    const { clock } = api;
    const poolsTask = new PeriodicTask({
      ...{ clock, log },
      what: "the address pools",
      intervalMs: POOLS_INTERVAL_MS,
      work: (signal) => this.#pools.runPass(signal),
    });
    this.#tasks = [poolsTask];
  }

  start(): void {
    this.caches.start();
    for (const task of this.#tasks) task.start();
  }

  /** Work in hand comes to its end; the caches are followed until `stop`. */
  async stopWork(): Promise<void> {
    await Promise.all(this.#tasks.map((task) => task.stop()));
  }

  stop(): Promise<void> {
    return this.caches.stop();
  }

  /** A definition of a network or an IPNetwork has changed. */
  definitionsChanged(): void {
    this.#pools.touchDefinitions();
  }
}
