import { OWNER_KINDS } from "../../../ipam/owner.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { type Address, sameAddress } from "../../../ipam/space/address.ts";
import { ApiAway } from "../../../kube/kube-api.ts";
import { allocationName } from "../../../kube/object-names.ts";
import { attachmentKey, attachmentsIn, type IPAllocation } from "../../../kube/objects.ts";
import type { Log } from "../../../platform/log.ts";
import { PeriodicTask } from "../../../platform/periodic-task.ts";
import { attachmentsOf } from "../../journal/holdings.ts";
import type { Ledger } from "../../journal/ledger.ts";
import { type AttachmentRow, addressesOf, type OwedRow, ownerOf as useOwnerOf } from "../../journal/rows.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";
import { isUnderWay, takingOf } from "../../journal/uses.ts";
import { objectOf, verdictOn } from "../agreement/facts.ts";
import type { Facts } from "../agreement/relations.ts";
import type { AllocationClient } from "../allocations/allocation-client.ts";
import { sameAllocationOwner } from "../allocations/allocation-object.ts";
import { type Change, giveBack } from "../allocations/give-back.ts";
import { tooManyWriters } from "../allocations/hold.ts";
import type { Picture } from "../allocations/picture.ts";
import { noteReleased } from "./unproven.ts";

/** Longest time for one release before the others get their turn, ms. */
const DELIVERY_MS_MAX = 10_000;
/** Releases sent at once: a draining node frees a hundred addresses a second and leaves room for ADDs. */
const TOGETHER_MAX = 8;
/** Pause after a release could not be sent, ms. */
const RETRY_PAUSE_MS = 1_000;
/** After this long, a write of an abandoned request can no longer arrive, nor what the controller puts back, ms. */
const LATE_WRITE_MS_MAX = 120_000;

/** Releases that have not been sent yet. */
export interface Owed {
  readonly count: number;
  /** The youngest; 0: there is none. */
  readonly lastId: number;
}

/**
 * Sends the releases of this node to the API server. Every row names its owner and container: an address that now
 * belongs to another owner is left alone.
 */
export class Outbox {
  readonly #directory: StateDirectory;
  readonly #client: AllocationClient;
  readonly #picture: Picture;
  readonly #underWay: ReadonlySet<string>;
  readonly #log: Pick<Log, "warn">;
  /** By row: when what must be checked again was first sent, ms of the monotonic clock. */
  readonly #toldMs = new Map<number, number>();
  readonly #sending: PeriodicTask;
  #postponed = false;

  constructor(parts: {
    directory: StateDirectory;
    client: AllocationClient;
    picture: Picture;
    /** ADDs of this process that have not ended. */
    underWay: ReadonlySet<string>;
    log: Pick<Log, "warn">;
  }) {
    this.#directory = parts.directory;
    this.#client = parts.client;
    this.#picture = parts.picture;
    this.#underWay = parts.underWay;
    this.#log = parts.log;
    this.#sending = new PeriodicTask({
      ...{ clock: parts.client.clock, retryMs: RETRY_PAUSE_MS },
      work: () => this.#send(),
      onFailure: (error) => {
        if (!(error instanceof ApiAway)) this.#log.warn(`owed releases: ${error.message}; trying again`);
      },
    });
  }

  /** How many rows have not been sent yet, of those up to `lastId`; and the youngest of them. */
  owed(lastId = Number.MAX_SAFE_INTEGER): Owed {
    const { n, last } = this.#directory.ledger.sql.owedCount.get(lastId) ?? { n: 0, last: null };
    return { count: n, lastId: last ?? 0 };
  }

  /** From now on they are sent by themselves: this machine certainly is the node that it claims to be. */
  begin(): void {
    this.#sending.start();
    this.wake();
  }

  /** There may be something to send. */
  wake(): void {
    this.#sending.trigger();
  }

  /** Sends everything once. Throws ApiAway, and errors of the database. */
  async drain(): Promise<void> {
    for (let after = 0; ; ) {
      const rows = this.#directory.ledger.sql.owedAfter.all(after, TOGETHER_MAX);
      const last = rows[rows.length - 1];
      if (!last) return;
      after = last.id;
      await Promise.all(rows.map((row) => this.#deliver(row)));
    }
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
  async #deliver(row: OwedRow): Promise<void> {
    try {
      await this.#tell(row);
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      this.#postponed = true;
      const { name } = this.#directory.ledger.networkById(row.network_id);
      this.#log.warn(`an owed release on network ${name} is refused: ${error.message}; trying again`);
    }
  }

  async #tell(row: OwedRow): Promise<void> {
    const toldMs = this.#toldMs.get(row.id);
    const nowMs = this.#client.clock.monotonicMs();
    const isLookedAtAgain = row.phase === "gone";
    if (isLookedAtAgain && toldMs !== undefined && nowMs - toldMs < LATE_WRITE_MS_MAX) return;
    const results = await this.#releaseAll(row);
    const released = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    const failed = results.find((result) => result.status === "rejected");
    if (failed !== undefined || released.includes("later")) {
      // What was written is found given back the next time, and is noted now.
      if (released.some((one) => typeof one === "object"))
        await this.#directory.write((ledger) => note(ledger, row, released));
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
    await this.#directory.write((ledger) => {
      note(ledger, row, released);
      settle(ledger, row, checkAgain);
    });
  }

  #releaseAll(row: OwedRow): Promise<PromiseSettledResult<Released>[]> {
    return Promise.allSettled(addressesOf(row).map(({ address }) => this.#release(row, address)));
  }

  async #release(row: OwedRow, address: Address): Promise<Released> {
    const { ledger } = this.#directory;
    const { name: network } = ledger.networkById(row.network_id);
    const holder = {
      owner: ownerOf(row),
      attachment: { containerID: row.container_id, interface: row.interface },
    };
    const outcome = await giveBack<"told" | "later">(
      this.#client,
      { name: allocationName(network, address) },
      (reading) => {
        const { object } = reading;
        const isOwn = sameAllocationOwner(object.spec.owner, ownerOf(row));
        const needed = () =>
          isOwn ? neededBy(ledger, row, address, this.#underWay) : neededByContainer(ledger, row, address);
        const verdict = verdictOn({ phase: "leaving", object: objectOf(reading, holder) }, { needed });
        if (verdict === "close") return { kind: "leave", why: "told" };
        if (verdict === "wait") return { kind: "leave", why: "later" };
        const key = attachmentKey(row.container_id, row.interface);
        return isOwn ? changeFor(object, row) : { kind: "prune", keys: [key] };
      },
      this.#client.clock.monotonicMs() + DELIVERY_MS_MAX,
    );
    switch (outcome.kind) {
      case "absent":
        this.#picture.noteFree(network, address);
        return "absent";
      case "other":
        return "told";
      case "left":
        return outcome.why;
      case "changed":
        throw tooManyWriters(network, address);
      case "done": {
        const { metadata, status, spec } = outcome.object;
        this.#picture.note(network, address, spec.owner.uid, status?.state, metadata.resourceVersion);
        return outcome.object;
      }
    }
  }
}

/**
 * The object as written; "told": nothing had to be written; "absent": nor released; "later": an ADD of the same owner is
 * under way and may be about to use the address.
 */
type Released = IPAllocation | "told" | "later" | "absent";

function note(ledger: Ledger, row: OwedRow, released: readonly Released[]): void {
  for (const one of released) {
    if (typeof one !== "object") continue;
    const { name, resourceVersion } = one.metadata;
    const key = attachmentKey(row.container_id, row.interface);
    noteReleased(ledger, { version: Number(resourceVersion), name, key });
  }
}

function settle({ sql }: Ledger, { id }: OwedRow, checkAgain: boolean): void {
  if (checkAgain) {
    sql.lookAgain.run(id);
    return;
  }
  // Its DEL may have come while the API server was asked.
  sql.settleDeleted.run(id);
  sql.settle.run(id);
}

/** The owner of a use in the form of IPAllocations. */
function ownerOf({ owner_kind: kind, owner_uid: uid, owner_interface: interfaceName }: OwedRow) {
  return { kind: OWNER_KINDS[kind].object, uid, interface: interfaceName };
}

/** Whether the same owner has attached again with the address meanwhile, or is about to. */
function neededBy(
  ledger: Ledger,
  row: OwedRow,
  address: Address,
  underWay: ReadonlySet<string>,
): Facts["needed"] {
  if (isUsed(ledger, row, address)) return "held";
  return isBeingAdded(ledger, row, underWay) ? "adding" : "no";
}

/** The same of an address that was handed over to a claim while the container used it: only the container counts. */
function neededByContainer({ sql }: Ledger, row: OwedRow, address: Address): Facts["needed"] {
  if (sql.attachmentsOfContainer.all(row.container_id, row.interface).some((one) => has(one, address)))
    return "held";
  return sql.takingOfContainer.all(row.container_id, row.interface).length > 0 ? "adding" : "no";
}

function isUsed(ledger: Ledger, row: OwedRow, address: Address): boolean {
  // Other attachments may use the address of an owner that outlives them: only those of this container count.
  const rows = OWNER_KINDS[row.owner_kind].outlivesAttachments
    ? ledger.sql.attachmentsOfContainer.all(row.container_id, row.interface)
    : attachmentsOf(ledger, useOwnerOf(row));
  return rows
    .filter((one) => one.network_id === row.network_id && one.owner_uid === row.owner_uid)
    .some((one) => has(one, address));
}

/** Whether an attachment has an address. */
function has(one: AttachmentRow, address: Address): boolean {
  return addressesOf(one).some((its) => sameAddress(its.address, address));
}

/**
 * A row is written before an ADD's first write and becomes its attachment. One at rest, whose ADD has ended without an
 * answer, keeps nothing: the next ADD reads what it finds, and takes back what cools down.
 */
function isBeingAdded(ledger: Ledger, row: OwedRow, underWay: ReadonlySet<string>): boolean {
  const adds = takingOf(ledger, useOwnerOf(row), row.network_id);
  return adds.some((add) => isUnderWay(ledger, add, underWay));
}

/**
 * The object without what has ended; it cools down when that was the last attachment of an owner that ends with
 * it.
 */
function changeFor(object: IPAllocation, row: OwedRow): Change<"told"> {
  const attachments = attachmentsIn(object);
  const own = attachmentKey(row.container_id, row.interface);
  const keys = attachments.flatMap((one) => {
    const key = attachmentKey(one.containerID, one.interface);
    const isFormer =
      row.owner_kind === "pod" && one.pod?.uid === row.owner_uid && one.interface === row.owner_interface;
    return key === own || isFormer ? [key] : [];
  });
  if (!OWNER_KINDS[row.owner_kind].outlivesAttachments && attachments.length === keys.length)
    return { kind: "cool", holderEnded: row.ended === 1 && keys.every((key) => key === own) };
  return keys.length === 0 ? { kind: "leave", why: "told" } : { kind: "prune", keys, ended: row.ended === 1 };
}
