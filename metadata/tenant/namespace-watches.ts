import { interval, type Timer } from "../../platform/time.ts";
import { NamespaceWatch, type NamespaceWatchOptions } from "./namespace-watch.ts";

/** A namespace that nobody asked about for so long, ms, is watched no more: guests that poll do so more often. */
const IDLE_MS_MAX = 30 * 60_000;
const LOOK_MS = 60_000;

export interface NamespaceWatchesOptions extends NamespaceWatchOptions {
  /** Default 30 min. */
  readonly idleMsMax?: number;
}

/** The namespaces in use on this node: watched from the first request of one of their VMs on. */
export class NamespaceWatches {
  readonly #options: NamespaceWatchesOptions;
  readonly #idleMsMax: number;
  readonly #watches = new Map<string, { readonly watch: NamespaceWatch; usedMs: number }>();
  #timer: Timer | null = null;
  #stopped = false;

  constructor(options: NamespaceWatchesOptions) {
    this.#options = options;
    this.#idleMsMax = options.idleMsMax ?? IDLE_MS_MAX;
  }

  /** How many are watched. */
  get size(): number {
    return this.#watches.size;
  }

  /** The namespace's watch, when it knows what there is. Throws ApiAway when that takes too long. */
  async use(namespace: string): Promise<NamespaceWatch> {
    if (this.#stopped) throw new Error("the watches have been stopped");
    const { clock } = this.#options.api;
    const usedMs = clock.monotonicMs();
    let one = this.#watches.get(namespace);
    if (one === undefined) {
      one = { watch: new NamespaceWatch(namespace, this.#options), usedMs };
      this.#watches.set(namespace, one);
      one.watch.start();
      this.#timer ??= interval(clock, Math.min(LOOK_MS, this.#idleMsMax), () => this.#stopIdle()).unref();
    }
    one.usedMs = usedMs;
    await one.watch.ready();
    return one.watch;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    const all = [...this.#watches.values()];
    this.#watches.clear();
    await Promise.all(all.map(({ watch }) => watch.stop()));
  }

  #stopIdle(): void {
    const nowMs = this.#options.api.clock.monotonicMs();
    for (const [namespace, { watch, usedMs }] of [...this.#watches]) {
      if (nowMs - usedMs < this.#idleMsMax) continue;
      this.#watches.delete(namespace);
      void watch.stop();
    }
  }
}
