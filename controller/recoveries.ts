import type { Cache } from "../claims/reasons/caches.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { IPNetwork } from "../kube/objects.ts";
import type { Log } from "../platform/log.ts";
import { endRecovery, type RecoveryMark, recoveryMark } from "../store/cluster/contact/recovery.ts";

/** The daemon that set a mark removes it itself, and is given so much longer, ms. */
const SPARE_MS = 10_000;

export interface RecoveriesOptions {
  readonly api: KubeApi;
  readonly networks: Cache<{ readonly object: IPNetwork }>;
  readonly idle: () => string | null;
  readonly log: Pick<Log, "info">;
}

interface Seen {
  readonly mark: RecoveryMark;
  readonly sinceMs: number;
}

/**
 * Networks that a node has marked as recovering. Each mark is removed by the daemon that set it; that of one that has
 * ended meanwhile is removed here, for machines' addresses wait for it, and there may be no ADD for hours that would
 * read it.
 */
export class Recoveries {
  readonly #options: RecoveriesOptions;
  /** By the UID of the network's object. */
  #seen = new Map<string, Seen>();

  constructor(options: RecoveriesOptions) {
    this.#options = options;
  }

  /** When the first mark is removed here, ms of the clock. */
  get nextMs(): number {
    return Math.min(...[...this.#seen.values()].map(endMsOf));
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { api, networks, idle, log } = this.#options;
    if (!networks.known || idle() !== null) return;
    const nowMs = api.clock.monotonicMs();
    const seen = new Map<string, Seen>();
    for (const { object } of networks.items.values()) {
      const mark = recoveryMark(object);
      if (mark === null) continue;
      const before = this.#seen.get(object.metadata.uid);
      const one = before?.mark.id === mark.id ? before : { mark, sinceMs: nowMs };
      seen.set(object.metadata.uid, one);
    }
    this.#seen = seen;
    for (const { object } of networks.items.values()) {
      const one = seen.get(object.metadata.uid);
      if (one === undefined || nowMs < endMsOf(one)) continue;
      if (signal.aborted || idle() !== null) return;
      const { network } = object.spec;
      await endRecovery(api, network, one.mark);
      const what = { network, mark: one.mark.message };
      log.info(what, "the network has recovered; the node that marked it has not said so");
    }
  }
}

/** When a mark is removed that its daemon has not removed, ms of the clock; never one that cannot be read. */
function endMsOf({ mark, sinceMs }: Seen): number {
  return sinceMs + (mark.seconds ?? Number.POSITIVE_INFINITY) * 1_000 + SPARE_MS;
}
