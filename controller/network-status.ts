import type { Cache, CachedAllocation } from "../claims/reasons/caches.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { nameTakenBy, networkObjectOf, writeNetworkObject } from "../kube/network-object.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { networkObjectName } from "../kube/object-names.ts";
import type { IPNetwork } from "../kube/objects.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import { nodeDefinitionsOf } from "../networks/import-sources.ts";
import type { CountingDefinition } from "../networks/nad-verdict.ts";
import type { Log } from "../platform/log.ts";
import { countNetwork, type NetworkCounts } from "./network-counts.ts";

export interface NetworkStatusOptions {
  readonly api: KubeApi;
  readonly definitions: Pick<DefinitionCatalog, "networks" | "definitionOf">;
  readonly allocations: Cache<CachedAllocation>;
  /** IPNetwork objects by name. */
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "warn">;
}

/** Keeps the IPNetwork of every network that is ours: what `kubectl get ipnetworks` shows. */
export class NetworkStatus {
  readonly #options: NetworkStatusOptions;
  /** Networks whose allocations changed since they were counted. */
  readonly #changed = new Set<string>();
  readonly #counted = new Map<string, { readonly fingerprint: string; readonly counts: NetworkCounts }>();

  constructor(options: NetworkStatusOptions) {
    this.#options = options;
  }

  /** By network, as counted last. */
  get counts(): ReadonlyMap<string, { readonly counts: NetworkCounts }> {
    return this.#counted;
  }

  /** An allocation of the network was added, changed or deleted. */
  touch(network: string): void {
    this.#changed.add(network);
  }

  /** Counts what has changed and writes differences; not concurrently. `writes`: false only counts. Throws ApiAway. */
  async runPass(signal: AbortSignal, { writes }: { readonly writes: boolean }): Promise<void> {
    const { definitions, allocations, networks, idle } = this.#options;
    if (!allocations.known) return;
    // Without a definition in its owner's namespace a network has no size: orphan-networks shows it.
    const defined = definitions.networks().filter((network) => definitions.definitionOf(network) !== null);
    const ours = new Set([...defined, ...this.#nodeNetworks().keys()]);
    for (const network of this.#counted.keys()) if (!ours.has(network)) this.#counted.delete(network);
    await this.#count(ours);
    for (const [network, { counts }] of this.#counted) {
      if (!writes || !networks.known || signal.aborted || idle() !== null) return;
      await this.#write(network, counts);
    }
  }

  /** Networks that only the nodes' own configuration defines, everywhere alike. */
  #nodeNetworks(): Map<string, CountingDefinition> {
    const { networks, definitions } = this.#options;
    const found = new Map<string, CountingDefinition>();
    for (const { object } of networks.items.values()) {
      const [definition, ...others] = nodeDefinitionsOf(object);
      if (definition === undefined || others.length > 0) continue;
      if (definitions.definitionOf(object.spec.network) !== null) continue;
      found.set(object.spec.network, { definition, by: "", source: "" });
    }
    return found;
  }

  async #count(ours: ReadonlySet<string>): Promise<void> {
    const { api, allocations } = this.#options;
    const byNodes = this.#nodeNetworks();
    const definitionOf = (network: string) =>
      this.#options.definitions.definitionOf(network) ?? byNodes.get(network) ?? null;
    const stale = new Map<string, CachedAllocation[]>();
    for (const network of ours) {
      const identity = identityOf(definitionOf(network));
      if (this.#changed.has(network) || this.#counted.get(network)?.fingerprint !== identity)
        stale.set(network, []);
    }
    if (stale.size === 0) return;
    this.#changed.clear();
    for (const one of allocations.items.values()) stale.get(one.object.spec?.network)?.push(one);
    for (const [network, members] of stale) {
      const counting = definitionOf(network);
      if (counting === null) continue;
      const counts = await countNetwork(counting, members, api.clock);
      this.#counted.set(network, { fingerprint: identityOf(counting), counts });
    }
  }

  async #write(network: string, counts: NetworkCounts): Promise<void> {
    const { api, networks, log } = this.#options;
    const byName = (name: string) => networks.items.get(name)?.object;
    const known = networkObjectOf(network, byName);
    if (known === null && nameTakenBy(network, byName) !== null) {
      log.warn(
        { network, object: networkObjectName(network) },
        "this IPNetwork is of another network; delete it",
      );
      return;
    }
    const status = summaryOf(counts);
    const present = known?.status as Record<string, unknown> | undefined;
    if (Object.entries(status).every(([key, value]) => present?.[key] === value)) return;
    const written = await writeNetworkObject(new ObjectClient(api), network, known, { status });
    // Otherwise another writer changed or deleted it: the next pass sees which.
    if (written.kind !== "refused") return;
    const { status: code, body } = written.answer;
    log.warn({ network, status: code, problem: body?.message }, "IPNetwork not written");
  }
}

/** Decimal strings: the numbers of an IPv6 network fit no integer. */
function summaryOf(counts: NetworkCounts): Record<string, string> {
  const { subnets, definedBy, size, allocated, retained, cooling, free } = counts;
  return {
    subnets,
    definedBy,
    size: `${size}`,
    allocated: `${allocated}`,
    retained: `${retained}`,
    cooling: `${cooling}`,
    free: `${free}`,
  };
}

function identityOf(counting: ReturnType<DefinitionCatalog["definitionOf"]>): string {
  return counting === null ? "" : `${counting.by} ${counting.definition.fingerprint}`;
}
