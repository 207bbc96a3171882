import type { Cache, CachedAllocation } from "../claims/reasons/caches.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { writeNetworkObject } from "../kube/network-object.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { ADDRESS_POOLS_PATH, type IPNetwork, NETWORKS_PATH, objectPath } from "../kube/objects.ts";
import { type AddressPoolView, projectAddressPool } from "../kube/views/address-pool-view.ts";
import { MalformedObjectError } from "../kube/views/object-metadata.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import { isImported, nodeDefinitionsOf } from "../networks/import-sources.ts";
import { listDefinitions } from "../networks/listed-definitions.ts";
import { isAdministratorsWord } from "../networks/network-owner.ts";
import { namespaceOfDefinition } from "../networks/pool-definition.ts";
import type { Log } from "../platform/log.ts";
import { countAllocations, isOf, isUnderWay, warnRefused } from "./protection/network-protection.ts";

export interface OrphanNetworksOptions {
  readonly api: KubeApi;
  readonly definitions: Pick<DefinitionCatalog, "networks" | "definitionOf" | "broken">;
  readonly allocations: Cache<CachedAllocation>;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly pools: Cache<Pick<AddressPoolView, "network">> & { readonly missing: boolean };
  /** How long a network must have had neither a definition nor an address. */
  readonly keepSeconds: number;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info" | "warn">;
}

/** Networks that invalid NetworkAttachmentDefinitions, which define nothing until they are corrected, may be for. */
interface WrongDefinitions {
  readonly networks: ReadonlySet<string>;
  /** Namespaces of those that name no network. */
  readonly namespaces: ReadonlySet<string>;
}

interface Counts {
  allocated: number;
  retained: number;
  cooling: number;
}

const NONE: Readonly<Counts> = { allocated: 0, retained: 0, cooling: 0 };

/**
 * IPNetworks that no NetworkAttachmentDefinition of their owner defines: they show how many addresses are left, and are
 * deleted when there are none (network-protection then lets them go). One whose owner an administrator has set is the
 * administrator's to delete, and one that an AddressPool or another namespace's definition names, or that the nodes'
 * own configuration defines, may be needed at any time: they stay. So does one with an invalid definition: its owner is
 * expected to correct it, and the IPNetwork keeps the owner of the name.
 */
export class OrphanNetworks {
  readonly #options: OrphanNetworksOptions;
  readonly #objects: ObjectClient;
  /** Since when a network has been seen empty, by the UID of its object, ms. */
  #emptyMs = new Map<string, number>();

  constructor(options: OrphanNetworksOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** When the first of the empty ones goes, ms of the clock. */
  get nextMs(): number {
    return Math.min(...this.#emptyMs.values()) + this.#options.keepSeconds * 1_000;
  }

  /** The definitions must be known. Throws ApiAway. */
  async runPass(signal: AbortSignal): Promise<void> {
    const { api, networks, allocations, pools, definitions, idle, keepSeconds } = this.#options;
    if (!networks.known || !allocations.known || !(pools.known || pools.missing) || idle() !== null) return;
    const named = new Set([...pools.items.values()].map(({ network }) => network));
    // By namespaces that do not own it perhaps: the owner may define it again, or it is theirs one day.
    const asked = new Set(definitions.networks());
    // What exactly one configuration of nodes defines is counted like networks of a NetworkAttachmentDefinition.
    const orphans = [...networks.items.values()]
      .map(({ object }) => object)
      .filter(({ spec }) => definitions.definitionOf(spec?.network) === null)
      .filter((object) => nodeDefinitionsOf(object).length !== 1);
    const counts = orphans.length === 0 ? new Map<string, Counts>() : countAll(allocations.items.values());
    const wrong = wrongDefinitions(definitions.broken());
    const empty = new Map<string, number>();
    for (const object of orphans) {
      if (signal.aborted || idle() !== null) return;
      const held = counts.get(object.spec?.network) ?? NONE;
      const { network } = object.spec ?? {};
      const isNeeded = named.has(network) || asked.has(network) || nodeDefinitionsOf(object).length > 0;
      const isHeld = held.allocated + held.retained + held.cooling > 0;
      if (isHeld || isNeeded || !mayGo(object) || mayBeDefined(object, wrong)) {
        await this.#show(object, held);
        continue;
      }
      const nowMs = api.clock.monotonicMs();
      const sinceMs = this.#emptyMs.get(object.metadata.uid) ?? nowMs;
      empty.set(object.metadata.uid, sinceMs);
      if (nowMs - sinceMs >= keepSeconds * 1_000) await this.#delete(object);
      else await this.#show(object, NONE);
    }
    this.#emptyMs = empty;
  }

  /** The size would be that of a deleted definition. */
  async #show(network: IPNetwork, { allocated, retained, cooling }: Readonly<Counts>): Promise<void> {
    const { metadata, spec, status } = network;
    const wanted = {
      allocated: `${allocated}`,
      retained: `${retained}`,
      cooling: `${cooling}`,
      ...Object.fromEntries(
        (["size", "free", "subnets", "definedBy"] as const).flatMap((key) =>
          status?.[key] === undefined ? [] : [[key, null]],
        ),
      ),
    };
    const shown: Readonly<Record<string, unknown>> = { ...status };
    if (Object.entries(wanted).every(([key, value]) => shown[key] === value)) return;
    const written = await writeNetworkObject(this.#objects, spec.network, network, { status: wanted });
    warnRefused(this.#options.log, metadata.name, written);
  }

  async #delete(object: IPNetwork): Promise<void> {
    if (!(await this.#isUnused(object))) return;
    const { metadata, spec } = object;
    const { name, uid, resourceVersion } = metadata;
    const written = await this.#objects.delete(objectPath(NETWORKS_PATH, name), { uid, resourceVersion });
    warnRefused(this.#options.log, name, written);
    if (written.kind === "done")
      this.#options.log.info({ network: spec.network }, "nothing defines or uses the network any more");
  }

  /**
   * By quorum reads: no allocation of any state, no AddressPool, and no NAD that defines the network or may be for it.
   */
  async #isUnused(network: IPNetwork): Promise<boolean> {
    const { api } = this.#options;
    const name = network.spec.network;
    if ((await countAllocations(api, name, isOf)) > 0) return false;
    const { catalog, unreadable } = await listDefinitions(api);
    if (catalog.networks().includes(name) || (await this.#isNamedByPool(name))) return false;
    const { networks, namespaces } = wrongDefinitions(catalog.broken());
    return !mayBeDefined(network, { networks, namespaces: new Set([...namespaces, ...unreadable]) });
  }

  /** Also by one that cannot be read. Throws ApiAway. */
  async #isNamedByPool(network: string): Promise<boolean> {
    const named = new Set<string | null>();
    await this.#options.api.list({
      path: ADDRESS_POOLS_PATH,
      each: (object) => named.add(poolNetwork(object)),
      restarted: () => named.clear(),
    });
    return named.has(network) || named.has(null);
  }
}

/** It was in use once, nothing is under way on it, no administrator has set its owner, and nobody has deleted it. */
function mayGo(object: IPNetwork): boolean {
  const isDeleted = object.metadata.deletionTimestamp !== undefined;
  return !isDeleted && isImported(object, []) && !isUnderWay(object) && !isAdministratorsWord(object);
}

function wrongDefinitions(broken: ReturnType<DefinitionCatalog["broken"]>): WrongDefinitions {
  const networks = new Set<string>();
  const namespaces = new Set<string>();
  for (const { key, network } of broken) {
    if (network === null) namespaces.add(namespaceOfDefinition(key));
    else networks.add(network);
  }
  return { networks, namespaces };
}

/**
 * An invalid definition that names no network may be for any network of its namespace; without a known owner, for any
 * network.
 */
function mayBeDefined({ spec }: IPNetwork, { networks, namespaces }: WrongDefinitions): boolean {
  if (networks.has(spec.network)) return true;
  return spec.definedIn === undefined ? namespaces.size > 0 : namespaces.has(spec.definedIn);
}

/** null: the object is malformed. */
function poolNetwork(object: unknown): string | null {
  try {
    return projectAddressPool(object).network;
  } catch (error) {
    if (error instanceof MalformedObjectError) return null;
    throw error;
  }
}

function countAll(allocations: Iterable<CachedAllocation>): Map<string, Counts> {
  const counts = new Map<string, Counts>();
  for (const { network, state } of allocations) {
    const known = counts.get(network) ?? { ...NONE };
    if (state === "Cooling") known.cooling += 1;
    else if (state === "Retained") known.retained += 1;
    else known.allocated += 1;
    counts.set(network, known);
  }
  return counts;
}
