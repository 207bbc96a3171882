/*
 * controller/capi/: addresses of machines (Cluster API)
 *
 *   cluster-machines   everything here, put together for the controller
 *   machine-caches     what the API server shows of machines, mirrored
 *   pools              every AddressPool: whether it gives addresses, and which; preallocations, pool-status-writer
 *   machines           which claims are due, and what became of them; claim-queue: in which order
 *   fulfilment         a claim: address, IPAddress, status; claim-facts, address-object, claim-status: what is written
 *   recorded-addresses, refused-addresses, sent-addresses   IPAddresses: in the ledger, refused for good, last seen
 *   machine-ledger     the IPAllocations behind them
 *   paused-clusters, asked-namespaces, machine-sources   what the sweep knows of machines
 */

import type { EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import type { ReflectorState } from "../../kube/reflector.ts";
import type { CapiClusterView, MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import type { Log } from "../../platform/log.ts";
import { PartTask } from "../part-task.ts";
import type { Watched } from "../watched.ts";
import { ClaimStatus } from "./claim-status.ts";
import { Fulfilment } from "./fulfilment.ts";
import { MachineCaches } from "./machine-caches.ts";
import { MachineLedger } from "./machine-ledger.ts";
import { Machines, type MachinesOptions } from "./machines.ts";
import { Pools } from "./pools.ts";
import { RecordedAddresses } from "./recorded-addresses.ts";
import { RefusedAddresses } from "./refused-addresses.ts";
import { SentAddresses } from "./sent-addresses.ts";

/** From one evaluation of the pools to the next, ms: while they change, and while nothing does, for edits past us. */
const POOLS_INTERVAL_MS = 3_000;
const POOLS_QUIET_MS = 60_000;
/** Claims wait for what a run finds out: not for a multiple of the time that writes took. */
const POOLS_REST = { restMsMax: POOLS_INTERVAL_MS };
/** After a run that could not work, ms. */
const CLAIMS_AGAIN_MS = 2_000;
/** The queue of claims is emptied in each run, which so may last long: no rest is needed after it. */
const CLAIMS_REST = { restShare: 0 };

export interface ClusterMachinesOptions {
  readonly api: KubeApi;
  readonly watched: Watched;
  /** Why nothing may be written now, for reasons that concern pods as well; null: it may. */
  readonly idle: () => string | null;
  /** An AddressPool that defines a network has changed, or does no longer. */
  readonly onDefinitions: () => void;
  /** What addresses are held for is gone: a claim or a pool. */
  readonly onOwnerGone: () => void;
  readonly onFollowed: () => void;
  readonly onPool: () => void;
  readonly onCluster: (cluster: CapiClusterView) => void;
  readonly events: Pick<EventWriter, "warn">;
  readonly identity: string;
  /** How often every claim without an address is looked at, whether something has changed or not, ms. */
  readonly passMs: number;
  readonly log: Log;
}

/** The parts that give addresses to machines. What they doubt never stops the work for pods. */
export class ClusterMachines {
  readonly caches: MachineCaches;
  readonly pools: Pools;
  readonly ledger: MachineLedger;
  readonly #claims: MachineClaims;
  readonly #poolsTask: PartTask;
  readonly #tasks: readonly PartTask[];

  constructor(options: ClusterMachinesOptions) {
    const { api, watched, idle, onDefinitions, onOwnerGone, onPool, onCluster, identity, log } = options;
    const { catalog, allocations, networks } = watched;
    const poolsChanged = () => this.definitionsChanged();
    const machinesChanged = () => this.pools.touchMachines();
    const idleHere = () => idle() ?? this.caches.doubt;
    const defining = (pool: { readonly definition: unknown }) => {
      onPool();
      if (pool.definition !== null) onDefinitions();
      poolsChanged();
    };
    this.caches = new MachineCaches(
      api,
      {
        claim: (claim, previous) => {
          machinesChanged();
          this.#claims.loop.claimSeen(claim, previous);
        },
        claimGone: (claim) => {
          machinesChanged();
          this.#claims.claimGone(claim);
          onOwnerGone();
        },
        address: (address) => {
          machinesChanged();
          this.#claims.addressSeen(address);
        },
        addressGone: (address) => {
          machinesChanged();
          this.#claims.addressGone(address);
        },
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
        cluster: (cluster, previous) => {
          onCluster(cluster);
          this.#claims.loop.clusterChanged(cluster, previous);
        },
        clusterGone: onCluster,
        metal3Pool: poolsChanged,
        poolsInterrupted: () => catalog.poolsInterrupted(),
        changed: () => {
          options.onFollowed();
          this.#poolsTask.changed();
        },
      },
      log,
    );
    this.pools = new Pools({
      ...{ api, allocations, networks, log },
      caches: this.caches,
      definitions: catalog,
      idle: idleHere,
      onDue: () => this.#poolsTask.trigger(),
      onTouch: () => this.#poolsTask.changed(),
      onChange: (poolKey) => this.#claims.loop.poolChanged(poolKey),
    });
    const relist = () => {
      watched.relist();
      this.caches.relist();
    };
    const { usedSpaces } = watched;
    this.ledger = new MachineLedger({ api, identity, usedSpaces, relist, log });
    this.#claims = new MachineClaims({
      ...options,
      caches: this.caches,
      pools: this.pools,
      ledger: this.ledger,
      definitions: catalog,
      onDue: () => claimsTask.trigger(),
    });
    const { clock } = api;
    const claimsTask = new PartTask(
      {
        ...{ name: "the claims of machines", everyMs: CLAIMS_AGAIN_MS, quietMs: options.passMs },
        ...{ rest: CLAIMS_REST, nextMs: () => this.#claims.nextMs },
        work: (signal) => this.#claims.runPass(signal),
      },
      { clock, log, idle: () => this.#claims.loop.whyIdle() },
    );
    this.#poolsTask = new PartTask(
      {
        ...{ name: "the address pools", everyMs: POOLS_INTERVAL_MS, quietMs: POOLS_QUIET_MS },
        ...{ rest: POOLS_REST, nextMs: () => this.pools.nextMs },
        work: (signal) => this.pools.runPass(signal),
      },
      { clock, log, idle: () => this.pools.whyUnknown() ?? idleHere() },
    );
    this.#tasks = [this.#poolsTask, claimsTask];
  }

  start(): void {
    this.caches.start();
    for (const task of this.#tasks) task.start();
  }

  /** Work in hand comes to its end; the caches are followed until `stop`. */
  async stopWork(): Promise<void> {
    await Promise.all(this.#tasks.map((task) => task.stop()));
  }

  get claimCounts(): ReadonlyMap<string, number> {
    return this.#claims.loop.counts;
  }

  allocationSeen(object: IPAllocation): void {
    this.pools.touchAllocation(object);
    this.#claims.allocationSeen(object);
  }

  allocationGone(object: IPAllocation): void {
    this.pools.touchAllocation(object);
    this.#claims.allocationGone(object);
  }

  /** An IPNetwork has changed: whether it is imported, or recovers. */
  networkChanged(): void {
    this.#poolsTask.changed();
  }

  allocationsState(state: ReflectorState): void {
    this.ledger.noteState(state);
  }

  stop(): Promise<void> {
    this.ledger.stop();
    return this.caches.stop();
  }

  definitionsChanged(): void {
    this.pools.touchDefinitions();
    this.#poolsTask.trigger();
  }
}

interface MachineClaimsOptions extends Omit<MachinesOptions, "fulfilment" | "status"> {
  readonly caches: MachineCaches;
  readonly pools: Pick<Pools, "stateOf">;
  readonly ledger: MachineLedger;
  readonly definitions: Pick<DefinitionCatalog, "definitionOf">;
}

/** The claims of machines and everything that fulfils them, put together; what the caches tell comes in here. */
class MachineClaims {
  readonly loop: Machines;
  readonly #claims: MachineCaches["claims"];
  readonly #ledger: MachineLedger;
  readonly #sent: SentAddresses;
  readonly #refused: RefusedAddresses;

  constructor(options: MachineClaimsOptions) {
    const { api, caches, ledger, definitions } = options;
    const { clock } = api;
    this.#claims = caches.claims;
    this.#ledger = ledger;
    this.#sent = new SentAddresses(caches.addresses, clock);
    this.#refused = new RefusedAddresses(clock, ledger);
    const status = new ClaimStatus(api, caches.claims);
    const fulfilment = new Fulfilment({
      ...options,
      status,
      recorded: new RecordedAddresses({ caches, ledger, definitions }),
      sent: this.#sent,
      refused: this.#refused,
    });
    this.loop = new Machines({ ...options, fulfilment, status });
  }

  runPass(signal: AbortSignal): Promise<void> {
    for (const key of this.#sent.takeLate()) this.loop.addressChanged({ key });
    return this.loop.runPass(signal);
  }

  get nextMs(): number {
    return Math.min(this.loop.nextMs, this.#sent.lateMs);
  }

  claimGone(claim: MachineClaimView): void {
    this.#refused.clear(claim);
    this.#sent.forget(claim.key);
    this.loop.claimGone(claim);
  }

  addressSeen(address: MachineAddressView): void {
    this.#sent.followed(address);
    this.loop.addressChanged(address);
  }

  addressGone(address: MachineAddressView): void {
    this.#sent.gone(address);
    if (!this.#claims.items.has(address.key)) this.#sent.forget(address.key);
    this.loop.addressChanged(address);
  }

  allocationSeen(object: IPAllocation): void {
    this.#ledger.upsert(object);
    this.loop.allocationChanged(object, false);
  }

  allocationGone(object: IPAllocation): void {
    this.#ledger.gone(object);
    this.loop.allocationChanged(object, true);
  }
}
