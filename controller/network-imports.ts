import type { Cache } from "../claims/reasons/caches.ts";
import { importNetwork } from "../imports/import.ts";
import { ImportBackoff } from "../imports/import-backoff.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { networkObjectOf } from "../kube/network-object.ts";
import { HOUSEKEEPING_DEADLINE_MS } from "../kube/object-client.ts";
import type { IPNetwork } from "../kube/objects.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import {
  broughtUpToDate,
  isImported,
  type SeenSource,
  sourcesOf,
  uncovered,
} from "../networks/import-sources.ts";
import { recordOwner } from "../networks/record-owner.ts";
import type { Log } from "../platform/log.ts";

export interface NetworkImportsOptions {
  readonly api: KubeApi;
  readonly definitions: DefinitionCatalog;
  /** IPNetwork objects by name. */
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  /** Addresses that pods report but cannot have. */
  readonly onRefused: (count: number) => void;
  /** Why nothing may be written now; null: it may. */
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/** Imports networks, and definitions that join them later, with a backoff per namespace. No ADD waits for it. */
export class NetworkImports {
  readonly #options: NetworkImportsOptions;
  readonly #pace: ImportBackoff;

  constructor(options: NetworkImportsOptions) {
    this.#options = options;
    this.#pace = new ImportBackoff(options.api.clock);
  }

  /** The definitions must be known. */
  async runPass(signal: AbortSignal): Promise<void> {
    const { definitions, networks, idle, log } = this.#options;
    if (!networks.known) return;
    for (const network of definitions.networks()) {
      if (signal.aborted || idle() !== null) return;
      const known = networkObjectOf(network, (name) => networks.items.get(name)?.object);
      const sources = sourcesOf(definitions, network, null);
      const needed = this.#due(network, known, sources);
      const isStale = broughtUpToDate(known, sources) !== null && this.#pace.takeUpdate(network);
      if (needed.length === 0 && !isStale && definitions.hasRecordedOwner(network)) continue;
      try {
        await this.#recordOwner(network);
        await this.#import(network, needed);
      } catch (error) {
        // A failure concerns only its network; the others are imported and counted.
        log.warn({ network, err: error as Error }, "not imported yet; trying again");
      }
    }
  }

  #due(network: string, known: IPNetwork | null, sources: readonly SeenSource[]): SeenSource[] {
    const open = isImported(known, []) ? uncovered(known, sources) : sources;
    return open.filter((one) => this.#pace.waitMs(network, one) === 0);
  }

  /** The owner is determined first: the pods of a namespace that may not use the network bring no addresses. */
  async #recordOwner(network: string): Promise<void> {
    const { api, definitions, log } = this.#options;
    if (definitions.hasRecordedOwner(network)) return;
    const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
    definitions.setOwner(network, await recordOwner(api, network, { catalog: definitions, deadlineMs, log }));
  }

  async #import(network: string, needed: readonly SeenSource[]): Promise<void> {
    const { api, definitions, onRefused, log } = this.#options;
    const result = await importNetwork(api, network, { definitions, needed, log });
    if (result.kind !== "imported") return;
    this.#pace.imported(network, needed);
    onRefused(result.refused);
  }
}
