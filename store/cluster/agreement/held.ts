import { sameAllocationOwner } from "../../../allocations/allocation-object.ts";
import { hold, tooManyWriters } from "../../../allocations/hold.ts";
import type { Attachment } from "../../../allocations/records.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { attachmentKey } from "../../../kube/objects.ts";
import { severalAtOnce } from "../../../platform/several-at-once.ts";
import { type AttachmentRow, addressesOf, attachmentOf, type ReleasedRow } from "../../journal/rows.ts";
import { addPending, journalEnd } from "../../journal/uses.ts";
import type { AttachParts } from "../parts/attach-parts.ts";
import { containerOf, isReleased, judgeAsking, objectOf } from "./facts.ts";
import { Missing } from "./missing.ts";
import type { NodeObject } from "./node-object.ts";
import { TOGETHER_MAX } from "./over.ts";
import type { EndingRow } from "./relations.ts";
import { isUnproven, lastBeforeGap, markCompared, markUnproven, releasesAfter, SINCE_MAX } from "./unproven.ts";
import { holderOfAttachment, isAsWritten, newestOf } from "./written-last.ts";

const PAGE = 100;
const ONE_MS_MAX = 10_000;

export interface HeldUses {
  /** Addresses whose object was missing, or lacked our attachment, and has been restored. */
  readonly restored: number;
  /** Attachments with an address that belongs to another owner now, and did not before. */
  readonly lost: readonly Attachment[];
  readonly stillLost: number;
  /** Claims whose list lacked what their containers use here: `namespace/name`. */
  readonly republished: readonly string[];
  /** Attachments that were ended: their address had been released because all containers of their pod have ended. */
  readonly over: readonly Attachment[];
  /** Something was missing because this node's Node object had been deleted: no network was marked for it. */
  readonly freedWithNode: boolean;
  /** What could not be compared or restored because the API server refuses it; left as it is until the next time. */
  readonly problems: readonly string[];
}

/**
 * Compares what this node holds with the API, unless that has what this node wrote last (docs/decisions/0077). A
 * permanent refusal is reported and skipped; `unrestored` remembers it between calls, so that its network is marked
 * once. What is missing since this node's Node was deleted was given back by the controller, and marks nothing. Throws
 * ApiAway.
 */
export async function judgeHeldUses(
  parts: AttachParts,
  { everything, nothingProves = false }: Extent,
  { unrestored, node }: { readonly unrestored: Set<string>; readonly node: () => Promise<NodeObject> },
): Promise<HeldUses> {
  const { directory } = parts;
  const { sql } = directory.ledger;
  const isKnown = isUnproven(directory.ledger, "comparing");
  const isThere = !isKnown && !nothingProves && (await hasLastWrite(parts));
  const proven = isThere && !everything;
  const comparison = new Comparison(
    parts,
    new Missing(parts, { unrestored, node: await node(), isRestored: !isThere }),
  );
  if (proven) {
    // What was lost may be there again.
    for (const row of sql.lostAttachments.all()) await comparison.compare(row);
    return comparison.finish(proven);
  }
  if (!isThere && !isKnown) await directory.write(markUnproven);
  for (let after = 0; ; ) {
    const rows = parts.directory.ledger.sql.attachmentsAfter.all(after, PAGE);
    const youngest = rows[rows.length - 1];
    if (!youngest) return comparison.finish(proven);
    after = youngest.id;
    await severalAtOnce(rows, TOGETHER_MAX, (row) => comparison.compare(row));
  }
}

/** Whether the API server has what this node wrote last. A node that holds nothing misses nothing. */
async function hasLastWrite(parts: AttachParts): Promise<boolean> {
  const { ledger } = parts.directory;
  const lastId = lastBeforeGap(ledger);
  const last = ledger.sql.attachmentWrittenLast.get(lastId);
  const released = releasesAfter(ledger, last?.version ?? -1);
  if (released === null) return false;
  for (const one of released) if (await isThereAgain(parts, one)) return false;
  const first = ledger.sql.firstAttachment.get();
  if (last === undefined && first !== undefined && first.id <= lastId) return false;
  // Of what was recorded since, some may have been written before.
  const recorded = ledger.sql.attachmentsAfter.all(lastId, SINCE_MAX);
  if (recorded.length === SINCE_MAX) return false;
  // What is somebody else's by now proves nothing.
  const since = recorded.filter(({ lost }) => lost === 0);
  for (const row of last === undefined ? since : [last, ...since])
    if (!(await isAsWritten(parts, attachmentIn(parts, row), row.version))) return false;
  return true;
}

/** Whether the API server has what was ended, or an older state of its allocation, which may be from before it. */
async function isThereAgain({ client, context, directory }: AttachParts, row: ReleasedRow): Promise<boolean> {
  const { name: network } = directory.ledger.networkById(row.network_id);
  const [{ address }] = addressesOf(row) as [InterfaceAddress];
  const reading = await client.read(network, address, context.clock.monotonicMs() + ONE_MS_MAX);
  if (reading === null) return false;
  const { metadata, status } = reading.object;
  const key = attachmentKey(row.container_id, row.interface);
  return key in (status?.attachments ?? {}) || Number(metadata.resourceVersion) < row.version;
}

/** How much is compared. `everything`: also when what was written last is there. */
export interface Extent {
  readonly everything: boolean;
  /** Nor is it evidence then. */
  readonly nothingProves?: boolean;
}

function attachmentIn({ directory }: Pick<AttachParts, "directory">, row: AttachmentRow): Attachment {
  return attachmentOf(row, directory.ledger.networkById(row.network_id).name);
}

class Comparison {
  readonly #parts: AttachParts;
  readonly #missing: Missing;
  readonly #problems: string[] = [];
  readonly #republished: string[] = [];
  readonly #lost: Attachment[] = [];
  readonly #over: Attachment[] = [];
  #restored = 0;
  #stillLost = 0;

  constructor(parts: AttachParts, missing: Missing) {
    this.#parts = parts;
    this.#missing = missing;
  }

  async finish(proven: boolean): Promise<HeldUses> {
    await this.#missing.finish();
    if (this.#problems.length === 0) await this.#missing.noteNode();
    if (!proven && this.#problems.length === 0) {
      await this.#parts.directory.write(markCompared);
    }
    return {
      restored: this.#restored,
      lost: this.#lost,
      stillLost: this.#stillLost,
      over: this.#over,
      republished: this.#republished,
      freedWithNode: this.#missing.freedWithNode,
      problems: this.#problems,
    };
  }

  async compare(row: AttachmentRow): Promise<void> {
    const parts = this.#parts;
    const { directory } = parts;
    const attachment = attachmentIn(parts, row);
    const versions: string[] = [];
    const saw = (resourceVersion: string) => versions.push(resourceVersion);
    const states = await Promise.all(
      attachment.ips.map(({ address }) =>
        this.#orRefused(attachment, address, judgeAddress(parts, this.#missing, attachment, address, saw)),
      ),
    );
    const back = states.filter((state) => state === "restored").length;
    this.#restored += back;
    const isHeld = states.every((state) => state === "held" || state === "restored");
    if (isHeld && (await this.#republish(attachment, saw))) {
      // Also an older one: of a server that was restored, the number of a write that is gone proves nothing.
      const version = newestOf(versions);
      if (version > 0 && version !== row.version)
        await directory.write((now) => now.attachments.noteVersion(row.id, version));
    }
    const ends = states.filter((state) => typeof state === "object");
    const end = ends.find(({ reason }) => reason === "pod ended") ?? ends[0];
    if (end !== undefined) {
      if (await directory.write((now) => journalEnd(now, attachment, end.reason))) {
        if (end.reason === "pod ended") this.#over.push(attachment);
        // Nobody uses it here, so nobody has lost it; the next sandbox of its pod gets another one.
        else await this.#missing.note(attachment.network);
      }
      parts.pending();
    } else if (states.includes("lost")) {
      // The row stays: its DEL releases the remaining addresses, and until then `check` reports it.
      const news = await directory.write((now) => {
        const present = now.sql.attachmentById.get(attachment.id);
        return present !== undefined && now.attachments.markLost(present);
      });
      this.#stillLost += 1;
      if (news) {
        this.#lost.push(attachment);
        await this.#missing.note(attachment.network);
      }
    } else if (isHeld && row.lost === 1) {
      // The other owner has released it, and all addresses are the attachment's again.
      await directory.write((now) => {
        const present = now.sql.attachmentById.get(attachment.id);
        if (present !== undefined) now.attachments.markFound(present);
      });
    }
  }

  /** Returns whether its claim, if it has one, could be looked at. */
  async #republish(attachment: Attachment, saw: (resourceVersion: string) => void): Promise<boolean> {
    const { owner } = attachment;
    const work = republish(this.#parts, attachment, saw);
    const list = await this.#orRefused(attachment, "the list of its claim", work);
    if (list === true) this.#republished.push(`${owner.namespace}/${owner.name}`);
    return list !== "refused";
  }

  async #orRefused<T>({ network, containerId }: Attachment, ip: string, work: Promise<T>): Promise<T | "refused"> {
    try {
      return await work;
    } catch (error) {
      if (!(error instanceof RefusalError || error instanceof TypeError)) throw error;
      this.#problems.push(`${ip} of network ${network}, container ${containerId}: ${error.message}`);
      return "refused";
    }
  }
}

/** Appends to a claim's list what its container uses here, where it lacks it. Returns whether it was written. */
async function republish(
  { claimAccess, directory, context }: AttachParts,
  attachment: Attachment,
  saw: (resourceVersion: string) => void,
): Promise<boolean> {
  const { owner, pod, ips } = attachment;
  if (owner.kind !== "claim") return false;
  const deadlineMs = context.clock.monotonicMs() + ONE_MS_MAX;
  const claim = await claimAccess.read(owner, deadlineMs);
  if (claim === null || claim.uid !== owner.uid) return false;
  saw(claim.resourceVersion);
  // Its DEL may have come meanwhile: then the addresses are not known to be in use any more.
  if (directory.ledger.sql.attachmentById.get(attachment.id) === undefined) return false;
  const addresses = ips.map(({ address }) => parseInterfaceAddress(address));
  // Its VM may have gone to another network meanwhile, which is no news.
  const want = { pod, network: claim.network };
  const written = await claimAccess.publish(claim, { addresses, isNew: false, instead: [] }, want, deadlineMs);
  if (written === "changed" || written === "listed") return false;
  saw(written.resourceVersion);
  return true;
}

async function judgeAddress(
  parts: AttachParts,
  missing: Missing,
  attachment: Attachment,
  ip: string,
  saw: (resourceVersion: string) => void,
): Promise<"held" | "restored" | "lost" | EndingRow> {
  const { client, context, claimAccess, directory, picture } = parts;
  const { network, pod } = attachment;
  const one = parseInterfaceAddress(ip);
  const deadlineMs = context.clock.monotonicMs() + ONE_MS_MAX;
  const holder = holderOfAttachment(attachment);
  const outcome = await hold<"held" | "lost" | EndingRow>(client, {
    network,
    one,
    holder,
    deadlineMs,
    // Nobody uses a retained address, and this container runs with it.
    relationOf: (object) =>
      isReleased(object) ? "passes-over" : sameAllocationOwner(object.spec.owner, holder.owner) ? "own" : "other",
    whyNot: async (reading) => {
      if (!isStillThere(parts, attachment)) return "held";
      const row = await judgeAsking(
        {
          phase: "held",
          container: containerOf(context, attachment),
          object: objectOf(reading, holder),
          waited: "no",
        },
        { pod: () => (pod === null ? "none" : claimAccess.podState(pod, deadlineMs)) },
      );
      if (row?.verdict === "leave") return row;
      if (row?.verdict === "lose") return "lost";
      if (row?.verdict === "keep") {
        missing.putBack(network, ip);
        if (reading !== null) saw(reading.object.metadata.resourceVersion);
      }
      if (row?.verdict !== "hold") return "held";
      // A released address is free, whoever had it: a restored server does not know who took it over since.
      if (reading?.object.status?.state !== "Bound") await missing.noteAddress(network, ip);
      return null;
    },
  });
  if (outcome.kind === "left") return outcome.why;
  if (outcome.kind !== "held") throw tooManyWriters(network, one.address);
  missing.putBack(network, ip);
  const { resourceVersion } = outcome.object.metadata;
  picture.note(network, one.address, holder.owner.uid, "Bound", resourceVersion);
  saw(resourceVersion);
  if (isStillThere(parts, attachment)) return "restored";
  // Its DEL came while it was being restored, and found nothing to release.
  const { owner, containerId, interface: interfaceName } = attachment;
  await directory.write((ledger, transaction) =>
    addPending(ledger, transaction, {
      network,
      addresses: [one],
      owner,
      containerId,
      interface: interfaceName,
      uncertain: false,
      ended: true,
    }),
  );
  parts.pending();
  return "held";
}

function isStillThere({ directory }: AttachParts, attachment: Attachment): boolean {
  return directory.ledger.sql.attachmentById.get(attachment.id) !== undefined;
}
