import type { ApiServer } from "../../harness/kube-fake/api-server.ts";
import type { Fate } from "../../harness/kube-fake/client/link.ts";
import type { Etcd, Saved } from "../../harness/kube-fake/etcd.ts";
import type { ClusterParts } from "./parts.ts";

/** What a server that has just started refuses, of a thousand requests. */
const STARTING = [
  { status: 403, perMille: 350 },
  { status: 503, perMille: 150 },
  { status: 401, perMille: 80 },
  { status: 429, perMille: 60 },
] as const;
const STARTING_SUM = STARTING.reduce((sum, { perMille }) => sum + perMille, 0);
/** Of what it refuses because it has too much to do: priority and fairness always says this. */
const RETRY_AFTER_SECONDS = 1;
/** Revisions that a server writes for itself when it starts. */
const WRITES_OF_START = 20;

/**
 * The API servers as those who ask see them: two over one etcd, of which one answers, or both in turn behind a load
 * balancer. They may be away, starting, slow.
 */
export class Front {
  readonly servers: readonly ApiServer[];
  /** Whether a load balancer shares requests out. */
  isBalanced = false;
  /** Everything takes up to so much longer, ms. */
  slowMs = 0;
  /**
   * It refuses this share of what is asked, with 429 and a Retry-After, as priority and fairness does while all seats
   * are taken.
   */
  refusedShare = 0;
  readonly #parts: ClusterParts;
  readonly #etcd: Etcd;
  #asked = 0;
  #isAway = false;
  #startingUntilMs = 0;

  constructor(parts: ClusterParts, etcd: Etcd, servers: readonly ApiServer[]) {
    this.#parts = parts;
    this.#etcd = etcd;
    this.servers = servers;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  /** Sets both: a server that has too much to do answers late, and refuses what it has no seat for. */
  load({ slowMs, refusedShare }: { readonly slowMs: number; readonly refusedShare: number }): void {
    this.slowMs = slowMs;
    this.refusedShare = refusedShare;
  }

  /** Who answers the next request. */
  next(): ApiServer {
    if (!this.isBalanced) return this.servers[0] as ApiServer;
    const share = this.#parts.faults.number(`balancer ${this.#asked}`);
    return this.servers[Math.floor(share * this.servers.length)] as ApiServer;
  }

  /** What a request meets that has come here; undefined: an answer. */
  reached(): Fate | undefined {
    this.#asked += 1;
    if (this.#isAway) return { lost: "before" };
    if (this.refusedShare > 0 && this.#parts.faults.decide(`refused ${this.#asked}`, this.refusedShare)) {
      this.#parts.counts.add("api.refused");
      return { status: 429, retryAfterSeconds: RETRY_AFTER_SECONDS };
    }
    if (this.#parts.clock.monotonicMs() >= this.#startingUntilMs) return undefined;
    const key = `starting ${this.#asked}`;
    const { faults, counts } = this.#parts;
    if (!faults.decide(key, STARTING_SUM / 1_000)) return undefined;
    let left = faults.number(`${key} what`) * STARTING_SUM;
    const refusal = STARTING.find(({ perMille }) => {
      left -= perMille;
      return left < 0;
    });
    if (refusal === undefined) return undefined;
    counts.add(`api.starting-${refusal.status}`);
    return { status: refusal.status };
  }

  /** Every connection ends, and nobody answers. */
  stop(): void {
    this.#isAway = true;
    for (const server of this.servers) server.watches.end(undefined, "cut");
  }

  /** `startingMs`: how long it refuses some of what is asked. */
  start(startingMs = 0): void {
    if (this.#isAway) for (const server of this.servers) server.restart();
    this.#isAway = false;
    this.starting(startingMs);
  }

  /** Roles are read again. */
  starting(ms: number): void {
    this.#startingUntilMs = this.#parts.clock.monotonicMs() + ms;
  }

  /** etcd gets what was saved, while nobody is served. `bumped`: revisions that it is moved on by. */
  restore(saved: Saved, bumped: number): void {
    if (!this.#isAway) throw new Error("etcd is restored under servers that run");
    this.#etcd.restore(saved, bumped);
    this.#etcd.bump(WRITES_OF_START);
  }

  /** All revisions but the present ones are forgotten, and so are the events that watches could begin from. */
  compact(): void {
    this.#etcd.compact();
    for (const server of this.servers) for (const { storage } of server.served.all) server.cacheOf(storage).forget();
  }

  heal(): void {
    this.start();
    this.isBalanced = false;
    this.load({ slowMs: 0, refusedShare: 0 });
    this.#startingUntilMs = 0;
    for (const server of this.servers) {
      for (const storage of [...server.served.withheld]) server.withhold(storage, false);
      for (const storage of server.heldStorages) server.releaseCache(storage);
    }
  }
}
