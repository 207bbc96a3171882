import type { Finding } from "../ipam/finding.ts";
import type { Log } from "../platform/log.ts";
import { logFailure, PeriodicTask } from "../platform/periodic-task.ts";
import type { Clock } from "../platform/time.ts";
import type { ClusterNode } from "./cluster-node.ts";

/** How often to check at the start whether everything is listed, ms. */
const SETTLE_INTERVAL_MS = 20;
/** Pause before settling is retried, at most, ms: a kubelet that has just started reports within seconds. */
const SETTLE_AGAIN_MS_MAX = 1_000;
/**
 * Within this time at most, ms, a node lists what it uses, after a reboot or a restore: thousands of nodes do so together. Sooner where
 * nodes compare more often.
 */
const LIST_WITHIN_MS = 120_000;
/** Pause before such a list is tried again, ms. */
const LIST_AGAIN_MS = 10_000;
/**
 * Everything is compared at least once in this time, ms, although the API server has what was written last: somebody may have
 * deleted single objects by force.
 */
const COMPARE_ALL_MS = 6 * 3_600_000;
/** Pause before an unfinished comparison with the API is retried, at most, ms. */
const COMPARE_AGAIN_MS_MAX = 5_000;

/**
 * Brings this node and the API server into agreement, before ADD is served and later: once at the start, again when the
 * journal had to begin anew, and after every gap in contact and every few minutes, when one read shows whether the API server
 * still has everything that this node wrote.
 */
export class Settlement {
  readonly #cluster: ClusterNode;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #intervalMs: number;
  readonly #mayBegin: () => boolean;
  readonly #mayCompare: () => boolean;
  #settled = false;
  /** When everything is compared again, ms of the monotonic clock. */
  #allDueMs: number;
  readonly #settling: PeriodicTask;
  readonly #comparingAgain: PeriodicTask;
  readonly #recovering: PeriodicTask;
  /** Why the last attempt to settle failed. */
  #problem: string | null = null;

  constructor(parts: {
    readonly cluster: ClusterNode;
    readonly log: Log;
    /** How often it compares, ms. */
    readonly intervalMs: number;
    /** The journal is open and the spool drained. */
    mayBegin(): boolean;
    /** The daemon is ready. */
    mayCompare(): boolean;
  }) {
    this.#cluster = parts.cluster;
    this.#clock = parts.cluster.api.clock;
    this.#log = parts.log;
    this.#intervalMs = parts.intervalMs;
    this.#mayBegin = parts.mayBegin;
    this.#mayCompare = parts.mayCompare;
    const clock = this.#clock;
    this.#allDueMs = clock.monotonicMs() + clock.random() * COMPARE_ALL_MS;
    this.#settling = new PeriodicTask({ clock, work: () => this.#try() });
    this.#comparingAgain = new PeriodicTask({ clock, work: () => this.lostTouch() });
    this.#recovering = new PeriodicTask({
      ...{ clock, retryMs: LIST_AGAIN_MS },
      work: () => this.#recover(),
      onFailure: logFailure(parts.log, "looking for what the API server has of this node"),
    });
    for (const task of this.#tasks) task.start();
  }

  get #tasks(): readonly PeriodicTask[] {
    return [this.#settling, this.#comparingAgain, this.#recovering];
  }

  /** Why ADD must wait for it; null when it need not. */
  get pending(): string | null {
    if (this.#settled) return null;
    return this.#problem ?? "the API server was not told yet what it is owed";
  }

  /** For `holdfast check`. */
  findings(): Finding[] {
    if (this.#problem === null || this.#settled) return [];
    const hint = "nothing is given, recovered or released until then; docs/operations.md, Boot IDs";
    const message = `this node is not ready: ${this.#problem}`;
    return [{ invariant: "node", message, hint, whyNotReady: this.#problem }];
  }

  /** Retries until it has settled: the API server may come up later. */
  begin(): void {
    this.#settling.trigger(SETTLE_INTERVAL_MS);
  }

  /** The database was reopened. If it was damaged, it is a new one, and is filled from the API first. */
  reopened(): void {
    if (!this.#settled || !this.#cluster.store.isNew) return;
    this.#settled = false;
    this.begin();
  }

  /** After a gap in contact. A returning API server refuses much in its first seconds: retries until it succeeds. */
  lostTouch(): void {
    // Before settling: the comparison that is part of it may have begun before the gap.
    if (!this.#mayCompare()) this.#compareAgain();
    else
      this.#compare({ afterGap: true })
        .then((stillLost) => {
          if (this.#cluster.store.mustRecover) this.#recoverSoon();
          // The other owner may release it: on a restored server it is the former holder, which exists again without a
          // container.
          if (stillLost && this.#cluster.contact.continuity.recovering.length > 0) this.#compareAgain();
        })
        .catch((error: Error) => {
          this.#log.warn({ err: error }, "comparing with the API did not finish; it comes again");
          this.#compareAgain();
        });
  }

  async compare(): Promise<void> {
    if (!this.#mayCompare()) return;
    const everything = this.#clock.monotonicMs() >= this.#allDueMs;
    await this.#compare({ afterGap: false, everything });
    if (everything) this.#allDueMs = this.#clock.monotonicMs() + this.#clock.random() * COMPARE_ALL_MS;
  }

  #compareAgain(): void {
    this.#comparingAgain.trigger(this.#atRandom(COMPARE_AGAIN_MS_MAX));
  }

  #recoverSoon(): void {
    this.#recovering.trigger(this.#clock.random() * Math.min(LIST_WITHIN_MS, this.#intervalMs));
  }

  /** Thousands of nodes fail together. */
  #atRandom(msMax: number): number {
    return SETTLE_INTERVAL_MS + this.#clock.random() * (msMax - SETTLE_INTERVAL_MS);
  }

  /**
   * The API server may have what the journal has not: after a reboot, what was being reserved when the power went; after a
   * restore, attachments whose release was told before, and that nobody would end any more.
   */
  async #recover(): Promise<void> {
    const { store } = this.#cluster;
    if (store.isSettled && !store.mustRecover) return;
    if (!this.#mayCompare()) return this.#recoverSoon();
    if (!store.isSettled) {
      const { owed, recorded } = await store.settleFormerBoot();
      this.#logRecovered(recorded, "the journal last served an earlier boot and did not have all");
      if (owed > 0)
        this.#log.warn(
          { owed },
          "the machine was rebooted in the middle of ADDs; what they had reserved for pods that have ended is given back",
        );
      this.#cluster.store.drainOutbox().catch(() => {});
    } else this.#logRecovered(await store.recoverUnknown(), "the API server may have been restored");
  }

  /** Whether an address belongs to another owner now. */
  async #compare({
    afterGap,
    everything = false,
  }: {
    readonly afterGap: boolean;
    readonly everything?: boolean;
  }): Promise<boolean> {
    const { contact, store } = this.#cluster;
    await contact.probe();
    const { gap } = contact.continuity;
    const found = await store.reassert({ afterGap, everything });
    const { restored, lost, stillLost, over, republished, freedWithNode, problems } = found;
    contact.continuity.noteCompared(gap);
    if (contact.continuity.gap === gap) await store.gap.end();
    if (freedWithNode)
      this.#log.warn(
        "this node's Node object was deleted, so the cluster gave back what its containers use: what nobody else has got since is put back",
      );
    if (problems.length > 0)
      this.#log.error(
        { problems },
        "what this node holds could not be compared or put back for all of its attachments: the API server refuses it (a webhook, a policy, an object that is not sound); tried again every reassertIntervalSeconds, and holdfast check names the addresses",
      );
    if (republished.length > 0)
      this.#log.warn({ claims: republished }, "claims that had lost their list of addresses have it again");
    if (restored > 0)
      this.#log.warn(
        { restored },
        "allocations that had been taken away from this node's attachments are restored",
      );
    for (const { network, containerId, interface: name, pod } of over)
      this.#log.warn(
        { network, containerId, interface: name, pod },
        "its pod has ended and its address was released, and no DEL came; ended",
      );
    for (const { network, containerId, interface: name, ips, pod } of lost) {
      const addresses = ips.map((ip) => ip.address).join(", ");
      const message = `${addresses} of network ${network} belongs to somebody else, and container ${containerId} (${name}) still uses it`;
      this.#log.error({ network, containerId, interface: name }, message);
      this.#cluster.warnPod(pod, "AddressLost", `${message}; recreate the pod`);
    }
    return stillLost > 0;
  }

  stop(): void {
    for (const task of this.#tasks) void task.stop();
  }

  async #try(): Promise<void> {
    if (this.#settled) return;
    let againMs = SETTLE_INTERVAL_MS;
    try {
      await this.#settle();
    } catch (error) {
      againMs = this.#atRandom(SETTLE_AGAIN_MS_MAX);
      const { message } = error as Error;
      if (this.#settled || message !== this.#problem)
        this.#log.warn({ err: error as Error }, this.#settled ? "comparing with the API" : "not ready yet");
      if (!this.#settled) this.#problem = message;
    }
    if (!this.#settled) this.#settling.trigger(againMs);
  }

  /** Once everything is listed: settles the releases of the previous process, and what it held. */
  async #settle(): Promise<void> {
    const { store } = this.#cluster;
    if (!this.#mayBegin() || this.#cluster.notReady() !== null) return;
    this.#logRecovered(await store.recoverJournal(), "the journal was empty");
    await store.drainOutbox();
    // The database was damaged meanwhile: to be retried.
    if (store.isNew) return;
    // Before ADDs are served: allocations of this node may have been lost while it was down.
    await this.#compare({ afterGap: true });
    this.#settled = true;
    this.#problem = null;
    this.#log.info("ready");
    if (!store.isSettled || store.mustRecover) this.#recoverSoon();
  }

  #logRecovered(recovered: number, why: string): void {
    if (recovered === 0) return;
    this.#log.warn({ recovered }, `${why}; what the API knows of this node's containers is recorded again`);
  }
}
