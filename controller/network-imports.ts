import type { Cache } from "../claims/reasons/caches.ts";
import { bringUpToDate, type ImportResult, type ImportTarget, importNetworks, tellStalled } from "../imports/import.ts";
import { ImportBackoff } from "../imports/import-backoff.ts";
import { RefusalError } from "../ipam/refusals.ts";
import { reasonOf } from "../kube/events.ts";
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
  wantedOf,
} from "../networks/import-sources.ts";
import { recordOwner } from "../networks/record-owner.ts";
import type { Log } from "../platform/log.ts";

export interface NetworkImportsOptions {
  readonly api: KubeApi;
  readonly definitions: DefinitionCatalog;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly onRefused: (count: number) => void;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/**
 * Imports networks, definitions that join them later, and configurations of nodes that daemons have asked for
 * (`status.importWanted`), all that are due in one pass. Nothing is allocated through them before.
 */
export class NetworkImports {
  readonly #options: NetworkImportsOptions;
  readonly #pace: ImportBackoff;
  #waits = false;

  constructor(options: NetworkImportsOptions) {
    this.#options = options;
    this.#pace = new ImportBackoff(options.api.clock);
  }

  /** Whether the last pass has left something to a later one: it failed, or a pause is not over. */
  get waits(): boolean {
    return this.#waits;
  }

  /** The definitions must be known. */
  async runPass(signal: AbortSignal): Promise<void> {
    const { networks, idle, log } = this.#options;
    if (!networks.known) return;
    this.#waits = false;
    const due: ImportTarget[] = [];
    for (const network of this.#networks()) {
      if (signal.aborted || idle() !== null) return;
      try {
        due.push(...(await this.#dueOf(network)));
      } catch (error) {
        // A failure concerns only its network; the others are imported and counted.
        this.#waits = true;
        log.warn({ network, err: error as Error }, "not imported yet; trying again");
      }
    }
    if (due.length > 0) await this.#import(due);
  }

  #networks(): Set<string> {
    const { definitions, networks } = this.#options;
    const wanting = [...networks.items.values()].filter(({ object }) => wantedOf(object).length > 0);
    return new Set([...definitions.networks(), ...wanting.map(({ object }) => object.spec.network)]);
  }

  /** What has to be imported of a network now; its owner, and what is covered, are brought up to date. */
  async #dueOf(network: string): Promise<ImportTarget[]> {
    const { api, definitions, networks } = this.#options;
    const known = networkObjectOf(network, (name) => networks.items.get(name)?.object);
    const sources = sourcesOf(definitions, network, null);
    const wanted = wantedOf(known);
    const needed = this.#due(network, known, sources);
    const isBehind = broughtUpToDate(known, sources) !== null;
    const isStale = isBehind && this.#pace.takeUpdate(network);
    if (isBehind && !isStale) this.#waits = true;
    if (needed.length === 0 && wanted.length === 0 && !isStale && definitions.hasRecordedOwner(network)) return [];
    await this.#recordOwner(network);
    if (isStale && known !== null) await bringUpToDate(api, known, sources);
    const ofNodes = wanted.map((nodes) => ({ network, nodes }));
    return needed.length === 0 ? ofNodes : [{ network, needed }, ...ofNodes];
  }

  #due(network: string, known: IPNetwork | null, sources: readonly SeenSource[]): SeenSource[] {
    const open = isImported(known, []) ? uncovered(known, sources) : sources;
    const due = open.filter((one) => this.#pace.waitMs(network, one) === 0);
    if (due.length < open.length) this.#waits = true;
    // The one that counts says which addresses there are: nothing is given before it is imported.
    return [...new Set([...due, ...open.filter((one) => this.#counts(network, one))])];
  }

  #counts(network: string, source: SeenSource): boolean {
    return "definition" in source && this.#options.definitions.definitionOf(network)?.by === source.definition;
  }

  /** The owner is determined first: the pods of a namespace that may not use the network bring no addresses. */
  async #recordOwner(network: string): Promise<void> {
    const { api, definitions, log } = this.#options;
    if (definitions.hasRecordedOwner(network)) return;
    const deadlineMs = api.clock.monotonicMs() + HOUSEKEEPING_DEADLINE_MS;
    definitions.setOwner(network, await recordOwner(api, network, { catalog: definitions, deadlineMs, log }));
  }

  async #import(due: readonly ImportTarget[]): Promise<void> {
    const { api, definitions, onRefused, log } = this.#options;
    let results: ImportResult[];
    try {
      results = await importNetworks(api, due, { definitions, log });
    } catch (error) {
      results = due.map(() => ({ kind: "failed", error: error as Error }));
    }
    for (const [index, { network, needed = [] }] of due.entries()) {
      const result = results[index];
      if (result?.kind === "failed") await this.#failed(network, result.error);
      if (result?.kind !== "imported") {
        this.#waits = true;
        continue;
      }
      this.#pace.imported(
        network,
        needed.filter((one) => !this.#counts(network, one)),
      );
      onRefused(result.refused);
    }
  }

  async #failed(network: string, error: Error): Promise<void> {
    const { api, log } = this.#options;
    log.warn({ network, err: error }, "not imported yet; trying again");
    if (!(error instanceof RefusalError)) return;
    const { message, hint } = error.refusal;
    try {
      await tellStalled(api, network, {
        reason: reasonOf(error.refusal.code),
        message: `${message}; ${hint}`,
      });
    } catch (error) {
      log.warn({ network, err: error as Error }, "why it is not imported is not written down yet");
    }
  }
}
