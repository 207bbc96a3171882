import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import type { EventWriter } from "../../kube/events.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { changeNetworkObject } from "../../kube/network-object.ts";
import type { IPNetwork } from "../../kube/objects.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { IMPORTED } from "../../networks/import-sources.ts";
import { isAdministratorsWord, RECORDED_OWNER_ANNOTATION } from "../../networks/network-owner.ts";
import type { Log } from "../../platform/log.ts";
import { isInUse, isOf, networkEventObject } from "./network-protection.ts";

/** For so long, ms, a lost IPNetwork is remembered: longer than another controller needs to take over. */
const REMEMBERED_MS = 600_000;

export interface LostNetworksOptions {
  readonly api: KubeApi;
  readonly definitions: Pick<DefinitionCatalog, "networks">;
  readonly allocations: Cache<CachedAllocation>;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly pools: Cache<Pick<AddressPoolView, "network">>;
  readonly events: Pick<EventWriter, "warn">;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "warn">;
}

interface Lost {
  readonly object: IPNetwork;
  readonly sinceMs: number;
  problem?: string;
}

/**
 * IPNetworks that went without the controller: somebody removed the finalizer, or etcd was restored. Where the network
 * is in use or defined, the record of whose it is comes back from the last version that was seen. The import is done
 * again.
 *
 *   last seen          there is now                  what is done
 *   not being deleted  none, and it is needed        created again
 *   not being deleted  one with another owner, not   given back the former owner
 *                      by an administrator's word
 *   being deleted      none, and an address is used  created again: it was taken while the controller let the object go
 *   any other                                        nothing
 */
export class LostNetworks {
  readonly #options: LostNetworksOptions;
  /** By network; `problem`: why it is not restored yet. */
  readonly #lost = new Map<string, Lost>();

  constructor(options: LostNetworksOptions) {
    this.#options = options;
  }

  noteGone(object: IPNetwork): void {
    const network = object.spec?.network;
    if (typeof network !== "string") return;
    this.#lost.set(network, { object, sinceMs: this.#options.api.clock.monotonicMs() });
  }

  get waits(): boolean {
    return this.#lost.size > 0;
  }

  /** The definitions must be known. */
  async runPass(signal: AbortSignal): Promise<void> {
    const { api, networks, allocations, idle } = this.#options;
    if (!networks.known || !allocations.known) return;
    for (const [network, lost] of this.#lost) {
      if (signal.aborted || idle() !== null) return;
      const isRecent = api.clock.monotonicMs() - lost.sinceMs <= REMEMBERED_MS;
      const isDone = !isRecent || !this.#isNeeded(lost.object) || (await this.#restore(lost));
      if (isDone) this.#lost.delete(network);
    }
  }

  #isNeeded({ metadata, spec: { network } }: IPNetwork): boolean {
    const { definitions, allocations, pools } = this.#options;
    const wasDeleted = metadata.deletionTimestamp !== undefined;
    const counts = wasDeleted ? isInUse : isOf;
    const counted = (one: CachedAllocation) => one.network === network && counts(one.object, network);
    if ([...allocations.items.values()].some(counted)) return true;
    if (wasDeleted) return false;
    return definitions.networks().includes(network) || [...pools.items.values()].some((one) => one.network === network);
  }

  /** false: the next pass tries again, and the other networks do not wait for it. */
  async #restore(one: Lost): Promise<boolean> {
    const { object: lost } = one;
    const { api, events, log } = this.#options;
    const { network, definedIn = null } = lost.spec;
    try {
      const restored = await changeNetworkObject<IPNetwork | null>(api, network, {
        decide: (known) => {
          if (known !== null && !mayReplace(known, lost)) return { kind: "leave", result: null };
          const fields = known === null ? allOf(lost) : ownerOf(lost);
          return { kind: "write", fields, afterWrite: (object) => object };
        },
        failed: `the IPNetwork of network ${network} was not restored`,
      });
      if (restored === null) return true;
      const message = `the IPNetwork of network ${network} was deleted without the controller, and is restored`;
      log.warn({ network, definedIn }, message);
      events.warn(networkEventObject(restored), "Restored", `${message}; delete it without removing its finalizer`);
      return true;
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
      if (one.problem !== error.message)
        log.warn({ network, definedIn, problem: error.message }, "a deleted IPNetwork is not restored yet");
      one.problem = error.message;
      return false;
    }
  }
}

/** Whether the object that came in the place of the lost one has another owner, which nobody decided. */
function mayReplace(known: IPNetwork, lost: IPNetwork): boolean {
  if (known.metadata.uid === lost.metadata.uid || lost.metadata.deletionTimestamp !== undefined) return false;
  if (lost.spec.definedIn === undefined || isAdministratorsWord(known)) return false;
  return JSON.stringify(ownerOf(known)) !== JSON.stringify(ownerOf(lost));
}

function ownerOf({ metadata, spec }: IPNetwork) {
  const { definedIn = null, sharedWith = null } = spec;
  const recorded = metadata.annotations?.[RECORDED_OWNER_ANNOTATION] ?? null;
  return { annotations: { [RECORDED_OWNER_ANNOTATION]: recorded }, spec: { definedIn, sharedWith } };
}

/** What nobody would write again; not that all was imported, for the allocations may be lost too. */
function allOf({ metadata: { annotations, labels }, spec, status }: IPNetwork) {
  const { importedFrom: _, conditions = [], ...rest } = status ?? {};
  const kept = conditions.filter(({ type }) => type !== IMPORTED);
  return {
    ...(annotations && { annotations }),
    ...(labels && { labels }),
    spec,
    status: { ...rest, conditions: kept },
  };
}
