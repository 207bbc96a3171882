import type { Refusal } from "../ipam/refusals.ts";
import type { AddressPoolView } from "../kube/views/address-pool-view.ts";
import { DefinitionCatalog, type NetworkNad } from "./definition-catalog.ts";
import { type BrokenNad, type NadReading, stays } from "./nad-reading.ts";
import type { CountingDefinition } from "./nad-verdict.ts";
import type { NadView } from "./nad-view.ts";
import type { NetworkOwner } from "./network-owner.ts";
import {
  definitionView,
  describeDefinition,
  namespaceOfDefinition,
  poolDefinitionKey,
  readPoolDefinition,
} from "./pool-definition.ts";

interface PoolEntry {
  readonly view: NadView;
  readonly network: string;
  readonly reading: Exclude<NadReading, { kind: "not-ours" }>;
  /** As of NetworkNad. */
  readonly joinedAt: number;
  readonly interruptions: number;
}

type OwnEntry = PoolEntry & { readonly reading: Extract<NadReading, { kind: "ours" }> };

/**
 * The catalog with the definitions that AddressPools give: where no NAD is in force, the oldest valid one defines the
 * network, in whichever namespace it is, because whoever may create pools may use any network. Daemons do not read
 * pools: nothing attaches through them. See docs/decisions/0037.
 */
export class DefinitionsWithPools extends DefinitionCatalog {
  /** By key of the pool; only pools that define a network. */
  readonly #entries = new Map<string, PoolEntry>();
  /** The oldest valid ones, by network. */
  readonly #oldest = new Map<string, OwnEntry>();
  #interruptions = 0;

  upsertPool(pool: AddressPoolView): void {
    const view = definitionView(pool);
    const known = this.#entries.get(pool.key);
    if (known !== undefined) this.removePool(pool.key);
    if (view === null) return;
    const { network } = pool;
    const unchanged = known?.view.config === view.config;
    const reading = unchanged ? known.reading : readPoolDefinition(network, view.config);
    const unbroken = known?.interruptions === this.#interruptions;
    const before = known && { nad: known.view, reading: known.reading };
    const joinedAt =
      known && before && stays(before, { nad: view, reading }, unbroken) ? known.joinedAt : view.generation;
    const entry = { view, network, reading, joinedAt, interruptions: this.#interruptions };
    this.#entries.set(pool.key, entry);
    if (isOurs(entry)) this.#oldest.set(network, older(this.#oldest.get(network) ?? entry, entry));
  }

  /** By `namespace/name`; unknown ones too. */
  removePool(poolKey: string): void {
    const known = this.#entries.get(poolKey);
    this.#entries.delete(poolKey);
    if (known === undefined || this.#oldest.get(known.network)?.view.key !== known.view.key) return;
    this.#oldest.delete(known.network);
    const others = [...this.#entries.values()].filter(isOurs).filter(({ network }) => network === known.network);
    if (others.length > 0) this.#oldest.set(known.network, others.reduce(older));
  }

  poolsInterrupted(): void {
    this.#interruptions += 1;
  }

  /** What a pool's `spec.definition` means, whether it is in force or not; null: it has none. */
  poolReading(poolKey: string): PoolEntry["reading"] | null {
    const entry = this.#entries.get(poolKey);
    if (entry === undefined || !isOurs(entry)) return entry?.reading ?? null;
    const { definition } = entry.reading;
    const found = this.reserving({ definition, by: entry.view.key, source: entry.view.config });
    return "code" in found
      ? { kind: "broken", network: entry.network, refusal: found }
      : { kind: "ours", definition: found.definition };
  }

  override definitionOf(network: string): CountingDefinition | null {
    return super.definitionOf(network) ?? this.#byPool(network);
  }

  override networks(): string[] {
    return [...new Set([...super.networks(), ...this.#oldest.keys()])].sort();
  }

  override ownerOf(network: string): NetworkOwner | null {
    const owner = super.ownerOf(network);
    if (owner !== null) return owner;
    const oldest = this.#oldest.get(network);
    return oldest === undefined ? null : { definedIn: oldest.view.namespace, sharedWith: [] };
  }

  override namespacesOf(network: string): string[] {
    const ofNads = super.namespacesOf(network);
    const oldest = this.#oldest.get(network);
    return ofNads.length > 0 || oldest === undefined || this.hasRecordedOwner(network)
      ? ofNads
      : [oldest.view.namespace];
  }

  /** The definition of a pool is one of them while it is in force: what is in use where it applies is imported too. */
  override nadsOf(network: string): NetworkNad[] {
    const oldest = super.definitionOf(network) === null ? this.#oldest.get(network) : undefined;
    if (oldest === undefined) return super.nadsOf(network);
    return [...super.nadsOf(network), { ...oldest.view, joinedAt: oldest.joinedAt }];
  }

  override broken(): ({ readonly key: string } & BrokenNad)[] {
    const ofPools = [...this.#entries].flatMap(([poolKey, { reading }]) =>
      reading.kind === "broken" ? [{ ...reading, key: poolDefinitionKey(poolKey) }] : [],
    );
    return [...super.broken(), ...ofPools];
  }

  /** The first invalid definition of a network by those who may define it, by name; null: there is none. */
  brokenOf(network: string): { readonly by: string; readonly refusal: Refusal } | null {
    const owner = this.ownerOf(network);
    const found = this.broken()
      .filter((one) => one.network === network)
      .filter(({ key }) => owner === null || namespaceOfDefinition(key) === owner.definedIn)
      .sort((a, b) => (a.key < b.key ? -1 : 1))[0];
    return found === undefined ? null : { by: describeDefinition(found.key), refusal: found.refusal };
  }

  #byPool(network: string): CountingDefinition | null {
    const entry = this.#oldest.get(network);
    if (entry === undefined) return null;
    const { view, reading } = entry;
    const found = this.reserving({ definition: reading.definition, by: view.key, source: view.config });
    return "code" in found ? null : found;
  }
}

function isOurs(entry: PoolEntry): entry is OwnEntry {
  return entry.reading.kind === "ours";
}

function older(a: OwnEntry, b: OwnEntry): OwnEntry {
  const [one, two] = [a, b].map(({ view }) => `${view.creationTimestamp} ${view.key}`) as [string, string];
  return one <= two ? a : b;
}
