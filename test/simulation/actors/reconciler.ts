import type { Timer } from "../../../platform/time.ts";
import type { Change } from "../../harness/kube-fake/etcd.ts";
import type { World } from "../world.ts";

/** After something has changed, ms; it depends on the object and on how often it was looked at. */
const SOON_MS_MAX = 250;
/** A controller that has much to do, or has just been started again. */
const LATE_MS_MAX = 15_000;
const LATE_PROBABILITY = 0.02;
/** Everything is looked at so often, because a restored API server tells nobody what has changed, ms. */
const RESYNC_MS = 15_000;

export interface Reconciling {
  /** `virt-controller` */
  readonly name: string;
  /** Which objects a change is about; [] for none. */
  readonly keysOf: (change: Change) => readonly string[];
  /** All objects that there are, or were when it looked last. */
  readonly all: () => readonly string[];
  /** Does at most a few writes, each of which makes it be called again. */
  readonly reconcile: (key: string) => Promise<void>;
}

/** A controller: some time after an object has changed it is called for it, one call of an object at a time. */
export class Reconciler {
  readonly #world: World;
  readonly #what: Reconciling;
  readonly #due = new Map<string, { readonly timer: Timer; readonly atMs: number }>();
  readonly #calls = new Map<string, number>();
  #isOn = true;

  constructor(world: World, what: Reconciling) {
    this.#world = world;
    this.#what = what;
    world.cluster.etcd.listen((change) => {
      if (!this.#isOn) return;
      for (const key of what.keysOf(change)) this.mark(key);
    });
    const resync = world.clock.timer(RESYNC_MS, () => {
      resync.restart();
      if (this.#isOn) for (const key of what.all()) this.mark(key);
    });
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  /** Its process is gone: it forgets what it had to do, and hears of nothing. */
  stop(): void {
    this.#isOn = false;
    for (const { timer } of this.#due.values()) timer.cancel();
    this.#due.clear();
  }

  /** Begins with everything that there is. */
  start(): void {
    if (this.#isOn) return;
    this.#isOn = true;
    for (const key of this.#what.all()) this.mark(key);
  }

  /** Looks at an object soon, or so much later, ms; once, when it was to be looked at before that anyway. */
  mark(key: string, afterMs = 0): void {
    const { clock, faults } = this.#world;
    const known = this.#due.get(key);
    const soonest = clock.monotonicMs() + afterMs;
    if (known !== undefined && known.atMs <= soonest + SOON_MS_MAX) return;
    known?.timer.cancel();
    const calls = (this.#calls.get(key) ?? 0) + 1;
    this.#calls.set(key, calls);
    const place = `${this.#what.name} ${key} ${calls}`;
    const isLate = faults.decide(`${place} late`, LATE_PROBABILITY);
    const delayMs = afterMs + faults.number(place) * (isLate ? LATE_MS_MAX : SOON_MS_MAX);
    const timer = clock.timer(delayMs, () => {
      this.#due.delete(key);
      void this.#what.reconcile(key);
    });
    // A late one is not hurried by further changes.
    this.#due.set(key, { timer, atMs: isLate ? soonest : soonest - afterMs + delayMs });
  }
}
