import { type Found, type NamespaceFact, UNKNOWN } from "../../claims/reasons/facts.ts";
import { readNamespace } from "../../claims/reasons/fresh-facts.ts";
import type { KubeApi } from "../../kube/kube-api.ts";

/** One that is not asked for any more is forgotten after this time, ms: longer than any sweep takes. */
const FORGOTTEN_MS = 600_000;

interface Asked {
  state: Found<NamespaceFact>;
  lastMs: number;
}

/**
 * Namespaces that the sweep asks about: of machines that are gone together with their Cluster. They are read, not
 * followed: hardly any is ever asked for.
 */
export class AskedNamespaces {
  readonly #api: KubeApi;
  /** Called when one is asked for the first time. */
  readonly #onAsked: () => void;
  readonly #asked = new Map<string, Asked>();

  constructor(api: KubeApi, onAsked: () => void) {
    this.#api = api;
    this.#onAsked = onAsked;
  }

  /** As it was read last; unknown until then. */
  of(name: string): Found<NamespaceFact> {
    const lastMs = this.#api.clock.monotonicMs();
    const known = this.#asked.get(name);
    if (known !== undefined) {
      known.lastMs = lastMs;
      return known.state;
    }
    this.#asked.set(name, { state: UNKNOWN, lastMs });
    this.#onAsked();
    return UNKNOWN;
  }

  /** Reads every one that is asked for; not concurrently. */
  async runPass(signal: AbortSignal): Promise<void> {
    for (const [name, asked] of this.#asked) {
      if (signal.aborted) return;
      const isOver = this.#api.clock.monotonicMs() - asked.lastMs > FORGOTTEN_MS;
      if (isOver) this.#asked.delete(name);
      else asked.state = await readNamespace(this.#api, name);
    }
  }
}
