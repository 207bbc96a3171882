import type { AllocationClient } from "../../../allocations/allocation-client.ts";
import type { PodIdentity } from "../../../allocations/records.ts";
import type { NetworkDefinition } from "../../../ipam/definition/network-definition.ts";
import type { Finding } from "../../../ipam/finding.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { logFailure, PeriodicTask, type PeriodicTaskOptions } from "../../../platform/periodic-task.ts";
import type { Clock } from "../../../platform/time.ts";
import type { ClusterStoreLog } from "../../node-context.ts";
import type { Readiness } from "../../readiness.ts";
import type { AttachParts } from "../parts/attach-parts.ts";
import { OtherNode, readNodeIdentity } from "../parts/node-identity.ts";
import { type Extent, type HeldUses, judgeHeldUses } from "./held.ts";
import { readNodeObject } from "./node-object.ts";
import { Over } from "./over.ts";
import { judgeOwnObjects, type OwnObjects, whyList } from "./own-objects.ts";
import { GapNote, markUnproven } from "./unproven.ts";

/** Its name among what an ADD needs: it begins when all before it is there. */
export const AGREEMENT = "agreement";
/** Pause before anything is retried, at least, ms. */
const AGAIN_MS_MIN = 20;
/** Pause before settling is retried, at most, ms: a kubelet that has just started reports within seconds. */
const SETTLE_AGAIN_MS_MAX = 1_000;
/** After a reboot or restore a node lists what it uses within this time, ms, or its interval: thousands do at once. */
const LIST_WITHIN_MS = 120_000;
/** Pause before such a list is tried again, ms. */
const LIST_AGAIN_MS = 10_000;
/** Everything is compared at least once in this time, ms: somebody may have deleted single objects by force. */
const COMPARE_ALL_MS = 6 * 3_600_000;
/** Pause before an unfinished comparison with the API is retried, at most, ms. */
const COMPARE_AGAIN_MS_MAX = 5_000;

export interface AgreementParts {
  readonly attach: AttachParts;
  readonly api: KubeApi;
  /** For reads that nobody waits for. */
  readonly reads: AllocationClient;
  readonly releases: AllocationClient;
  /** ADDs of this process that have not ended. */
  readonly underWay: ReadonlySet<string>;
  readonly log: ClusterStoreLog;
  definitionOf(network: string): { readonly definition: NetworkDefinition } | null;
  /** Reads the API server's present version. Throws ApiAway. */
  probe(): Promise<unknown>;
  warnPod(pod: PodIdentity | null, reason: string, message: string): void;
}

interface Surroundings {
  /** How often it compares, ms. */
  readonly intervalMs: number;
  readonly readiness: Readiness;
}

/**
 * The loop over the table: at the start, when the journal had to begin anew, after every gap in contact, and every few
 * minutes. No step waits for another one that hangs: after a gap other nodes wait only seconds for what this one finds.
 */
export class Agreement {
  readonly over: Over;
  readonly gap: GapNote;
  readonly #parts: AgreementParts;
  readonly #clock: Clock;
  #surroundings: Surroundings | null = null;
  #tasks: readonly PeriodicTask[] = [];
  #settling: PeriodicTask | null = null;
  #comparingAgain: PeriodicTask | null = null;
  #listing: PeriodicTask | null = null;
  /** When everything is compared again, ms of the monotonic clock. */
  #allDueMs: number;
  /** When somebody last doubted, ms of the monotonic clock. */
  #doubtedMs = Number.NEGATIVE_INFINITY;
  #settled = false;
  /** Why the last attempt to settle failed; null: it did not. */
  #problem: string | null = null;
  /** Addresses that could not be put back. */
  readonly #unrestored = new Set<string>();

  constructor(parts: AgreementParts) {
    const { attach, releases, underWay, log } = parts;
    const { directory, context, picture, claimAccess } = attach;
    this.#parts = parts;
    this.#clock = context.clock;
    this.gap = new GapNote(directory);
    this.over = new Over({ directory, context, picture, claimAccess, client: releases, underWay, log });
    this.#allDueMs = this.#clock.monotonicMs() + this.#clock.random() * COMPARE_ALL_MS;
  }

  /** Why ADD must wait for it; null when it need not. */
  get pending(): string | null {
    if (this.#settled) return null;
    return this.#problem ?? "pending releases have not been sent to the API server yet";
  }

  findings(): Finding[] {
    if (this.#problem === null || this.#settled) return [];
    const hint = "nothing is given, recovered or released until then; docs/operations.md, Boot IDs";
    const message = `this node is not ready: ${this.#problem}`;
    return [{ invariant: "node", message, hint, whyNotReady: this.#problem }];
  }

  /** Retries until it has settled: the API server may come up later. */
  begin(surroundings: Surroundings): void {
    this.#surroundings = surroundings;
    const { intervalMs, readiness } = surroundings;
    const task = (
      what: string,
      work: PeriodicTaskOptions["work"],
      how: Pick<PeriodicTaskOptions, "intervalMs" | "retryMs"> = {},
    ) => new PeriodicTask({ clock: this.#clock, work, onFailure: logFailure(this.#parts.log, what), ...how });
    const onceReady = (work: () => Promise<void>) => async (signal: AbortSignal) => {
      if (await readiness.until(() => this.#mayCompare(), signal)) await work();
    };
    this.#settling = task("settling", (signal) => this.#settle(signal), { retryMs: SETTLE_AGAIN_MS_MAX });
    const compare = onceReady(() => this.#compareAfterGap());
    this.#comparingAgain = task("comparing with the API", compare);
    const list = onceReady(() => this.#listNow());
    this.#listing = task("looking for what the API server has of this node", list, { retryMs: LIST_AGAIN_MS });
    const comparing = task("comparing with the API", () => this.#mayCompare() && this.#compare(), { intervalMs });
    this.#tasks = [this.#settling, this.#comparingAgain, this.#listing, comparing];
    for (const one of this.#tasks) one.start(intervalMs);
    this.#settling.trigger();
  }

  /** The database was reopened. If it was damaged, it is a new one, and is filled from the API first. */
  reopened(): void {
    if (!this.#settled || this.#whyList() !== "new journal") return;
    this.#settled = false;
    this.#settling?.trigger();
  }

  /**
   * After a gap in contact: at once, whatever else is under way; before settling after it, for the comparison that is
   * part of it may have begun before the gap.
   */
  lostTouch(): void {
    if (this.#mayCompare()) void this.#compareAfterGap();
    else this.#comparingAgain?.trigger();
  }

  /** The API server certainly has an older state than before: that is known also after a restart in between. */
  wentBack(): void {
    const { directory } = this.#parts.attach;
    const compare = () => this.lostTouch();
    if (directory.status.kind !== "ready") compare();
    else directory.write(markUnproven).then(compare, compare);
  }

  /** Somebody has found that the API server lacks something of what this node holds. Heard once in each interval. */
  doubt(): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#doubtedMs < (this.#surroundings?.intervalMs ?? 0)) return;
    this.#doubtedMs = nowMs;
    this.#allDueMs = nowMs;
    this.lostTouch();
  }

  /** Nothing is compared any more; what is over is sent until `stop`. */
  halt(): void {
    for (const task of this.#tasks) void task.stop();
  }

  async stop(): Promise<void> {
    this.halt();
    await this.over.stop();
  }

  /** null: the journal lacks nothing. Throws ApiAway, OtherNode. */
  async judgeOwnObjects(why = this.#whyList()): Promise<OwnObjects | null> {
    if (why === null) return null;
    const { api, reads, attach, definitionOf } = this.#parts;
    const { directory, context, claimAccess } = attach;
    const ours = why === "first in boot" && (await this.identify());
    return judgeOwnObjects({ api, reads, directory, context, claimAccess, definitionOf }, why, ours);
  }

  judgeHeldUses(extent: Extent): Promise<HeldUses> {
    const { api, attach } = this.#parts;
    const node = () => readNodeObject(api, attach.directory, attach.context.node);
    const nothingProves = this.gap.isUnnoted;
    const everything = extent.everything || nothingProves;
    return judgeHeldUses(attach, { everything, nothingProves }, { unrestored: this.#unrestored, node });
  }

  /**
   * Before anything is given back in its name: whether the Node object certainly is this machine's. Throws OtherNode.
   */
  async identify(): Promise<boolean> {
    const { api, attach, log } = this.#parts;
    const identity = await readNodeIdentity(api, attach.context);
    if (identity.kind === "other") throw new OtherNode(identity.problem);
    if (identity.kind === "unknown" && this.#whyList() !== null)
      log.warn(`${identity.problem}; nothing is released for a restart of the machine`);
    return identity.kind === "ours";
  }

  #whyList() {
    const { directory } = this.#parts.attach;
    return directory.status.kind === "ready" ? whyList(directory.ledger) : null;
  }

  /** Thousands of nodes fail together. */
  #atRandom(msMax: number): number {
    return AGAIN_MS_MIN + this.#clock.random() * (msMax - AGAIN_MS_MIN);
  }

  #listSoon(): void {
    if (this.#whyList() === null) return;
    const intervalMs = this.#surroundings?.intervalMs ?? LIST_WITHIN_MS;
    this.#listing?.trigger(this.#clock.random() * Math.min(LIST_WITHIN_MS, intervalMs));
  }

  #mayBegin(): boolean {
    return this.#surroundings?.readiness.whyNot(AGREEMENT) === null;
  }

  #mayCompare(): boolean {
    return this.#settled && this.#mayBegin();
  }

  async #settle(signal: AbortSignal): Promise<void> {
    const { readiness } = this.#surroundings as Surroundings;
    if (this.#settled || !(await readiness.until(() => this.#mayBegin(), signal))) return;
    const { log } = this.#parts;
    let againMs = AGAIN_MS_MIN;
    try {
      await this.#settleOnce();
    } catch (error) {
      againMs = this.#atRandom(SETTLE_AGAIN_MS_MAX);
      const { message } = error as Error;
      if (message !== this.#problem) log.warn({ err: error as Error }, "not ready yet");
      this.#problem = message;
    }
    readiness.changed();
    if (!this.#settled) this.#settling?.trigger(againMs);
  }

  /** Once everything is listed: what must be judged before an ADD. */
  async #settleOnce(): Promise<void> {
    await this.identify();
    if (this.#whyList() === "new journal") await this.#listNow();
    // While no daemon ran nobody saw a gap.
    await this.gap.begin();
    this.over.begin();
    await this.over.drain();
    // Allocations of this node may have been lost while it was down.
    await this.#compare();
    // The database was damaged meanwhile: to be retried.
    if (this.#whyList() === "new journal") return;
    this.#settled = true;
    this.#problem = null;
    this.#parts.log.info("ready");
  }

  async #listNow(): Promise<void> {
    const found = await this.judgeOwnObjects();
    if (found === null) return;
    tellOwnObjects(this.#parts.log, found);
    this.over.wake();
  }

  /** A returning API server refuses much in its first seconds: retries until it succeeds. Never rejects. */
  async #compareAfterGap(): Promise<void> {
    const again = () => this.#comparingAgain?.trigger(this.#atRandom(COMPARE_AGAIN_MS_MAX));
    try {
      const stillLost = await this.#compare();
      // The other owner may release it: on a restored server it is the former holder, which exists again without a
      // container.
      if (stillLost && this.#parts.attach.continuity.recovering.length > 0) again();
    } catch (error) {
      this.#parts.log.warn({ err: error as Error }, "comparing with the API did not finish; will retry");
      again();
    }
  }

  async #compare(): Promise<boolean> {
    const { attach, log, warnPod, probe } = this.#parts;
    const { continuity } = attach;
    await probe();
    const { gap } = continuity;
    const allDueMs = this.#allDueMs;
    const everything = this.#clock.monotonicMs() >= allDueMs;
    const found = await this.judgeHeldUses({ everything });
    // Somebody may have doubted meanwhile what was compared before. What was refused is tried again.
    if (everything && this.#allDueMs === allDueMs && found.problems.length === 0)
      this.#allDueMs = this.#clock.monotonicMs() + this.#clock.random() * COMPARE_ALL_MS;
    continuity.noteCompared(gap);
    if (continuity.gap === gap) await this.gap.end();
    tellHeldUses(log, warnPod, found);
    this.#listSoon();
    return found.stillLost > 0;
  }
}

/** Why the journal may not have had what the API server has. */
const WHY: { readonly [W in OwnObjects["why"]]: string } = {
  "new journal": "the journal was empty",
  "first in boot": "the journal last served an earlier boot and did not have all",
  restored: "the API server may have been restored",
};

function tellOwnObjects(log: ClusterStoreLog, { why, recorded, pending }: OwnObjects): void {
  if (recorded > 0)
    log.warn({ recorded }, `${WHY[why]}; what the API knows of this node's containers is recorded again`);
  if (why === "first in boot" && pending > 0)
    log.warn(
      { pending },
      "the machine was rebooted in the middle of ADDs; what they had reserved for pods that have ended is given back",
    );
}

function tellHeldUses(
  log: ClusterStoreLog,
  warnPod: (pod: PodIdentity | null, reason: string, message: string) => void,
  { restored, lost, over, republished, freedWithNode, problems }: HeldUses,
): void {
  if (freedWithNode)
    log.warn(
      "this node's Node object was deleted, so the cluster gave back what its containers use: what nobody else has got since is put back",
    );
  if (problems.length > 0)
    log.error(
      { problems },
      "what this node holds could not be compared or put back for all of its attachments: the API server refuses it (a webhook, a policy, an object that is not sound); tried again every reassertIntervalSeconds, and holdfast check names the addresses",
    );
  if (republished.length > 0)
    log.warn({ claims: republished }, "claims that had lost their list of addresses have it again");
  if (restored > 0)
    log.warn({ restored }, "allocations that had been taken away from this node's attachments are restored");
  for (const { network, containerId, interface: name, pod } of over)
    log.warn(
      { network, containerId, interface: name, pod },
      "its pod has ended and its address was released, and no DEL came; ended",
    );
  for (const { network, containerId, interface: name, ips, pod } of lost) {
    const message = `${ips.map(({ address }) => address).join(", ")} of network ${network} belongs to somebody else, and container ${containerId} (${name}) still uses it`;
    log.error({ network, containerId, interface: name }, message);
    warnPod(pod, "AddressLost", `${message}; recreate the pod`);
  }
}
