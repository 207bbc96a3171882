import { RefusalError } from "../../../ipam/refusals.ts";
import { ApiAway } from "../../../kube/kube-api.ts";
import type { Log } from "../../../platform/log.ts";
import { PeriodicTask } from "../../../platform/periodic-task.ts";
import { severalAtOnce } from "../../../platform/several-at-once.ts";
import type { Ledger } from "../../journal/ledger.ts";
import { addressesOf, ownerOf, type PendingRow, type TakingRow } from "../../journal/rows.ts";
import { abandon, takingAtRest } from "../../journal/uses.ts";
import type { NodeContext } from "../../node-context.ts";
import type { ClaimAccess } from "../parts/claim-access.ts";
import { judgeAsking } from "./facts.ts";
import type { Facts } from "./relations.ts";
import { type Released, type ReleaseParts, releaseAddress } from "./release-address.ts";
import { noteReleased } from "./unproven.ts";
import { READ_MS_MAX } from "./written-last.ts";

/** Uses judged or compared at once: thousands within seconds, a hundred releases a second, with room for ADDs. */
export const TOGETHER_MAX = 8;
/** Pause after a release could not be sent, ms. */
const RETRY_PAUSE_MS = 1_000;
/** After this long, a write of an abandoned request can no longer arrive, nor what the controller puts back, ms. */
const LATE_WRITE_MS_MAX = 120_000;
/** A runtime that still wants an ADD has repeated it after so long, as a rule: its pod is asked for then. µs. */
const REPEATED_US_MAX = 30_000_000;
/** A runtime repeats an ADD within minutes: after this long, the addresses of an unfinished ADD are released. µs. */
const TAKING_US_MAX = 600_000_000;

export interface Pending {
  readonly count: number;
  /** The youngest; 0: there is none. */
  readonly lastId: number;
}

interface OverParts extends ReleaseParts {
  readonly context: NodeContext;
  readonly claimAccess: Pick<ClaimAccess, "hasEnded">;
  readonly log: Pick<Log, "warn">;
}

/** The uses of which nobody was answered, or which are over: what they have goes back to the API server. */
export class Over {
  readonly #parts: OverParts;
  /** By row: when what must be checked again was first sent, ms of the monotonic clock. */
  readonly #toldMs = new Map<number, number>();
  readonly #sending: PeriodicTask;
  #postponed = false;

  constructor(parts: OverParts) {
    this.#parts = parts;
    this.#sending = new PeriodicTask({
      ...{ clock: parts.context.clock, retryMs: RETRY_PAUSE_MS },
      work: () => this.#send(),
      onFailure: (error) => {
        if (!(error instanceof ApiAway)) parts.log.warn(`pending releases: ${error.message}; trying again`);
      },
    });
  }

  /** How many rows have not been sent yet, of those up to `lastId`; and the youngest of them. */
  pending(lastId = Number.MAX_SAFE_INTEGER): Pending {
    const { n, last } = this.#parts.directory.ledger.sql.pendingCount.get(lastId) ?? { n: 0, last: null };
    return { count: n, lastId: last ?? 0 };
  }

  /** From now on they are sent by themselves: this machine certainly is the node that it claims to be. */
  begin(): void {
    this.#sending.start();
    this.wake();
  }

  wake(): void {
    this.#sending.trigger();
  }

  /** Sends everything once, or that of one container's interface. Throws ApiAway, and errors of the database. */
  async drain(of?: { readonly containerId: string; readonly interface: string }): Promise<void> {
    for (let after = 0; ; ) {
      const rows = this.#parts.directory.ledger.sql.pendingAfter.all(after, TOGETHER_MAX);
      const last = rows[rows.length - 1];
      if (!last) return;
      after = last.id;
      const isMeant = (row: PendingRow) => row.container_id === of?.containerId && row.interface === of.interface;
      await Promise.all((of === undefined ? rows : rows.filter(isMeant)).map((row) => this.#deliver(row)));
    }
  }

  /**
   * What ADDs reserved to which nobody comes back. Never that of one under way in this process, however old: after a
   * suspend in the middle of it, its machine does not know what it has reserved.
   */
  async abandonUnanswered(nowUs: number): Promise<void> {
    const { directory, underWay } = this.#parts;
    const over = new Set<number>();
    await severalAtOnce(takingAtRest(directory.ledger, underWay), TOGETHER_MAX, async (taking) => {
      const ageUs = nowUs - taking.boot_us;
      const row = await judgeAsking(
        {
          phase: "taking",
          waited: ageUs > TAKING_US_MAX ? "longest" : ageUs > REPEATED_US_MAX ? "long-enough" : "no",
        },
        { pod: () => this.#podOf(taking) },
      );
      if (row?.verdict === "abandon") over.add(taking.id);
    });
    if (over.size === 0) return;
    await directory.write((ledger) => {
      for (const row of takingAtRest(ledger, underWay)) if (over.has(row.id)) abandon(ledger, row);
    });
    this.wake();
  }

  stop(): Promise<void> {
    return this.#sending.stop();
  }

  /** What had to be left for later is tried again like what could not be sent. */
  async #send(): Promise<void> {
    this.#postponed = false;
    await this.drain();
    if (this.#postponed) throw new ApiAway("releases were left for later");
  }

  /** What the server refuses for good is logged and kept, and does not hold up the others. */
  async #deliver(row: PendingRow): Promise<void> {
    try {
      await this.#giveBack(row);
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      this.#postponed = true;
      const { name } = this.#parts.directory.ledger.networkById(row.network_id);
      this.#parts.log.warn(`a pending release on network ${name} is refused: ${error.message}; trying again`);
    }
  }

  async #giveBack(row: PendingRow): Promise<void> {
    const { context, directory } = this.#parts;
    const toldMs = this.#toldMs.get(row.id);
    const nowMs = context.clock.monotonicMs();
    const isLookedAtAgain = row.phase === "gone";
    if (isLookedAtAgain && toldMs !== undefined && nowMs - toldMs < LATE_WRITE_MS_MAX) return;
    const results = await Promise.allSettled(
      addressesOf(row).map(({ address }) => releaseAddress(this.#parts, row, address)),
    );
    const released = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    const failed = results.find((result) => result.status === "rejected");
    if (failed !== undefined || released.includes("later")) {
      // What was written is found given back the next time, and is noted now.
      if (released.some((one) => typeof one === "object"))
        await directory.write((ledger) => note(ledger, row, released));
      if (failed !== undefined) throw failed.reason;
      this.#postponed = true;
      return;
    }
    // Somebody has deleted the object: the controller may be about to put it back with this container.
    const mayReturn = row.again === 0 && released.includes("absent");
    // After a restart the wait begins again: it is not known how long the daemon was down.
    const checkAgain = mayReturn || (row.again === 1 && (!isLookedAtAgain || toldMs === undefined));
    if (checkAgain) this.#toldMs.set(row.id, nowMs);
    else this.#toldMs.delete(row.id);
    await directory.write((ledger) => {
      note(ledger, row, released);
      settle(ledger, row, checkAgain);
    });
  }

  /** Of an ADD for a claim, nobody has noted whose ADD it was. */
  async #podOf(taking: TakingRow): Promise<Facts["pod"]> {
    if (taking.owner_kind !== "pod") return "none";
    const { context, claimAccess } = this.#parts;
    const { namespace, name, uid } = ownerOf(taking);
    try {
      const deadlineMs = context.clock.monotonicMs() + READ_MS_MAX;
      return (await claimAccess.hasEnded({ namespace, name, uid }, deadlineMs)) ? "gone" : "living";
    } catch (error) {
      if (error instanceof ApiAway) return "unknown";
      throw error;
    }
  }
}

function note(ledger: Ledger, row: PendingRow, released: readonly Released[]): void {
  for (const one of released) if (typeof one === "object") noteReleased(ledger, row, one);
}

function settle({ sql }: Ledger, { id }: PendingRow, checkAgain: boolean): void {
  if (checkAgain) {
    sql.lookAgain.run(id);
    return;
  }
  // Its DEL may have come while the API server was asked.
  sql.settleDeleted.run(id);
  sql.settle.run(id);
}
