import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { type IPNetwork, NETWORKS_PATH } from "../../kube/objects.ts";
import { readPublishedSpace } from "../../kube/views/published-space.ts";
import type { NetworkNow } from "../node-store.ts";
import type { NetworkView } from "../records.ts";
import type { Picture } from "./allocations/picture.ts";
import { type ClusterDefinitions, viewNetworks } from "./allocations/views.ts";

/** Limit of the list, ms: then what is known already is shown. */
const LOOK_MS_MAX = 2_000;
/** Somebody who looks again and again sees what was published so long ago at most, ms. */
const LOOK_AGAIN_MS = 3_000;

/** The networks of the cluster as people see them on a node. */
export class NetworkLooks {
  readonly #api: KubeApi;
  readonly #picture: Picture;
  readonly #definitions: ClusterDefinitions;
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
    const each = (object: IPNetwork) => this.#picture.take(object.spec.network, readPublishedSpace(object));
    const query = { resourceVersion: "0" };
    try {
      await this.#api.list({ path: NETWORKS_PATH, query, each, deadlineMs: nowMs + LOOK_MS_MAX });
      this.#lookedMs = nowMs;
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
    }
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
