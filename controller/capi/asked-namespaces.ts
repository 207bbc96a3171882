import { isDeepStrictEqual } from "node:util";
import { type Found, type NamespaceFact, UNKNOWN } from "../../claims/reasons/facts.ts";
import { readNamespace } from "../../claims/reasons/fresh-facts.ts";
import type { KubeApi } from "../../kube/kube-api.ts";

/** One that is not asked for any more is forgotten after this time, ms: everything is judged in a third of it. */
const FORGOTTEN_MS = 1_800_000;

interface AskedNamespacesOptions {
  readonly api: KubeApi;
  readonly onAsked: () => void;
  readonly onChanged: (name: string) => void;
}

interface Asked {
  state: Found<NamespaceFact>;
  lastMs: number;
}

/** Of machines that are gone together with their Cluster. Read, not followed: hardly any is ever asked for. */
export class AskedNamespaces {
  readonly #options: AskedNamespacesOptions;
  readonly #asked = new Map<string, Asked>();

  constructor(options: AskedNamespacesOptions) {
    this.#options = options;
  }

  /** As it was read last; unknown until then. */
  of(name: string): Found<NamespaceFact> {
    const { api, onAsked } = this.#options;
    const lastMs = api.clock.monotonicMs();
    const known = this.#asked.get(name);
    if (known !== undefined) {
      known.lastMs = lastMs;
      return known.state;
    }
    this.#asked.set(name, { state: UNKNOWN, lastMs });
    onAsked();
    return UNKNOWN;
  }

  get isAsked(): boolean {
    return this.#asked.size > 0;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { api, onChanged } = this.#options;
    for (const [name, asked] of this.#asked) {
      if (signal.aborted) return;
      if (api.clock.monotonicMs() - asked.lastMs > FORGOTTEN_MS) {
        this.#asked.delete(name);
        continue;
      }
      const before = asked.state;
      asked.state = await readNamespace(api, name);
      if (!isDeepStrictEqual(asked.state, before)) onChanged(name);
    }
  }
}
