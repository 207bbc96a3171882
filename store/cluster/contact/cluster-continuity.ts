import { ApiAway, type KubeApi } from "../../../kube/kube-api.ts";
import { type IPNetwork, NETWORKS_PATH } from "../../../kube/objects.ts";
import type { ReflectorState } from "../../../kube/reflector.ts";
import type { Log } from "../../../platform/log.ts";
import { PeriodicTask } from "../../../platform/periodic-task.ts";
import type { Timer } from "../../../platform/time.ts";
import { Continuity } from "./continuity.ts";
import { endRecovery, markRecovering, type RecoveryMark, recoveryMark } from "./recovery.ts";

/**
 * After a gap in contact, ms, until every node knows what it has lost: each probes the API every PROBE_PAUSE_MS_MAX
 * while its watch is broken, and comparing a hundred attachments takes less than a second.
 */
const SETTLE_MS = 4_000;
/** Pause between two probes while the watch is broken, ms; at least half of it. */
const PROBE_PAUSE_MS_MAX = 1_500;
/** For the answer to a probe, ms: a slower server counts as away. */
const PROBE_MS_MAX = 1_500;
/** For a read or write that is retried if it fails, ms. */
const LOOK_MS_MAX = 10_000;
/** After the end of a recovery, ms, before the mark is removed. */
const END_SPARE_MS = 500;

export interface ClusterContinuityOptions {
  readonly api: KubeApi;
  readonly node: string;
  readonly recoveryMs: number;
  readonly log: Log;
  /** Reads the IPNetwork of a network now and passes it to `seen`. Throws ApiAway. */
  readMark(network: string, deadlineMs: number): Promise<void>;
  /** Everything that is followed must be listed again. */
  relist(): void;
  /** Contact was lost and is there again. `isRestored`: the server certainly was restored. */
  compare(how: { readonly isRestored: boolean }): void;
}

/** Whether the API server still has what it had: fed by the watches, shared with other nodes through IPNetworks. */
export class ClusterContinuity {
  readonly continuity: Continuity;
  readonly #options: ClusterContinuityOptions;
  #away = false;
  #stopped = false;
  readonly #probing: PeriodicTask;
  /** By network: when to check whether this node's mark can be removed. */
  readonly #ends = new Map<string, Timer>();

  constructor(options: ClusterContinuityOptions) {
    this.#options = options;
    const { api, recoveryMs, log } = options;
    this.#probing = new PeriodicTask({ clock: api.clock, work: () => this.#probeAway() });
    this.#probing.start();
    this.continuity = new Continuity({
      settleMs: Math.min(SETTLE_MS, recoveryMs),
      recoveryMs,
      clock: api.clock,
      readMark: (network, deadlineMs) => options.readMark(network, deadlineMs),
      mark: (network, mark) => this.#mark(network, mark),
      onWentBack: () => {
        log.error(
          "the API server has an older state than the one this node has seen (a restored etcd): no new address is given until every node has compared what it holds",
        );
        options.relist();
        options.compare({ isRestored: true });
      },
    });
  }

  /** The state of the watch that detects gaps. */
  noteState(state: ReflectorState): void {
    if (state === "away") {
      this.#away = true;
      this.continuity.lose();
      this.#probeSoon();
    } else if (state === "watching" && this.#away) {
      this.#away = false;
      this.#inContact();
    }
  }

  /** The watch is there, or a probe was answered. Nothing else begins the comparison that a gap makes necessary. */
  #inContact(): void {
    if (!this.continuity.regain()) return;
    this.#options.compare({ isRestored: false });
    void this.#prove();
  }

  /** Reads the last write again, if it is young. Without a proof the others are given their time. */
  async #prove(): Promise<void> {
    const { api } = this.#options;
    const { gap, witness } = this.continuity;
    if (witness === null) return;
    const { path, resourceVersion } = witness;
    const deadlineMs = api.clock.monotonicMs() + PROBE_MS_MAX;
    try {
      const { status, body, serverMs } = await api.send({
        method: "GET",
        path,
        priority: "housekeeping",
        deadlineMs,
      });
      const isAsWritten = status === 200 && body?.metadata?.resourceVersion === resourceVersion;
      if (isAsWritten && serverMs !== null) this.continuity.noteProven(gap, witness, serverMs);
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
    }
  }

  /** While the watch is broken, probes tell whether the server is there: a watch may be refused for long. */
  #probeSoon(): void {
    this.#probing.trigger(PROBE_PAUSE_MS_MAX * (0.5 + this.#options.api.clock.random() / 2));
  }

  async #probeAway(): Promise<void> {
    if (!this.#away) return;
    const isThere = await this.probe(PROBE_MS_MAX).then(
      () => true,
      () => false,
    );
    if (!this.#away) return;
    if (!isThere) this.continuity.lose();
    else this.#inContact();
    this.#probeSoon();
  }

  /** Notes an IPNetwork that was read. A mark that has stood long enough is removed. */
  seen(network: string, object: IPNetwork | null): void {
    const { continuity } = this;
    const mark = recoveryMark(object);
    continuity.noteVersion(object?.metadata.resourceVersion);
    continuity.noteMark(network, mark);
    if (mark === null || continuity.recoveryLeftMs(network) > 0) return;
    const { api, log } = this.#options;
    endRecovery(api, network, mark)
      .then(() => log.info({ network }, "the network has recovered; everybody gets addresses again"))
      .catch((error: Error) => log.warn({ network, err: error }, "the end of the recovery is not recorded yet"));
  }

  /** An older version than any seen before shows a restore. Returns whether there was an answer. Throws ApiAway. */
  async probe(msMax = LOOK_MS_MAX): Promise<boolean> {
    const newestBefore = this.continuity.newest;
    const { api } = this.#options;
    const { status, body } = await api.send({
      method: "GET",
      path: NETWORKS_PATH,
      query: { limit: "1" },
      priority: "housekeeping",
      deadlineMs: api.clock.monotonicMs() + msMax,
    });
    if (status === 200) this.continuity.noteCurrent(body?.metadata?.resourceVersion, newestBefore);
    return status === 200;
  }

  stop(): void {
    this.#stopped = true;
    void this.#probing.stop();
    for (const timer of this.#ends.values()) timer.cancel();
  }

  async #mark(network: string, mark: RecoveryMark): Promise<void> {
    const { api, log } = this.#options;
    log.error({ network }, `allocations were taken away: ${mark.message}; no new address of it is given meanwhile`);
    await markRecovering(api, network, mark);
    this.#endIn(network, this.#options.recoveryMs);
  }

  /** There may be no ADD for hours that would. A mark that was read again after another node's stays longer. */
  #endIn(network: string, ms: number): void {
    this.#ends.get(network)?.cancel();
    const { api, readMark, log } = this.#options;
    const end = async () => {
      this.#ends.delete(network);
      try {
        await readMark(network, api.clock.monotonicMs() + LOOK_MS_MAX);
      } catch (error) {
        log.warn({ network, err: error as Error }, "the recovery goes on");
      }
      const leftMs = this.continuity.recoveryLeftMs(network);
      if (leftMs > 0 && !this.#stopped && !this.#ends.has(network)) this.#endIn(network, leftMs);
    };
    this.#ends.set(network, api.clock.timer(ms + END_SPARE_MS, () => void end()).unref());
  }
}
