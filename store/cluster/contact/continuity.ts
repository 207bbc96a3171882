import type { Contact, Written } from "../../../allocations/allocation-client.ts";
import { type Refusal, refuse } from "../../../ipam/refusals.ts";
import { type Clock, sleep } from "../../../platform/time.ts";
import type { RecoveryMark } from "./recovery.ts";

/** How often a waiting ADD checks whether it may go on, ms. */
const LOOK_AGAIN_MS = 50;
/** An ADD with less time left than this, ms, does not wait. */
const ADD_MS_MIN = 1_000;
/**
 * A write that was sent less than this ago, ms, and is found as it was written proves that nothing is lost: a backup
 * that has it is younger, and taking it, stopping every API server, restoring etcd and starting one again takes longer.
 */
export const PROOF_MS_MAX = 2_000;
/** So many writes are remembered: the newest objects may be those that were being written when contact was lost. */
const WRITTEN_MAX = 8;
/** The API server's clock shows whole seconds. */
const SERVER_CLOCK_STEP_MS = 1_000;

export interface ContinuityOptions {
  /** After a gap in contact, ms, until every node that lost something will have reported it. */
  readonly settleMs: number;
  /** How long, ms, a network recovers after the last report of a loss. */
  readonly recoveryMs: number;
  readonly clock: Clock;
  /** Reads the network's mark from the API server now and passes it to `noteMark`. Throws ApiAway. */
  readMark(network: string, deadlineMs: number): Promise<void>;
  /** Marks the network for all nodes: allocations of it were lost. Throws ApiAway. */
  mark(network: string, mark: RecoveryMark): Promise<void>;
  /** The API server has an older state than the one that this node has seen. */
  onWentBack(): void;
}

/**
 * A server restored from a backup would accept a second create for the address of a running container. So after every
 * gap in contact nothing is given to new owners until this node has compared what it holds, and the others have had the
 * time to, or the last write proves that they need none; and never on a network that a node has marked. See
 * docs/decisions/0081.
 */
export class Continuity implements Contact {
  readonly #options: ContinuityOptions;
  #epoch = 0;
  /** Decisions made in epochs before this one are no longer valid. */
  #validSince = 0;
  #gap = 0;
  #lost = false;
  #compared = true;
  /** No allocations to new owners before this instant, ms. */
  #settledMs = Number.NEGATIVE_INFINITY;
  #newest = 0n;
  /** By path, in order: the last ones sent while nothing was in doubt, but of objects that are being written again. */
  readonly #written = new Map<string, Written>();
  readonly #marks = new Map<string, { readonly id: string; readonly seenMs: number }>();
  /** By network: the epoch in which its mark was read. */
  readonly #markEpochs = new Map<string, number>();

  constructor(options: ContinuityOptions) {
    this.#options = options;
  }

  /** Changes after each gap, and when something was missing: earlier decisions may be invalid then (`whyNot`). */
  get epoch(): number {
    return this.#epoch;
  }

  /** Changes after each gap. */
  get gap(): number {
    return this.#gap;
  }

  /** Networks that are recovering, as far as this node knows. */
  get recovering(): string[] {
    return [...this.#marks.keys()].filter((network) => this.recoveryLeftMs(network) > 0);
  }

  /** Why no new owner gets an address now, on any network, however long an ADD waits; null: nothing is in the way. */
  get closed(): string | null {
    if (this.#lost || !this.#compared)
      return "contact with the API server was lost, and what this node holds is not compared with it yet";
    const settleLeftMs = this.#settledMs - this.#options.clock.monotonicMs();
    // So long an ADD waits.
    return settleLeftMs <= this.#options.settleMs ? null : othersCompare(settleLeftMs);
  }

  /** Nothing is in doubt since the last gap: this node has compared, and the others had time to. */
  get isSettled(): boolean {
    return !this.#lost && this.#compared && this.#settledMs <= this.#options.clock.monotonicMs();
  }

  lose(): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#begin();
  }

  /** Contact is there again. Returns whether it was lost before. */
  regain(): boolean {
    if (!this.#lost) return false;
    this.#lost = false;
    this.#settledMs = Math.max(this.#settledMs, this.#options.clock.monotonicMs() + this.#options.settleMs);
    return true;
  }

  /** This node has compared what it holds with the API; the comparison began after this gap. */
  noteCompared(gap: number): void {
    if (gap === this.#gap && !this.#lost) this.#compared = true;
  }

  /** The object is about to be written: nobody knows in which version it will be found. */
  noteWriting(path: string): void {
    this.#written.delete(path);
  }

  /** Notes a write that was sent and answered while this was settled, without a gap in between. */
  noteWritten(written: Written): void {
    this.#written.delete(written.path);
    this.#written.set(written.path, written);
    const [oldest] = this.#written.keys();
    if (this.#written.size > WRITTEN_MAX && oldest !== undefined) this.#written.delete(oldest);
  }

  /** The last such write, if it is young enough to prove anything. */
  get witness(): Written | null {
    const written = [...this.#written.values()].at(-1);
    if (written === undefined) return null;
    return this.#options.clock.monotonicMs() - written.sentMs <= PROOF_MS_MAX ? written : null;
  }

  /**
   * The witness was read after this gap and is as it was written: so is all that anybody wrote before it, and the
   * others have nothing to find out. By the server's clock as well, for this machine may have stood still.
   */
  noteProven(gap: number, witness: Written, serverMs: number): void {
    const ageMs = this.#options.clock.monotonicMs() - witness.sentMs;
    const serverAgeMs = Math.abs(serverMs - witness.serverMs);
    const isYoung = ageMs <= PROOF_MS_MAX && serverAgeMs <= PROOF_MS_MAX + SERVER_CLOCK_STEP_MS;
    if (isYoung && gap === this.#gap && !this.#lost) this.#settledMs = this.#options.clock.monotonicMs();
  }

  get newest(): bigint {
    return this.#newest;
  }

  noteVersion(resourceVersion: string | undefined): void {
    const version = versionOf(resourceVersion);
    if (version !== null && version > this.#newest) this.#newest = version;
  }

  /**
   * Notes the version returned by a write or a complete list: it is newer than everything seen before the request.
   * Versions are those of etcd and only increase while etcd is the same.
   */
  noteCurrent(resourceVersion: string | undefined, newestBefore: bigint): void {
    const version = versionOf(resourceVersion);
    if (version !== null && version < newestBefore) {
      this.#newest = version;
      this.#written.clear();
      this.#begin();
      this.#settledMs = this.#options.clock.monotonicMs() + this.#options.recoveryMs;
      this.#options.onWentBack();
    } else this.noteVersion(resourceVersion);
  }

  /** Notes the mark in the IPNetwork; null: no mark. */
  noteMark(network: string, mark: Pick<RecoveryMark, "id"> | null): void {
    if (mark === null) this.#marks.delete(network);
    else if (this.#marks.get(network)?.id !== mark.id)
      this.#marks.set(network, { id: mark.id, seenMs: this.#options.clock.monotonicMs() });
  }

  /** How much longer a mark is in force, ms. */
  recoveryLeftMs(network: string): number {
    const known = this.#marks.get(network);
    if (known === undefined) return 0;
    return Math.max(0, known.seenMs + this.#options.recoveryMs - this.#options.clock.monotonicMs());
  }

  /** Something was missing: no new owners on the network, here at once and soon everywhere. Throws ApiAway. */
  async missing(network: string, what: string): Promise<void> {
    this.#beginEpoch();
    const { clock, recoveryMs } = this.#options;
    const seconds = secondsOf(recoveryMs);
    const mark = { id: clock.randomBytes(8).toString("hex"), seconds, message: `${what}; for ${seconds} s` };
    this.noteMark(network, mark);
    await this.#options.mark(network, mark);
  }

  /** Resolves when a new owner may have one; the refusal: too late, or at once without `waits`. Throws ApiAway. */
  async admit(network: string, deadlineMs: number, { waits = true } = {}): Promise<Refusal | null> {
    for (;;) {
      const epoch = this.#epoch;
      const nowMs = this.#options.clock.monotonicMs();
      const settleLeftMs = this.#settledMs - nowMs;
      const recoveryLeftMs = this.recoveryLeftMs(network);
      const closed = this.#lost || !this.#compared;
      if (!closed && settleLeftMs <= 0 && recoveryLeftMs <= 0) {
        if (this.#markEpochs.get(network) === epoch) return null;
        await this.#options.readMark(network, deadlineMs);
        this.#markEpochs.set(network, epoch);
        continue;
      }
      const leftMs = Math.max(settleLeftMs, recoveryLeftMs);
      const roomMs = deadlineMs - nowMs - ADD_MS_MIN;
      if (!waits || leftMs > roomMs || roomMs <= 0) return this.#refusal(network, leftMs);
      await sleep(this.#options.clock, Math.min(LOOK_AGAIN_MS, roomMs));
    }
  }

  /** For writes of an ADD that was admitted in an epoch: why they must no longer be sent; null: they may. */
  whyNot(epoch: number): string | null {
    return epoch >= this.#validSince ? null : "contact with the API server was lost meanwhile";
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

  #refusal(network: string, leftMs: number): Refusal {
    const { closed } = this;
    const recovering = `allocations were taken away, and the nodes put back what their containers use, ${secondsOf(leftMs)} s more`;
    const reason = closed ?? (this.recoveryLeftMs(network) > 0 ? recovering : othersCompare(leftMs));
    return refuse("NETWORK_RECOVERING", { network, reason });
  }
}

function othersCompare(leftMs: number): string {
  return `contact with the API server was lost, and other nodes compare what they hold with it, ${secondsOf(leftMs)} s more`;
}

function secondsOf(ms: number): number {
  return Math.ceil(ms / 1_000);
}

function versionOf(resourceVersion: string | undefined): bigint | null {
  return resourceVersion !== undefined && /^[1-9]\d*$/.test(resourceVersion) ? BigInt(resourceVersion) : null;
}
