import { allocationsAt } from "../../allocations/allocations-at.ts";
import type { AllocationFilter, ClaimFilter, PageRequest } from "../../allocations/filter.ts";
import { matches } from "../../allocations/filter.ts";
import { pageOfObjects } from "../../allocations/object-pages.ts";
import type { Picture } from "../../allocations/picture.ts";
import type { AllocationView, NetworkView, Page } from "../../allocations/records.ts";
import { type ClusterDefinitions, viewNetworks, viewOf } from "../../allocations/views.ts";
import type { Address } from "../../ipam/space/address.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { CLAIMS_PATH, type IPNetwork, NETWORKS_PATH } from "../../kube/objects.ts";
import { readPublishedSpace } from "../../kube/views/published-space.ts";
import type { ClaimManifest } from "../manifests.ts";
import type { NetworkNow } from "../node-store.ts";

/** Limit of the list, ms: then what is known already is shown. */
const LOOK_MS_MAX = 2_000;
/** Somebody who looks again and again sees what was published so long ago at most, ms. */
const LOOK_AGAIN_MS = 3_000;

export class NetworkLooks {
  readonly #api: KubeApi;
  readonly #picture: Picture;
  readonly #definitions: ClusterDefinitions;
  #recorded: ReadonlySet<string> = new Set();
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(api: KubeApi, picture: Picture, definitions: ClusterDefinitions) {
    this.#api = api;
    this.#picture = picture;
    this.#definitions = definitions;
  }

  /** While the API server is away, what is known already is shown. */
  async look(): Promise<void> {
    const nowMs = this.#api.clock.monotonicMs();
    if (nowMs - this.#lookedMs < LOOK_AGAIN_MS) return;
    const recorded = new Set<string>();
    const each = (object: IPNetwork) => {
      recorded.add(object.spec.network);
      this.#picture.take(object.spec.network, readPublishedSpace(object));
    };
    const query = { resourceVersion: "0" };
    try {
      await this.#api.list({ path: NETWORKS_PATH, query, each, deadlineMs: nowMs + LOOK_MS_MAX });
      this.#lookedMs = nowMs;
      this.#recorded = recorded;
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
    }
  }

  /** On the networks whose subnets have it, else on any: it may be from before an edit. Throws ApiAway. */
  async at(address: Address, filter: AllocationFilter): Promise<Page<AllocationView>> {
    await this.look();
    const { network } = filter;
    const known = network === undefined ? [...this.#definitions.networks(), ...this.#recorded] : [network];
    const hasIt = (name: string) =>
      placeOf(this.#definitions.definitionOf(name)?.definition.rangeSets ?? [], address) !== null;
    const all = new Set(known);
    const likely = [...all].filter(hasIt);
    const found = await allocationsAt(this.#api, address, likely);
    const others = found.length > 0 ? [] : [...all].filter((name) => !likely.includes(name));
    const objects = [...found, ...(await allocationsAt(this.#api, address, others))];
    return { items: objects.map(viewOf).filter((view) => matches(view, filter)) };
  }

  views(attachments: ReadonlyMap<string, number>): NetworkView[] {
    return viewNetworks(this.#definitions, this.#picture, attachments, this.#api.clock.monotonicMs());
  }

  space(network: string): NetworkNow | null {
    const counting = this.#definitions.definitionOf(network);
    if (counting === null) return null;
    const space = this.#picture.space(network);
    space.definition = counting.definition;
    const nowMs = this.#api.clock.monotonicMs();
    const pools = space.presentPools(nowMs);
    for (const pool of pools) pool.expire(nowMs);
    return { definition: counting.definition, pools, nowMs };
  }
}

/**
 * The claims of some networks that match the filter, page by page, by namespace and name. Throws ApiAway, and
 * RefusalError for a token that is none.
 */
export function listClaims(
  api: KubeApi,
  networks: ReadonlySet<string>,
  { namespace, name }: ClaimFilter,
  page: PageRequest,
): Promise<Page<ClaimManifest>> {
  return pageOfObjects<ClaimManifest, ClaimManifest>(api, page, {
    path: CLAIMS_PATH,
    query: {},
    itemOf: (claim) => {
      if (!networks.has(claim.spec?.network)) return null;
      const { managedFields: _, ...metadata } = claim.metadata as ClaimManifest["metadata"] & {
        managedFields?: object;
      };
      if (namespace !== undefined && metadata.namespace !== namespace) return null;
      if (name !== undefined && metadata.name !== name) return null;
      return { ...claim, metadata };
    },
    placeOf: ({ metadata }) => [metadata.namespace, metadata.name],
  });
}
