import type { DefinitionBook } from "../claims/definition-book.ts";
import { importNetwork, recordAll } from "../claims/import.ts";
import { ImportCandidates } from "../claims/import-candidates.ts";
import { editionOf, sourcesOf } from "../claims/import-sources.ts";
import type { PodView } from "../claims/pod-view.ts";
import type { NetworkDefinition } from "../ipam/network-definition.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { Hint } from "../store/kubernetes/hint.ts";
import type { KubeApi } from "../store/kubernetes/kube-api.ts";

/**
 * How long, ms, a configuration of the nodes is taken to be covered before its IPNetwork is read again: unlike a NAD it
 * has no edition that would tell that somebody else gave addresses meanwhile.
 */
const NODES_BELIEVED_MS = 300_000;

interface NodeImportsOptions {
  readonly api: KubeApi;
  readonly book: DefinitionBook;
  /** Whose a network is comes before its import: the pods of a namespace that may not use it bring no addresses along. */
  readonly learnOwner: (network: string) => Promise<unknown>;
  readonly hint: Pick<Hint, "ownedBy" | "refresh">;
  /** The pods of this node, projected with their addresses. */
  readonly pods: () => Iterable<PodView>;
  readonly monotonicMs: () => number;
  /** RFC 3339, for people. */
  readonly time: () => string;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** Which networks' addresses from before Holdfast are recorded, and by which definitions; imports the others. */
export class NodeImports {
  readonly #options: NodeImportsOptions;
  /** By network the editions that are covered, and when that was read, ms. */
  readonly #covered = new Map<string, Map<string, number>>();
  readonly #importing = new Map<string, Promise<void>>();

  constructor(options: NodeImportsOptions) {
    this.#options = options;
  }

  /** Imports every network that has a NAD. One network's failure is its own: an ADD there tries again, and the others are served. */
  async startAll(): Promise<void> {
    const { book, log } = this.#options;
    for (const network of book.networks()) {
      try {
        await this.#import(network, null);
      } catch (error) {
        log.warn({ network, err: error as Error }, "addresses in use from before are not imported yet");
      }
    }
  }

  /**
   * A network's addresses from before Holdfast are recorded, those behind each of its definitions, before a new one is
   * given. `nodes`: what this node's configuration says, where the pod attaches without a NAD. Throws ApiAway, RefusalError.
   */
  async ensure(network: string, nodes: NetworkDefinition | null, deadlineMs: number): Promise<void> {
    while (this.#isOpen(network, nodes))
      await this.#before(deadlineMs, network, this.#import(network, nodes));
  }

  #isOpen(network: string, nodes: NetworkDefinition | null): boolean {
    const covered = this.#covered.get(network);
    const oldestMs = this.#options.monotonicMs() - NODES_BELIEVED_MS;
    return sourcesOf(this.#options.book, network, nodes).some((source) => {
      const readMs = covered?.get(editionOf(source));
      return readMs === undefined || ("subnets" in source && readMs < oldestMs);
    });
  }

  async #before(deadlineMs: number, network: string, work: Promise<void>): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const reason = `addresses in use on network ${network} from before are still being imported`;
      const refusal = new RefusalError(refuse("NOT_READY", { reason }));
      timer = setTimeout(() => reject(refusal), Math.max(0, deadlineMs - performance.now()));
    });
    try {
      await Promise.race([work, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** One at a time for a network: who waited for another's import looks again whether it covered its own definition. */
  #import(network: string, nodes: NetworkDefinition | null): Promise<void> {
    const running = this.#importing.get(network);
    if (running !== undefined) return running;
    const started = this.#importNow(network, nodes).finally(() => this.#importing.delete(network));
    this.#importing.set(network, started);
    return started;
  }

  async #importNow(network: string, nodes: NetworkDefinition | null): Promise<void> {
    const { api, book: definitions, learnOwner, hint, time, log, monotonicMs } = this.#options;
    await learnOwner(network);
    const sources = sourcesOf(definitions, network, nodes);
    const nowMs = monotonicMs();
    const result = await importNetwork(api, network, { definitions, nodes, time, log });
    let recorded = result.kind === "imported" ? result.created : 0;
    // Others may have imported before this node's own configuration changed hands.
    if (result.kind === "done-before" && nodes !== null) recorded = await this.#recordOwnPods(network, nodes);
    // What was just created is not in the picture yet.
    if (recorded > 0) await hint.refresh();
    const covered = this.#covered.get(network) ?? new Map<string, number>();
    for (const source of sources) covered.set(editionOf(source), nowMs);
    this.#covered.set(network, covered);
  }

  /** Returns how many addresses of this node's own pods had no record. */
  async #recordOwnPods(network: string, nodes: NetworkDefinition): Promise<number> {
    const { api, book: definitions, hint, pods, time, log } = this.#options;
    const candidates = new ImportCandidates(network, {
      definitions,
      nodes,
      unknownClaim: "skip",
      recordedOf: ({ uid, staticUid }) => hint.ownedBy(network, staticUid ?? uid),
    });
    for (const pod of pods()) candidates.addPodView(pod);
    const unknown = candidates.ofPods().filter(({ one, holder }) => {
      const known = hint.ownedBy(network, holder.owner.uid);
      return !known.some(({ value, family }) => value === one.address.value && family === one.address.family);
    });
    const found = await recordAll(api, network, unknown, { time });
    for (const { address, foundIn, outcome, by } of found) {
      if (outcome === "taken")
        log.warn({ network, address, foundIn, by }, "in use here, and held by another");
    }
    return found.filter(({ outcome }) => outcome === "recorded").length;
  }
}
