import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import type { Address, Family } from "../ipam/space/address.ts";
import { type CooldownDefinition, cooldownEndMs } from "../ipam/space/cooldown.ts";
import type { IntervalSet } from "../ipam/space/interval-set.ts";
import { Pool } from "../ipam/space/pool.ts";

/** Pools kept, by definition: two that disagree, or parts for machines, must not rebuild 100,000 entries each time. */
const DEFINITIONS_KEPT_MAX = 16;

/** One allocated, retained or cooling address, as read from the store. */
export interface StoredAddress {
  readonly address: Address;
  readonly cooling: boolean;
  readonly retained?: boolean;
  /** It is none of these, although it was among those taken. */
  readonly free?: boolean;
  /** Since when it is known to cool down, ms of the monotonic clock; absent: since now. */
  readonly coolingSinceMs?: number;
}

interface SpaceSources {
  readonly stored: () => Iterable<StoredAddress>;
  /** Addresses that are allocated unless `stored` says otherwise; absent: none. */
  readonly taken?: (family: Family) => IntervalSet;
  /** Where the first search begins, so that nodes that share a network start at different addresses. */
  readonly startSeed?: string;
}

/** The free space of one network in memory, by definition. It can be discarded: `stored` reads everything again. */
export class NetworkSpace {
  readonly id: number;
  readonly name: string;
  /** The definition for new allocations; null while the network has none. */
  definition: NetworkDefinition | null = null;
  /** `namespace/name` of the applied manifest that defines it; null when the runtime's configuration does. */
  appliedBy: string | null = null;
  /** A bridge of this network has the gateway's address: from then on every definition of it has a gateway. */
  bridgeIsGateway = false;
  /** Bound and Retained addresses of the network, inside its present ranges or not. */
  boundCount = 0;
  readonly #sources: SpaceSources;
  readonly #pools = new Map<string, readonly Pool[]>();

  constructor(id: number, name: string, sources: SpaceSources) {
    this.id = id;
    this.name = name;
    this.#sources = sources;
  }

  /** The pools of a definition, in the order of its range sets; built from the store the first time. */
  poolsOf(definition: NetworkDefinition, nowMs: number): readonly Pool[] {
    const kept = this.#pools.get(definition.fingerprint);
    if (kept) return kept;
    const { stored, taken, startSeed } = this.#sources;
    const pools = definition.rangeSets.map((rangeSet) => new Pool(rangeSet, startSeed, taken?.(rangeSet.family)));
    for (const one of stored()) fill(pools, one, definition, nowMs, startSeed === undefined);
    this.adopt(definition, pools);
    return pools;
  }

  knows(definition: NetworkDefinition): boolean {
    return this.#pools.has(definition.fingerprint);
  }

  /** Discards pools that were built from rolled-back rows. */
  forget(definition: NetworkDefinition): void {
    this.#pools.delete(definition.fingerprint);
  }

  /** Discards all pools: they are built from the store again. Marks of addresses being tried now are lost with them. */
  forgetPools(): void {
    this.#pools.clear();
  }

  /** Keeps pools that were filled elsewhere (the sliced load at start). */
  adopt(definition: NetworkDefinition, pools: readonly Pool[]): void {
    if (this.#pools.size >= DEFINITIONS_KEPT_MAX) {
      const oldest = [...this.#pools.keys()].find((fingerprint) => fingerprint !== this.definition?.fingerprint);
      if (oldest !== undefined) this.#pools.delete(oldest);
    }
    this.#pools.set(definition.fingerprint, pools);
  }

  /** None when there is no definition. */
  presentPools(nowMs: number): readonly Pool[] {
    return this.definition === null ? [] : this.poolsOf(this.definition, nowMs);
  }

  /** Marks an address as allocated in every kept definition. Returns how to revert it. */
  allocate(address: Address, moveCursor: boolean): () => void {
    this.boundCount += 1;
    const undo = this.#inEveryPool(address, (pool) => pool.allocate(address.value, { moveCursor }));
    return () => {
      this.boundCount -= 1;
      undo();
    };
  }

  /** Marks an address as released, cooling until the given instant of the monotonic clock. */
  release(address: Address, coolingUntilMs: number, nowMs: number): () => void {
    this.boundCount -= 1;
    const undo = this.#inEveryPool(address, (pool) => pool.release(address.value, coolingUntilMs, nowMs));
    return () => {
      this.boundCount += 1;
      undo();
    };
  }

  retain(address: Address): () => void {
    return this.#inEveryPool(address, (pool) => pool.retain(address.value));
  }

  endRetention(address: Address): () => void {
    return this.#inEveryPool(address, (pool) => pool.allocate(address.value, { moveCursor: false }));
  }

  endCooldown(address: Address): () => void {
    return this.#inEveryPool(address, (pool) => pool.endCooldown(address.value));
  }

  /** Makes an address what the store says of it, whatever it was. */
  set(stored: StoredAddress, nowMs: number): void {
    for (const pools of this.#pools.values()) fill(pools, stored, this.definition, nowMs, false);
  }

  #inEveryPool(address: Address, act: (pool: Pool) => () => void): () => void {
    const undos: (() => void)[] = [];
    for (const pools of this.#pools.values()) {
      for (const pool of pools) {
        if (pool.rangeSet.family === address.family && pool.subnetOf(address.value)) undos.push(act(pool));
      }
    }
    return () => {
      while (undos.length > 0) (undos.pop() as () => void)();
    };
  }
}

/** The pool that counts an address; else the first whose subnet contains it, although it is outside the range. */
export function poolOf(pools: readonly Pool[], address: Address): Pool | undefined {
  const ofFamily = pools.filter((pool) => pool.rangeSet.family === address.family);
  return (
    ofFamily.find((pool) => pool.rangeSet.extent.contains(address.value)) ??
    ofFamily.find((pool) => pool.subnetOf(address.value) !== null)
  );
}

/** A cool-down begins again at every start: wall clocks do not decide, and it is never longer than configured. */
export function fill(
  pools: readonly Pool[],
  stored: StoredAddress,
  definition: CooldownDefinition,
  nowMs: number,
  moveCursor = true,
): void {
  const { family, value } = stored.address;
  for (const pool of pools) {
    if (pool.rangeSet.family !== family || !pool.subnetOf(value)) continue;
    // A seeded search must not start behind the addresses of other nodes.
    pool.allocate(value, { moveCursor });
    if (stored.retained) pool.retain(value);
    if (stored.free) pool.release(value, nowMs, nowMs);
    if (stored.cooling) pool.release(value, cooldownEndMs(definition, stored.coolingSinceMs ?? nowMs), nowMs);
  }
}
