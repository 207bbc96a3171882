import { type Refusal, refuse } from "../../../ipam/refusals.ts";
import { type Clock, sleep } from "../../../platform/time.ts";
import type { Creation } from "./served-since.ts";

/** How often an ADD that waits looks whether it may go on, ms. */
const LOOK_AGAIN_MS = 50;
/** Less time than this, ms, is not enough for an ADD. */
const ADD_MS_MIN = 1_000;

export interface ContinuityOptions {
  /** After a gap in contact, ms, until everybody who lost something will have said so. */
  readonly settleMs: number;
  /** How long, ms, a network recovers after the last node has said that it lost something. */
  readonly recoveryMs: number;
  readonly clock: Clock;
  /** Reads the network's mark from the API server now, and tells it to `noteMark`. Throws ApiAway. */
  look(network: string, deadlineMs: number): Promise<void>;
  /** Tells everybody that allocations of the network were taken away. Throws ApiAway. */
  mark(network: string, what: string): Promise<void>;
  /** The API server has an older state than the one that this node has seen. */
  onWentBack(): void;
}

/** What counted before a gap, and counts again if the API server turns out to have been there all the time. */
interface Before {
  readonly validSince: number;
  readonly compared: boolean;
  readonly settledMs: number;
}

/**
 * Whether the API server still has what it had: a server that was restored from a backup knows nothing of what was
 * allocated since, and would let the address of a running container be created again. After every gap in contact nobody new
 * gets an address from this node before it has compared what it holds itself, and the others have had the time to; and nobody
 * does on a network that somebody has marked. A gap in which the API server was there, because only the connection was cut, is
 * taken back.
 * See docs/decisions/0025.
 */
export class Continuity {
  readonly #options: ContinuityOptions;
  #epoch = 0;
  /** The first epoch of which what was decided is still true. */
  #validSince = 0;
  #gap = 0;
  #lost = false;
  #compared = true;
  /** Nobody new before this, ms. */
  #settledMs = Number.NEGATIVE_INFINITY;
  /** The newest version of anything that was seen. */
  #newest = 0n;
  /** The newest of this node's creations. */
  #created: Creation | null = null;
  /** The newest that the watch has outlived: contact was there when it happened, and afterwards. */
  #reference: Creation | null = null;
  /** While it is being found out whether the server was away: since the first gap of which that is not known. */
  #before: Before | null = null;
  readonly #marks = new Map<string, { readonly mark: string; readonly seenMs: number }>();
  /** By network: the epoch in which its mark was read. */
  readonly #looked = new Map<string, number>();

  constructor(options: ContinuityOptions) {
    this.#options = options;
  }

  /** Another number after each gap, and when something was missing: what was decided before may not be true any more (`whyNot`). */
  get epoch(): number {
    return this.#epoch;
  }

  /** Another number after each gap. */
  get gap(): number {
    return this.#gap;
  }

  /** Networks that recover now, as far as this node has heard. */
  get recovering(): string[] {
    return [...this.#marks.keys()].filter((network) => this.recoveryLeftMs(network) > 0);
  }

  /** The API server cannot be heard. */
  lose(): void {
    if (this.#lost) return;
    this.#lost = true;
    if (this.#reference !== null)
      this.#before ??= {
        validSince: this.#validSince,
        compared: this.#compared,
        settledMs: this.#settledMs,
      };
    this.#begin();
  }

  /** It can be heard again. Whether it could not be before. */
  regain(): boolean {
    if (!this.#lost) return false;
    this.#lost = false;
    this.#settledMs = Math.max(this.#settledMs, this.#options.clock.monotonicMs() + this.#options.settleMs);
    return true;
  }

  /** What an API server must have seen happen if there was no gap; null: there was none, or it cannot be found out. */
  get inQuestion(): Creation | null {
    return this.#before === null ? null : this.#reference;
  }

  /**
   * The answer for a gap, by a question that was asked after the watch was there again. `served`: since before the gap an API
   * server has run without a break, so none was restored, and all is as it was. Returns whether it came in time to count.
   */
  noteServed(gap: number, served: boolean): boolean {
    if (this.#before === null || gap !== this.#gap || this.#lost) return false;
    if (served) {
      this.#validSince = this.#before.validSince;
      this.#compared ||= this.#before.compared;
      this.#settledMs = this.#before.settledMs;
    } else this.#reference = null;
    this.#before = null;
    return true;
  }

  /** This node has created an allocation. */
  noteCreated({ name, uid, resourceVersion }: { name: string; uid: string; resourceVersion: string }): void {
    const version = versionOf(resourceVersion);
    if (version !== null && version > 1n) this.#created = { name, uid, version };
  }

  /** The watch by which gaps are noticed has brought an event or a bookmark. */
  noteWatched(resourceVersion: string): void {
    const version = versionOf(resourceVersion);
    if (this.#created === null || version === null || version < this.#created.version) return;
    if (!this.#lost && this.#before === null) this.#reference = this.#created;
  }

  /** What this node holds was compared with the API, by a comparison that began after this gap. */
  noteCompared(gap: number): void {
    if (gap === this.#gap && !this.#lost) this.#compared = true;
  }

  /** The newest version of anything seen so far: give it back with what is asked for next. */
  get newest(): bigint {
    return this.#newest;
  }

  /** A version of an object that was read. */
  noteVersion(resourceVersion: string | undefined): void {
    const version = versionOf(resourceVersion);
    if (version !== null && version > this.#newest) this.#newest = version;
  }

  /**
   * The version that a write or a whole list has come with: such a one is newer than everything seen before it was asked for.
   * Versions are those of etcd, and count upwards as long as it is the same.
   */
  noteCurrent(resourceVersion: string | undefined, newestBefore: bigint): void {
    const version = versionOf(resourceVersion);
    if (version !== null && version < newestBefore) {
      this.#newest = version;
      this.#distrust();
      this.#begin();
      this.#settledMs = this.#options.clock.monotonicMs() + this.#options.recoveryMs;
      this.#options.onWentBack();
    } else this.noteVersion(resourceVersion);
  }

  /** What the IPNetwork says: a text of its own for each time that a node marks it; null: no mark. */
  noteMark(network: string, mark: string | null): void {
    if (mark === null) this.#marks.delete(network);
    else if (this.#marks.get(network)?.mark !== mark)
      this.#marks.set(network, { mark, seenMs: this.#options.clock.monotonicMs() });
  }

  /** How long a mark has to stand yet, ms. */
  recoveryLeftMs(network: string): number {
    const known = this.#marks.get(network);
    if (known === undefined) return 0;
    return Math.max(0, known.seenMs + this.#options.recoveryMs - this.#options.clock.monotonicMs());
  }

  /** Something of this node's was missing: nobody new on the network, here at once and everywhere soon. Throws ApiAway. */
  async missing(network: string, what: string): Promise<void> {
    this.#distrust();
    this.#beginEpoch();
    this.noteMark(network, what);
    await this.#options.mark(network, what);
  }

  /** Waits until somebody new may get an address; the refusal when that takes too long. Throws ApiAway. */
  async admit(network: string, deadlineMs: number): Promise<Refusal | null> {
    for (;;) {
      const epoch = this.#epoch;
      const nowMs = this.#options.clock.monotonicMs();
      const settleLeftMs = this.#settledMs - nowMs;
      const recoveryLeftMs = this.recoveryLeftMs(network);
      const closed = this.#lost || !this.#compared;
      if (!closed && settleLeftMs <= 0 && recoveryLeftMs <= 0) {
        if (this.#looked.get(network) === epoch) return null;
        await this.#options.look(network, deadlineMs);
        this.#looked.set(network, epoch);
        continue;
      }
      // While the gap is in question nobody knows whether there is anything to wait for.
      const leftMs = this.#before === null ? Math.max(settleLeftMs, recoveryLeftMs) : recoveryLeftMs;
      const roomMs = deadlineMs - nowMs - ADD_MS_MIN;
      if (leftMs > roomMs || roomMs <= 0) return this.#refusal(network, closed, leftMs);
      await sleep(this.#options.clock, Math.min(LOOK_AGAIN_MS, roomMs));
    }
  }

  /** For writes of an ADD that was admitted in an epoch: why they must not be sent any more. */
  whyNot(epoch: number): string | null {
    return epoch >= this.#validSince ? null : "contact with the API server was lost meanwhile";
  }

  /** Waits where the gap that ended an epoch is in question. Returns whether it was. */
  async untilKnown(epoch: number, deadlineMs: number): Promise<boolean> {
    const inQuestion = () =>
      this.#before !== null && epoch >= this.#before.validSince && epoch < this.#validSince;
    if (!inQuestion()) return false;
    while (inQuestion() && this.#options.clock.monotonicMs() < deadlineMs)
      await sleep(this.#options.clock, LOOK_AGAIN_MS);
    return true;
  }

  #begin(): void {
    this.#beginEpoch();
    this.#gap += 1;
    this.#compared = false;
  }

  #beginEpoch(): void {
    this.#epoch += 1;
    this.#validSince = this.#epoch;
  }

  /** The server has been restored, or something else took away what it had: nothing from before proves anything. */
  #distrust(): void {
    this.#created = null;
    this.#reference = null;
    this.#before = null;
  }

  #refusal(network: string, closed: boolean, leftMs: number): Refusal {
    const seconds = Math.ceil(leftMs / 1_000);
    const reason = closed
      ? "contact with the API server was lost, and what this node holds is not compared with it yet"
      : this.recoveryLeftMs(network) > 0
        ? `allocations were taken away, and the nodes put back what their containers use, ${seconds} s more`
        : `contact with the API server was lost, and other nodes compare what they hold with it, ${seconds} s more`;
    return refuse("NETWORK_RECOVERING", { network, reason });
  }
}

function versionOf(resourceVersion: string | undefined): bigint | null {
  return resourceVersion !== undefined && /^[1-9]\d*$/.test(resourceVersion) ? BigInt(resourceVersion) : null;
}
