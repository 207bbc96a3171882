import type { ClusterRequest } from "../claims/cluster-request.ts";
import { importNetwork, recordAll } from "../imports/import.ts";
import { ImportBackoff } from "../imports/import-backoff.ts";
import { ImportCandidates } from "../imports/import-candidates.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { type Address, sameAddress } from "../ipam/space/address.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { StatusAddressReader } from "../kube/views/held-addresses.ts";
import type { PodView } from "../kube/views/pod-view.ts";
import type { DefinitionCatalog } from "../networks/definition-catalog.ts";
import { describeSource, editionOf, type SeenSource, sourcesOf } from "../networks/import-sources.ts";
import type { Log } from "../platform/log.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import { sleep, type Timer } from "../platform/time.ts";

/**
 * How long, ms, a configuration of the nodes counts as covered before its IPNetwork is read again: unlike a NAD it has
 * no edition that shows whether addresses came from elsewhere meanwhile.
 */
const NODES_BELIEVED_MS = 300_000;

interface NodeImportsOptions {
  readonly api: KubeApi;
  readonly catalog: DefinitionCatalog;
  /** Determined before the import: pods of a namespace that may not use the network bring no addresses. */
  readonly learnOwner: (network: string) => Promise<unknown>;
  /** Addresses of a network that this node's journal has for an owner. */
  readonly attachedTo: (network: string, ownerUid: string) => readonly Address[];
  /** The pods of this node, projected with their addresses. */
  readonly pods: () => Iterable<PodView>;
  readonly log: Pick<Log, "info" | "warn">;
}

interface Covered {
  readonly isNad: boolean;
  /** When that was read, ms. */
  readonly readMs: number;
  /** For a NAD: the edition in the IPNetwork, as far as is known; else 0. */
  readonly generation: number;
}

/** Which networks' addresses from before Holdfast are recorded, and by which definitions; imports the others. */
export class NodeImports {
  readonly #options: NodeImportsOptions;
  readonly #pace: ImportBackoff;
  /** By network: the editions that are covered. */
  readonly #addresses = new StatusAddressReader();
  readonly #covered = new Map<string, Map<string, Covered>>();
  readonly #importing = new SingleFlight<void>();
  /** By network: what its owners among this node's pods report, which is recorded, or another's, by UID. */
  readonly #recorded = new Map<string, ReadonlyMap<string, readonly Address[]>>();

  constructor(options: NodeImportsOptions) {
    this.#options = options;
    this.#pace = new ImportBackoff(options.api.clock);
  }

  /**
   * Records a network's addresses from before Holdfast, behind each of its definitions, before a new one is allocated.
   * When a definition of another namespace joins again and again, only its own ADDs wait for each import
   * (ImportBackoff). Throws ApiAway, RefusalError.
   */
  async ensure(
    network: string,
    needs: Pick<ClusterRequest, "nad" | "nodes">,
    deadlineMs: number,
  ): Promise<void> {
    for (;;) {
      const sources = sourcesOf(this.#options.catalog, network, needs.nodes);
      const open = this.#open(network, sources);
      const due = open.filter((one) => this.#waitMs(network, one) === 0);
      if (due.length > 0) {
        await this.#before(deadlineMs, network, this.#import(network, needs.nodes, due));
        continue;
      }
      const own = open.find((one) => "definition" in one && one.definition === needs.nad);
      if (own === undefined) return this.#bringUpToDate(network, sources);
      await this.#waitForPause(network, own, deadlineMs);
    }
  }

  #open(network: string, sources: readonly SeenSource[]): SeenSource[] {
    const covered = this.#covered.get(network);
    const oldestMs = this.#options.api.clock.monotonicMs() - NODES_BELIEVED_MS;
    return sources.filter((source) => {
      const known = covered?.get(editionOf(source));
      return known === undefined || ("subnets" in source && known.readMs < oldestMs);
    });
  }

  #waitMs(network: string, source: SeenSource): number {
    return this.#isEverybodys(network, source) ? 0 : this.#pace.waitMs(network, source);
  }

  /** The definitions that must be covered before anything is allocated. */
  #isEverybodys(network: string, source: SeenSource): boolean {
    return "subnets" in source || this.#options.catalog.definitionOf(network)?.by === source.definition;
  }

  async #waitForPause(network: string, source: SeenSource, deadlineMs: number): Promise<void> {
    const waitMs = this.#waitMs(network, source);
    const { clock } = this.#options.api;
    if (clock.monotonicMs() + waitMs < deadlineMs) return sleep(clock, waitMs);
    const seconds = Math.ceil(waitMs / 1_000);
    const reason = `${describeSource(source)} has joined network ${network} several times in a row; its pods' addresses are imported in ${seconds} s`;
    throw new RefusalError(refuse("NOT_READY", { reason }));
  }

  /** Records in the background the editions that this node has followed, for the time after a restart. */
  #bringUpToDate(network: string, sources: readonly SeenSource[]): void {
    const covered = this.#covered.get(network);
    const isNew = (one: SeenSource) => {
      const known = covered?.get(editionOf(one));
      return known !== undefined && generationOf(one) > known.generation;
    };
    if (!sources.some(isNew) || !this.#pace.takeUpdate(network)) return;
    this.#import(network, null, []).catch((error: Error) => {
      this.#options.log.warn(
        { network, err: error },
        "the editions of its definitions are not written down yet",
      );
    });
  }

  async #before(deadlineMs: number, network: string, work: Promise<void>): Promise<void> {
    const { clock } = this.#options.api;
    let timer: Timer | undefined;
    const late = new Promise<never>((_, reject) => {
      const reason = `addresses in use on network ${network} from before are still being imported`;
      const refusal = new RefusalError(refuse("NOT_READY", { reason }));
      timer = clock.timer(deadlineMs - clock.monotonicMs(), () => reject(refusal));
    });
    try {
      await Promise.race([work, late]);
    } finally {
      timer?.cancel();
    }
  }

  /** One import at a time for a network: a waiter then checks whether that import covered its definition too. */
  #import(network: string, nodes: NetworkDefinition | null, needed: readonly SeenSource[]): Promise<void> {
    return this.#importing.run(() => this.#importNow(network, nodes, needed), network);
  }

  /** Lists nothing if the `needed` definitions are already covered. */
  async #importNow(
    network: string,
    nodes: NetworkDefinition | null,
    needed: readonly SeenSource[],
  ): Promise<void> {
    const { api, catalog: definitions, learnOwner, log } = this.#options;
    await learnOwner(network);
    const sources = sourcesOf(definitions, network, nodes);
    const nowMs = api.clock.monotonicMs();
    const result = await importNetwork(api, network, { definitions, nodes, needed, log });
    if (result.kind === "imported") {
      const ofOthers = needed.filter((one) => !this.#isEverybodys(network, one));
      this.#pace.imported(network, ofOthers);
    }
    // Others may have imported before this node's own configuration changed hands.
    if (result.kind === "done-before" && nodes !== null) await this.#recordOwnPods(network, nodes);
    this.#note(network, sources, result.kind === "imported" ? sources : needed, nowMs);
  }

  #note(network: string, sources: readonly SeenSource[], read: readonly SeenSource[], readMs: number): void {
    const before = this.#covered.get(network) ?? new Map<string, Covered>();
    // Past editions do not return; what the node's configuration says may.
    const covered = new Map([...before].filter(([, { isNad }]) => !isNad));
    for (const one of sources) {
      const known = before.get(editionOf(one));
      if (known !== undefined) covered.set(editionOf(one), { ...known, generation: generationOf(one) });
    }
    for (const one of read) covered.set(editionOf(one), coveredBy(one, readMs));
    this.#covered.set(network, covered);
  }

  async #recordOwnPods(network: string, nodes: NetworkDefinition): Promise<void> {
    const { api, catalog: definitions, attachedTo, pods, log } = this.#options;
    const knownOf = (uid: string) => [
      ...attachedTo(network, uid),
      ...(this.#recorded.get(network)?.get(uid) ?? []),
    ];
    const candidates = new ImportCandidates(network, {
      definitions,
      nodes,
      unknownClaim: "skip",
      recordedOf: ({ uid, staticUid }) => knownOf(staticUid ?? uid),
      addressesOf: (pod) => this.#addresses.of(pod),
    });
    for (const pod of pods()) candidates.addPodView(pod);
    const all = candidates.ofPods();
    const unknown = all.filter(
      ({ one, holder }) => !knownOf(holder.owner.uid).some((known) => sameAddress(known, one.address)),
    );
    const found = await recordAll(api, network, unknown);
    const recorded = new Map<string, Address[]>();
    for (const { one, holder } of all) {
      const { uid } = holder.owner;
      recorded.set(uid, [...(recorded.get(uid) ?? []), one.address]);
    }
    this.#recorded.set(network, recorded);
    for (const { address, foundIn, outcome, by } of found) {
      if (outcome === "taken")
        log.warn({ network, address, foundIn, by }, "in use here, and held by another");
    }
  }
}

function coveredBy(source: SeenSource, readMs: number): Covered {
  return { isNad: "definition" in source, readMs, generation: generationOf(source) };
}

function generationOf(source: SeenSource): number {
  return "subnets" in source ? 0 : source.generation;
}
