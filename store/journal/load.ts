import { fill, type NetworkSpace, poolOf, type StoredAddress } from "../../allocations/network-space.ts";
import { parsePassed } from "../../ipam/definition/definition-keys.ts";
import { parseNadConfig } from "../../ipam/definition/nad-config.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { nextTurn } from "../../platform/time.ts";
import type { Ledger } from "./ledger.ts";
import type { DefinitionRow } from "./rows.ts";

/** Builds every network's pools from the rows, page by page; other work runs in between. */
export async function loadNetworks(ledger: Ledger, report: (message: string) => void): Promise<void> {
  for (const space of ledger.networks.values()) {
    try {
      const { definition, appliedBy } = readDefinition(ledger, space.name);
      space.definition = definition;
      space.appliedBy = appliedBy;
    } catch (error) {
      report(`network ${space.name}: its recorded definition is not understood any more: ${(error as Error).message}`);
    }
    await loadPools(ledger, space, space.definition);
  }
}

async function loadPools(ledger: Ledger, space: NetworkSpace, definition: NetworkDefinition | null): Promise<void> {
  const { clock } = ledger.context;
  const loader = new PoolLoader(definition, clock.monotonicMs());
  space.boundCount = 0;
  for (const page of ledger.storedPages(space.id)) {
    for (const stored of page) {
      if (!stored.cooling) space.boundCount += 1;
      loader.add(stored);
    }
    await nextTurn(clock);
  }
  if (definition !== null) space.adopt(definition, loader.finish());
}

/** Fills pools. The newest allocation of each goes in last: the search continues behind it as before the restart. */
class PoolLoader {
  readonly #pools: readonly Pool[];
  readonly #definition: NetworkDefinition | null;
  readonly #nowMs: number;
  readonly #newest = new Map<Pool, StoredAddress & { sinceMs: number }>();

  constructor(definition: NetworkDefinition | null, nowMs: number) {
    this.#pools = definition?.rangeSets.map((rangeSet) => new Pool(rangeSet)) ?? [];
    this.#definition = definition;
    this.#nowMs = nowMs;
  }

  add(stored: StoredAddress & { sinceMs: number }): void {
    const pool = poolOf(this.#pools, stored.address);
    if (!pool) return;
    const newest = this.#newest.get(pool);
    if (stored.cooling || stored.retained || (newest && newest.sinceMs > stored.sinceMs)) {
      fill([pool], stored, this.#definition, this.#nowMs);
      return;
    }
    if (newest) fill([pool], newest, this.#definition, this.#nowMs);
    this.#newest.set(pool, stored);
  }

  finish(): readonly Pool[] {
    for (const [pool, newest] of this.#newest) pool.allocate(newest.address.value, { moveCursor: true });
    return this.#pools;
  }
}

/** The definition of a network in the store: its oldest applied manifest, else the runtime's last configuration. */
export function readDefinition(
  ledger: Ledger,
  network: string,
): { definition: NetworkDefinition | null; appliedBy: string | null } {
  const row = ledger.sql.networks.all().find(({ name }) => name === network);
  const onNode = (definition: NetworkDefinition) =>
    row?.bridge_is_gateway === 1 ? ledger.bridgeGateways.of(definition) : definition;
  const [oldest] = ledger.sql.definitionsOf.all(network);
  if (oldest) {
    return {
      definition: onNode(recordedDefinitionIn(oldest)),
      appliedBy: `${oldest.namespace}/${oldest.name}`,
    };
  }
  const runtime = row?.runtime_config ?? null;
  if (runtime === null) return { definition: null, appliedBy: null };
  return { definition: onNode(parsePluginConfig(parsePassed(runtime))), appliedBy: null };
}

/** The definition in force of every network, where it comes from, and the configuration that it was read from. */
export function definitionSources(
  ledger: Ledger,
): { readonly definition: NetworkDefinition; readonly by: string; readonly source: string }[] {
  return ledger.sql.networks.all().flatMap(({ name, runtime_config: runtime }) => {
    const { definition = null, appliedBy = null } = ledger.networks.get(name) ?? {};
    if (definition === null) return [];
    const source = appliedBy === null ? runtime : (ledger.sql.definitionsOf.all(name)[0]?.config ?? null);
    return source === null ? [] : [{ definition, by: appliedBy ?? "runtime configuration", source }];
  });
}

export function recordedDefinitionIn(row: DefinitionRow): NetworkDefinition {
  return parseNadConfig(row.config, row.name).definition;
}
