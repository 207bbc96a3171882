import { type Found, type NamespaceFact, UNKNOWN } from "../../claims/reasons/facts.ts";
import { readNamespace } from "../../claims/reasons/fresh-machine-facts.ts";
import type { KubeApi } from "../../kube/kube-api.ts";

/**
 * Namespaces that the sweep asks about: of machines that are gone together with their Cluster. They are read, not
 * followed: hardly any is ever asked for.
 */
export class AskedNamespaces {
  readonly #api: KubeApi;
  /** Called when one is asked for that was not read yet. */
  readonly #onUnknown: () => void;
  readonly #known = new Map<string, Found<NamespaceFact>>();
  #asked = new Set<string>();

  constructor(api: KubeApi, onUnknown: () => void) {
    this.#api = api;
    this.#onUnknown = onUnknown;
  }

  /** As it was read last; unknown until then. */
  of(name: string): Found<NamespaceFact> {
    const known = this.#known.get(name);
    if (known === undefined && !this.#asked.has(name)) this.#onUnknown();
    this.#asked.add(name);
    return known ?? UNKNOWN;
  }

  /** Reads what was asked for since the last pass, and forgets the others; not concurrently. */
  async runPass(signal: AbortSignal): Promise<void> {
    const asked = this.#asked;
    this.#asked = new Set();
    for (const name of this.#known.keys()) if (!asked.has(name)) this.#known.delete(name);
    for (const name of asked) {
      if (signal.aborted) return;
      this.#known.set(name, await readNamespace(this.#api, name));
    }
  }
}
