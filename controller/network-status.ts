import type { UsedSpaces } from "../allocations/used-spaces.ts";
import type { Cache, CachedAllocation } from "../claims/reasons/caches.ts";
import { formatCidr } from "../ipam/space/cidr.ts";
import { IntervalSet } from "../ipam/space/interval-set.ts";
import type { RangeSet } from "../ipam/space/range-set.ts";
import type { UsedSpace } from "../ipam/space/used-space.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { nameTakenBy, networkObjectOf, writeNetworkObject } from "../kube/network-object.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { networkObjectName } from "../kube/object-names.ts";
import type { IPNetwork, PublishedSpaceFields } from "../kube/objects.ts";
import { TurnBudget } from "../kube/turn-budget.ts";
import { type PublishedSpace, publishedFields } from "../kube/views/published-space.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import { nodeDefinitionsOf } from "../networks/import-sources.ts";
import type { CountingDefinition } from "../networks/nad-verdict.ts";
import type { Log } from "../platform/log.ts";
import { isoTimeMs, parseTime } from "../platform/time.ts";

/** A network that nodes search often, because more than half of it is taken, is published at most so often, ms. */
const DENSE_INTERVAL_MS = 1_000;
/** Any other. */
const SPARSE_INTERVAL_MS = 3_000;
/** A full network is published again after so long, ms: nodes refuse by a picture that was true a moment ago. */
const FULL_INTERVAL_MS = 10_000;
/** Characters of what is published; a network that needs more is so large that nodes find free addresses by chance. */
const PUBLISHED_CHARS_MAX = 64_000;
/** Reservations of claims that are published with the claim. */
const UNLISTED_MAX = 100;

export interface NetworkStatusOptions {
  readonly api: KubeApi;
  readonly definitions: Pick<DefinitionCatalog, "networks" | "definitionOf">;
  readonly allocations: Pick<Cache<CachedAllocation>, "known">;
  readonly usedSpaces: UsedSpaces;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly serverMs: () => number;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "warn">;
}

/** A network in its IPNetwork and the metrics. `size` is the sum of allocated, retained, cooling, free and excluded. */
export interface NetworkCounts {
  readonly subnets: string;
  /** `namespace/name` of the NAD, or `AddressPool namespace/name`. */
  readonly definedBy: string;
  readonly size: bigint;
  readonly allocated: bigint;
  readonly retained: bigint;
  readonly cooling: bigint;
  readonly free: bigint;
  /** A range has no free address. */
  readonly isFull: boolean;
  /** Allocated addresses of claims without attachments: of stopped VMs. */
  readonly idleCount: number;
}

interface Counted {
  /** Of the definition and the allocations that it was counted from. */
  readonly identity: string;
  readonly counts: NetworkCounts;
  readonly published: Omit<PublishedSpaceFields, "observed"> | null;
  readonly observedMs: number;
}

/**
 * Keeps the IPNetwork of every network that is ours: what `kubectl get ipnetworks` shows, and which addresses are
 * taken, from which nodes choose free ones. See docs/decisions/0073.
 */
export class NetworkStatus {
  readonly #options: NetworkStatusOptions;
  readonly #counted = new Map<string, Counted>();
  /** When a network was written last, ms of the monotonic clock. */
  readonly #writtenMs = new Map<string, number>();
  /** The installed definition has no `usedSpace`: each write would be followed by another one. */
  #isDropped = false;
  #nextMs = Number.POSITIVE_INFINITY;

  constructor(options: NetworkStatusOptions) {
    this.#options = options;
  }

  /** By network, as counted last. */
  get counts(): ReadonlyMap<string, { readonly counts: NetworkCounts }> {
    return this.#counted;
  }

  /** When the first network is to be written again, ms of the clock, where nothing changes until then. */
  get nextMs(): number {
    return this.#nextMs;
  }

  /** Counts what has changed and writes differences; not concurrently. `writes`: false only counts. Throws ApiAway. */
  async runPass(signal: AbortSignal, { writes }: { readonly writes: boolean }): Promise<void> {
    const { definitions, allocations, networks, idle } = this.#options;
    this.#nextMs = Number.POSITIVE_INFINITY;
    if (!allocations.known) return;
    // Without a definition in its owner's namespace a network has no size: orphan-networks shows it.
    const defined = definitions.networks().filter((network) => definitions.definitionOf(network) !== null);
    const ours = new Set([...defined, ...this.#nodeNetworks().keys()]);
    for (const network of this.#counted.keys()) {
      if (ours.has(network)) continue;
      this.#counted.delete(network);
      this.#writtenMs.delete(network);
    }
    await this.#count(ours);
    for (const [network, counted] of this.#counted) {
      if (!writes || !networks.known || signal.aborted || idle() !== null) return;
      await this.#write(network, counted);
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
    const { api, usedSpaces, serverMs } = this.#options;
    const byNodes = this.#nodeNetworks();
    const budget = new TurnBudget(api.clock);
    for (const network of ours) {
      const counting = this.#options.definitions.definitionOf(network) ?? byNodes.get(network) ?? null;
      if (counting === null) continue;
      const unlisted = new Map([...usedSpaces.unlisted(network)].slice(0, UNLISTED_MAX));
      const revision = [usedSpaces.revisionOf(network), ...unlisted.keys()].join(" ");
      const identity = `${counting.by} ${counting.definition.fingerprint} ${revision}`;
      const known = this.#counted.get(network);
      const observedMs = serverMs();
      if (known?.identity === identity) {
        this.#counted.set(network, { ...known, observedMs });
        continue;
      }
      const space = usedSpaces.of(network);
      const counts = countNetwork(counting, space, usedSpaces.idleCount(network));
      const published = publishedOf({ ...space, version: usedSpaces.version, unlisted });
      this.#counted.set(network, { identity, counts, published, observedMs });
      if (budget.isSpent) await budget.nextTurn();
    }
  }

  async #write(network: string, counted: Counted): Promise<void> {
    const { api, networks, log } = this.#options;
    const byName = (name: string) => networks.items.get(name)?.object;
    const known = networkObjectOf(network, byName);
    if (known === null && nameTakenBy(network, byName) !== null) {
      log.warn({ network, object: networkObjectName(network) }, "this IPNetwork is of another network; delete it");
      return;
    }
    const nowMs = api.clock.monotonicMs();
    const due = this.#isDropped ? { ...counted, published: null } : counted;
    const waitMs = dueInMs(due, known, nowMs - (this.#writtenMs.get(network) ?? Number.NEGATIVE_INFINITY));
    // One that is written is looked at again: it was in vain if somebody else had changed the object.
    this.#nextMs = Math.min(this.#nextMs, nowMs + (waitMs > 0 ? waitMs : intervalMsOf(counted.counts)));
    if (waitMs > 0) return;
    const { counts, published, observedMs } = counted;
    const usedSpace = published && { observed: isoTimeMs(observedMs), ...published };
    const status = {
      ...summaryOf(counts),
      ...(usedSpace === null && known === null ? {} : { usedSpace }),
    };
    this.#writtenMs.set(network, nowMs);
    const written = await writeNetworkObject(new ObjectClient(api), network, known, { status });
    if (written.kind === "done") this.#isDropped = usedSpace !== null && !written.object.status?.usedSpace;
    // Otherwise another writer changed or deleted it: the next pass sees which.
    if (written.kind !== "refused") return;
    const { status: code, body } = written.answer;
    log.warn({ network, status: code, problem: body?.message }, "IPNetwork not written");
  }
}

/** In what time a network is to be written, ms; 0: now. `sinceMs`: since it was last; the copy of it may lag behind. */
function dueInMs({ counts, published, observedMs }: Counted, known: IPNetwork | null, sinceMs: number): number {
  const againMs = Math.max(0, intervalMsOf(counts) - sinceMs);
  const present = known?.status as Record<string, unknown> | undefined;
  if (Object.entries(summaryOf(counts)).some(([key, value]) => present?.[key] !== value)) return againMs;
  const before = known?.status?.usedSpace;
  if (published === null) return before == null ? Number.POSITIVE_INFINITY : againMs;
  if (!before || !isSameSpace(before, published)) return againMs;
  if (!counts.isFull) return Number.POSITIVE_INFINITY;
  return Math.max(againMs, parseTime(before.observed) + FULL_INTERVAL_MS - observedMs);
}

/** From one write of a network to the next, ms. */
function intervalMsOf({ free, size }: NetworkCounts): number {
  return 2n * free < size ? DENSE_INTERVAL_MS : SPARSE_INTERVAL_MS;
}

/** null: it is too much for an object. */
function publishedOf(space: Omit<PublishedSpace, "observedMs">): Counted["published"] {
  const fields = publishedFields(space);
  return JSON.stringify(fields).length > PUBLISHED_CHARS_MAX ? null : fields;
}

/** The version alone changes with every allocation of the cluster. */
function isSameSpace(before: PublishedSpaceFields, { version: _, ...after }: object & { version: string }): boolean {
  return Object.entries(after).every(
    ([key, texts]) => JSON.stringify(before[key as keyof PublishedSpaceFields]) === JSON.stringify(texts),
  );
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

/** Counts one network, in time that follows the runs of its addresses. */
export function countNetwork(
  { definition, by }: CountingDefinition,
  space: UsedSpace,
  idleCount: number,
): NetworkCounts {
  const counts = definition.rangeSets.map((rangeSet) => countRangeSet(rangeSet, space));
  const sum = (key: "size" | "allocated" | "retained" | "cooling" | "free") =>
    counts.reduce((total, one) => total + one[key], 0n);
  return {
    subnets: definition.rangeSets.flatMap(({ subnets }) => subnets.map(({ cidr }) => formatCidr(cidr))).join(","),
    definedBy: by,
    size: sum("size"),
    allocated: sum("allocated"),
    retained: sum("retained"),
    cooling: sum("cooling"),
    free: sum("free"),
    isFull: counts.some(({ free }) => free === 0n),
    idleCount,
  };
}

/** Counted as cooling for as long as its object says so. */
function countRangeSet({ family, extent, automatic, size }: RangeSet, space: UsedSpace) {
  const cooling = IntervalSet.from(
    space.cooling.filter((one) => one.family === family).map(({ value }) => ({ first: value, last: value })),
  );
  const used = space.used[family];
  const retained = space.retained[family].intersect(extent).size;
  return {
    size,
    allocated: used.intersect(extent).size - retained,
    retained,
    cooling: cooling.intersect(extent).size,
    free: automatic.subtract(used.union(cooling)).size,
  };
}
