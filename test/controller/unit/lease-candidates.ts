import { LeaderLease } from "../../../controller/lease.ts";
import { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { FakeKubeApi } from "../../harness/kube-fake/client/fake-kube-api.ts";
import type { Fate } from "../../harness/kube-fake/client/link.ts";
import type { ServerRequest } from "../../harness/kube-fake/requests.ts";
import type { VirtualClock, VirtualClockOptions } from "../../harness/virtual/virtual-clock.ts";
import { settled, VirtualTime } from "../../harness/virtual-time.ts";

export const LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/holdfast-controller";

/** One process that wants to lead. */
export class Candidate {
  readonly lease: LeaderLease;
  readonly clock: VirtualClock;
  /** What becomes of its requests besides what the server does; undefined: they arrive. */
  fate: (request: ServerRequest) => Fate | undefined = () => undefined;
  readonly logged: unknown[] = [];
  isAlive = true;

  constructor(world: LeaseWorld, identity: string, options: VirtualClockOptions) {
    this.clock = world.time.clock(options);
    const clock = world.time.clock();
    const fate = (request: ServerRequest): Fate => {
      // Nothing comes from, or to, the dead.
      if (!this.isAlive) return { hangs: true };
      return { requestMs: 1, answerMs: 1, ...world.fate(), ...this.fate(request) };
    };
    const api = new FakeKubeApi({ server: () => world.server, clock: this.clock, link: { clock, fate } });
    const log = { info() {}, warn: (fields: unknown) => void this.logged.push(fields) };
    this.lease = new LeaderLease({ api, namespace: "system", identity, log });
    this.lease.start();
  }

  get leads(): boolean {
    return this.isAlive && this.lease.leads;
  }

  /** SIGKILL. */
  kill(): void {
    this.isAlive = false;
    this.clock.kill();
  }
}

/** Candidates at one API server, in virtual time. */
export class LeaseWorld {
  readonly time: VirtualTime;
  readonly server: ApiServer;
  readonly candidates: Candidate[] = [];
  /** What the server does to every request. */
  fate: () => Fate | undefined = () => undefined;
  /** Of each look: who led, by their place in `candidates`. */
  readonly #whoLed: { readonly atMs: number; readonly leaders: readonly number[] }[] = [];

  constructor(seed = 1) {
    this.time = new VirtualTime(seed);
    this.server = new ApiServer({ clock: this.time.clock() });
    for (const name of ["holdfast-system", "system"]) this.server.put("/api/v1/namespaces", { metadata: { name } });
  }

  join(options: VirtualClockOptions = {}): Candidate {
    const candidate = new Candidate(this, "abcdefgh"[this.candidates.length] as string, options);
    this.candidates.push(candidate);
    return candidate;
  }

  /** Lets time pass, and looks after everything that happens. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.time.nowMs + ms;
    let isOver = false;
    this.time.clock().timer(ms, () => {
      isOver = true;
    });
    while (!isOver) {
      await settled();
      this.#look();
      this.time.step();
    }
    if (this.time.nowMs !== untilMs) throw new Error(`it is ${this.time.nowMs}, not ${untilMs}`);
    await settled();
    this.#look();
  }

  #look(): void {
    const leaders = this.candidates.flatMap(({ leads }, index) => (leads ? [index] : []));
    const last = this.#whoLed.at(-1);
    if (last?.leaders.join() !== leaders.join()) this.#whoLed.push({ atMs: this.time.nowMs, leaders });
  }

  /** When more than one led, ms. */
  get doubled(): readonly number[] {
    return this.#whoLed.filter(({ leaders }) => leaders.length > 1).map(({ atMs }) => atMs);
  }

  /** Periods without a leader that end after `fromMs`. The one that lasts still has no end. */
  gaps(fromMs = 0): { readonly fromMs: number; readonly toMs: number }[] {
    return this.#whoLed.flatMap(({ atMs, leaders }, index) => {
      const toMs = this.#whoLed[index + 1]?.atMs ?? Number.POSITIVE_INFINITY;
      return leaders.length === 0 && toMs > fromMs ? [{ fromMs: atMs, toMs }] : [];
    });
  }

  // biome-ignore lint/suspicious/noExplicitAny: an object as it is
  get object(): any {
    return this.server.at(LEASE);
  }

  /** Frozen from now on, as by SIGSTOP: whatever comes is answered when it goes on. */
  freeze(ms: number): void {
    const untilMs = this.time.nowMs + ms;
    this.fate = () => ({ requestMs: Math.max(1, untilMs - this.time.nowMs) });
  }

  /** Killed for so long: connections are refused. */
  stopFor(ms: number): void {
    const untilMs = this.time.nowMs + ms;
    this.fate = () => (this.time.nowMs < untilMs ? { lost: "before" } : undefined);
  }

  /** Whatever is sent gets lost, as with a firewall in between: it is not answered later either. */
  cutOffFor(ms: number): void {
    const untilMs = this.time.nowMs + ms;
    this.fate = () => (this.time.nowMs < untilMs ? { hangs: true } : undefined);
  }
}
