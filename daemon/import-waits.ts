import type { ClusterRequest } from "../claims/cluster-request.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { type Address, parseAddress } from "../ipam/space/address.ts";
import { placeOf } from "../ipam/space/range-set.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { changeNetworkObject } from "../kube/network-object.ts";
import type { IPNetwork } from "../kube/objects.ts";
import type { PodView } from "../kube/views/pod-view.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import {
  describeSource,
  IMPORT_STALLED,
  isImported,
  type SeenSource,
  sourcesOf,
  subnetsOf,
  uncovered,
} from "../networks/import-sources.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import { sleep } from "../platform/time.ts";

/** An IPNetwork is read again after this pause, ms, which doubles … */
const LOOK_AGAIN_MS_MIN = 100;
/** … up to this: thousands of nodes may wait for one network. */
const LOOK_AGAIN_MS_MAX = 2_000;
/**
 * How long, ms, ADDs through other definitions wait for one that has just joined, which is a moment while a controller
 * runs: at an ordinary switch its pods' addresses are in use.
 */
const OTHERS_WAIT_MS = 5_000;
/** After a namespace's definition has joined, further ones make nobody else wait for so long, ms. */
const NEXT_WAIT_MS = 60_000;
/** Configurations of nodes that wait for their import at once. */
const WANTED_MAX = 100;

type Needs = Pick<ClusterRequest, "nad" | "nodes">;

interface ImportWaitsOptions {
  readonly api: KubeApi;
  readonly catalog: DefinitionCatalog;
  /** Reads the IPNetwork of a network and passes it to `take`. Throws ApiAway. */
  read(network: string, deadlineMs: number): Promise<void>;
  /** The pods of this node, projected with their addresses. */
  pods(): Iterable<PodView>;
  /** Told of addresses of a network that pods of this node report, whoever gave them. */
  reported(network: string, addresses: readonly Address[]): void;
}

/**
 * Keeps ADDs from a network until a controller has recorded the addresses from before Holdfast behind its definitions:
 * `status.importedFrom` of the IPNetwork names them. Nothing is imported here. See docs/decisions/0078.
 */
export class ImportWaits {
  readonly #options: ImportWaitsOptions;
  readonly #networks = new Map<string, IPNetwork | null>();
  /** Since when a definition's joining holds up others, ms of the monotonic clock, by network and namespace. */
  readonly #joined = new Map<string, number>();
  readonly #looks = new SingleFlight<void>();
  readonly #addresses = new WeakMap<PodView, readonly Address[]>();

  constructor(options: ImportWaitsOptions) {
    this.#options = options;
  }

  /** Takes an IPNetwork as just read; null: there is none. */
  take(network: string, object: IPNetwork | null): void {
    this.#networks.set(network, object);
  }

  /** Resolves when nothing it could be given is in use from before. Throws NOT_IMPORTED at the deadline, ApiAway. */
  async ensure(network: string, needs: Needs, deadlineMs: number): Promise<void> {
    const { clock } = this.#options.api;
    for (let pauseMs = LOOK_AGAIN_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, LOOK_AGAIN_MS_MAX)) {
      const open = this.#open(network, needs);
      if (open === null) break;
      if (clock.monotonicMs() + pauseMs >= deadlineMs) throw new RefusalError(this.#refusal(network, open));
      if (needs.nodes !== null) await this.#want(network, needs.nodes, deadlineMs);
      await this.#looks.run(async () => {
        await sleep(clock, pauseMs);
        await this.#options.read(network, deadlineMs);
      }, network);
    }
    if (needs.nodes !== null) this.#noteReported(network, needs.nodes);
  }

  /** A definition that has to be imported first; null: none. */
  #open(network: string, needs: Needs): SeenSource | null {
    const object = this.#networks.get(network) ?? null;
    const sources = sourcesOf(this.#options.catalog, network, needs.nodes);
    const open = isImported(object, []) ? uncovered(object, sources) : sources;
    const counting = this.#options.catalog.definitionOf(network)?.by;
    const isNeeded = (one: SeenSource) =>
      "subnets" in one || one.definition === needs.nad || one.definition === counting;
    return open.find((one) => isNeeded(one) || this.#holdsUpOthers(network, one)) ?? null;
  }

  #holdsUpOthers(network: string, source: SeenSource): boolean {
    if (!("definition" in source)) return true;
    const nowMs = this.#options.api.clock.monotonicMs();
    const key = `${source.definition.split("/")[0]} ${network}`;
    let sinceMs = this.#joined.get(key) ?? Number.NEGATIVE_INFINITY;
    if (nowMs - sinceMs >= NEXT_WAIT_MS) {
      for (const [one, ms] of this.#joined) if (nowMs - ms >= NEXT_WAIT_MS) this.#joined.delete(one);
      this.#joined.set(key, nowMs);
      sinceMs = nowMs;
    }
    return nowMs - sinceMs < OTHERS_WAIT_MS;
  }

  #refusal(network: string, open: SeenSource) {
    const conditions = this.#networks.get(network)?.status?.conditions ?? [];
    const stalled = conditions.find(({ type, status }) => type === IMPORT_STALLED && status === "True");
    const reason = stalled?.message ?? `no controller has imported ${describeSource(open)}`;
    return refuse("NOT_IMPORTED", { network, reason });
  }

  /** Asks in the IPNetwork for the import of this node's own configuration, which no other object has. */
  async #want(network: string, nodes: NetworkDefinition, deadlineMs: number): Promise<void> {
    const subnets = subnetsOf(nodes);
    const isAsked = (object: IPNetwork | null) => {
      const { importWanted, importedFrom = [] } = object?.status ?? {};
      const all = [...(importWanted ?? []), ...importedFrom];
      return all.some((one) => "subnets" in one && one.subnets === subnets);
    };
    if (isAsked(this.#networks.get(network) ?? null)) return;
    await changeNetworkObject<void>(this.#options.api, network, {
      decide: (known) => {
        const wanted = known?.status?.importWanted ?? [];
        if (isAsked(known) || wanted.length >= WANTED_MAX) return { kind: "leave", result: undefined };
        const fields = { status: { importWanted: [...wanted, { subnets }] } };
        return { kind: "write", fields, afterWrite: () => undefined };
      },
      failed: `the import of network ${network} could not be asked for`,
      priority: "add",
      deadlineMs,
    });
  }

  /** Only a node's own file changes without an object that tells of it; what pods report is recorded a moment later. */
  #noteReported(network: string, { rangeSets }: NetworkDefinition): void {
    const found: Address[] = [];
    for (const pod of this.#options.pods()) {
      if (pod.terminal) continue;
      const addresses = this.#addresses.get(pod) ?? kubelets(pod);
      this.#addresses.set(pod, addresses);
      found.push(...addresses.filter((one) => placeOf(rangeSets, one) !== null));
    }
    this.#options.reported(network, found);
  }
}

function kubelets({ podIPs }: PodView): Address[] {
  return podIPs.flatMap((text) => {
    try {
      return [parseAddress(text)];
    } catch {
      return [];
    }
  });
}
