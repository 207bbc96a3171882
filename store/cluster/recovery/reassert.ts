import { RefusalError } from "../../../ipam/refusals.ts";
import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { type AllocationAttachment, attachmentKey, type IPAllocation } from "../../../kube/objects.ts";
import { isoTime } from "../../../platform/time.ts";
import { journalEnd, owe } from "../../journal/intents.ts";
import { attachmentOf } from "../../journal/rows.ts";
import { type Attachment, isLearnt } from "../../records.ts";
import type { AllocationReading } from "../allocations/allocation-client.ts";
import { type AttachedHolder, isHandedOver, sameAllocationOwner } from "../allocations/allocation-object.ts";
import { hold, tooManyWriters } from "../allocations/hold.ts";
import { toAllocationOwner } from "../allocations/owners.ts";
import type { AttachParts } from "../parts/attach-parts.ts";
import { type NodeObject, noteNodeObject } from "./node-object.ts";

const PAGE = 100;
/** Reads at once: thousands of attachments are compared within seconds without crowding out ADDs. */
const TOGETHER_MAX = 8;
const ONE_MS_MAX = 10_000;

export interface Reasserted {
  /** Addresses whose object was missing, or lacked our attachment, and has been restored. */
  readonly restored: number;
  /** Attachments with an address that belongs to another owner now, and did not before. */
  readonly lost: readonly Attachment[];
  /** Number of attachments with such an address. */
  readonly stillLost: number;
  /** Claims whose empty list was filled in again: `namespace/name`. */
  readonly republished: readonly string[];
  /** Attachments that were ended: their address had been released because all containers of their pod have ended. */
  readonly over: readonly Attachment[];
  /** Something was missing because this node's Node object had been deleted: no network was marked for it. */
  readonly freedWithNode: boolean;
  /** What could not be compared or restored because the API server refuses it; left as it is until the next time. */
  readonly problems: readonly string[];
}

/**
 * Compares what this node holds with the API: a missing allocation is created again under its name; an attachment whose
 * address belongs to another owner is recorded as lost. Neither applies to a pod that has ended: its sandbox may exist
 * for long, and the controller has released its address by the same rule (PodView.terminal); nor to one that is gone and
 * whose container's namespace is gone too, or whose container was of an earlier boot, as a journal has it whose end a power
 * failure took, or may have been, as the API tells it to a journal that was lost. A permanent refusal is reported and
 * skipped, so that everything else is still compared. `unrestored` remembers it between calls, so that its network is
 * marked once. What is missing since this node's Node was deleted was given back by the controller, and marks nothing.
 * Throws ApiAway.
 */
export async function reassert(
  parts: AttachParts,
  afterGap: boolean,
  { unrestored, node }: { readonly unrestored: Set<string>; readonly node: NodeObject },
): Promise<Reasserted> {
  const missing = new Missing(parts, unrestored, node);
  const problems: string[] = [];
  const orRefused = <T>({ network, containerId }: Attachment, ip: string, work: Promise<T>) =>
    work.catch((error: unknown): "refused" => {
      if (!(error instanceof RefusalError || error instanceof TypeError)) throw error;
      problems.push(`${ip} of network ${network}, container ${containerId}: ${error.message}`);
      return "refused";
    });
  const republished: string[] = [];
  let restored = 0;
  let stillLost = 0;
  const lost: Attachment[] = [];
  const over: Attachment[] = [];
  for (let after = 0; ; ) {
    const rows = parts.directory.ledger.sql.attachmentsAfter.all(after, PAGE);
    const last = rows[rows.length - 1];
    if (!last) {
      await missing.finish();
      if (problems.length === 0) await noteNodeObject(node, parts.directory);
      const { freedWithNode } = missing;
      return { restored, lost, stillLost, over, republished, freedWithNode, problems };
    }
    after = last.id;
    const { ledger } = parts.directory;
    const attachments = rows.map((row) => attachmentOf(row, ledger.networkById(row.network_id).name));
    for (let from = 0; from < attachments.length; from += TOGETHER_MAX) {
      const some = attachments.slice(from, from + TOGETHER_MAX);
      await Promise.all(
        some.map(async (attachment) => {
          const states = await Promise.all(
            attachment.ips.map(({ address }) =>
              orRefused(attachment, address, reassertOne(parts, missing, attachment, address)),
            ),
          );
          const back = states.filter((state) => state === "restored").length;
          restored += back;
          const isHeld = states.every((state) => state === "held" || state === "restored");
          if (
            isHeld &&
            (afterGap || back > 0) &&
            (await orRefused(attachment, "the list of its claim", republish(parts, attachment))) === true
          )
            republished.push(`${attachment.owner.namespace}/${attachment.owner.name}`);
          if (states.includes("over")) {
            if (await parts.directory.write((now) => journalEnd(now, attachment, "pod ended")))
              over.push(attachment);
            parts.owed();
          } else if (states.includes("lost") && isOfFormerBoot(parts, attachment)) {
            // Nobody uses it here, so nobody has lost it; the next sandbox of its pod gets another one.
            if (await parts.directory.write((now) => journalEnd(now, attachment, "reboot")))
              await missing.note(attachment.network);
            parts.owed();
          } else if (states.includes("lost")) {
            // The row stays: its DEL releases the remaining addresses, and until then `check` reports it.
            const news = await parts.directory.write((now) => {
              const row = now.sql.attachmentById.get(attachment.id);
              return row !== undefined && now.attachments.markLost(row);
            });
            stillLost += 1;
            if (news) {
              lost.push(attachment);
              await missing.note(attachment.network);
            }
          } else if (isHeld && rows.some(({ id, lost: known }) => id === attachment.id && known === 1)) {
            // The other owner has released it, and all addresses are the attachment's again.
            await parts.directory.write((now) => {
              const row = now.sql.attachmentById.get(attachment.id);
              if (row !== undefined) now.attachments.markFound(row);
            });
          }
        }),
      );
    }
  }
}

/** Marks the networks on which something was missing: the first at once, and all of them at the end. */
class Missing {
  readonly #parts: AttachParts;
  readonly #unrestored: Set<string>;
  readonly #node: NodeObject;
  freedWithNode = false;
  readonly #counts = new Map<string, number>();
  readonly #told = new Map<string, Promise<void>>();

  constructor(parts: AttachParts, unrestored: Set<string>, node: NodeObject) {
    this.#parts = parts;
    this.#node = node;
    this.#unrestored = unrestored;
  }

  /** Notes an address that is about to be restored. One that was refused before has been noted then. */
  async noteAddress(network: string, address: string): Promise<void> {
    const key = `${network} ${address}`;
    if (this.#unrestored.has(key)) return;
    this.#unrestored.add(key);
    try {
      await this.note(network);
    } catch (error) {
      this.#unrestored.delete(key);
      throw error;
    }
  }

  putBack(network: string, address: string): void {
    this.#unrestored.delete(`${network} ${address}`);
  }

  async note(network: string): Promise<void> {
    this.freedWithNode ||= this.#node.isNew;
    if (this.#node.isNew) return;
    this.#counts.set(network, (this.#counts.get(network) ?? 0) + 1);
    const told = this.#told.get(network) ?? this.#tell(network, "its allocations are missing");
    this.#told.set(network, told);
    await told;
  }

  /** Marks again: the recovery of the network counts from this mark. */
  async finish(): Promise<void> {
    for (const [network, count] of this.#counts) await this.#tell(network, `it has put back ${count}`);
  }

  #tell(network: string, what: string): Promise<void> {
    const { context, continuity } = this.#parts;
    return continuity.missing(network, `node ${context.node}, ${isoTime(context.clock.wallMs())}: ${what}`);
  }
}

/** Fills in a claim's empty list with the addresses that its container uses here. Returns whether it was written. */
async function republish(
  { claimAccess, directory, context }: AttachParts,
  attachment: Attachment,
): Promise<boolean> {
  const { owner, pod, ips } = attachment;
  if (owner.kind !== "claim") return false;
  const deadlineMs = context.clock.monotonicMs() + ONE_MS_MAX;
  const claim = await claimAccess.read(owner, deadlineMs);
  if (claim === null || claim.uid !== owner.uid || claim.ips.length > 0) return false;
  // Its VM has gone to another network meanwhile, where it gets another list.
  if (claim.network !== attachment.network) return false;
  // Its DEL may have come meanwhile: then the addresses are not known to be in use any more.
  if (directory.ledger.sql.attachmentById.get(attachment.id) === undefined) return false;
  const list = ips.map(({ address }) => address);
  return (await claimAccess.publish(claim, list, { pod }, deadlineMs)) === "published";
}

async function reassertOne(
  parts: AttachParts,
  missing: Missing,
  attachment: Attachment,
  ip: string,
): Promise<"held" | "restored" | "lost" | "over"> {
  const { client, context, claimAccess, directory, hint } = parts;
  const { network } = attachment;
  const one = parseInterfaceAddress(ip);
  const deadlineMs = context.clock.monotonicMs() + ONE_MS_MAX;
  const holder = holderOfAttachment(attachment);
  const outcome = await hold<"held" | "lost" | "over">(client, {
    network,
    one,
    holder,
    deadlineMs,
    // Nobody uses a retained address, and this container runs with it.
    relationOf: (object) =>
      isReleased(object)
        ? "passes-over"
        : sameAllocationOwner(object.spec.owner, holder.owner)
          ? "own"
          : "other",
    whyNot: async (reading) => {
      if (!isStillThere(parts, attachment)) return "held";
      if (isRecorded(reading, holder)) {
        missing.putBack(network, ip);
        return "held";
      }
      if (attachment.pod !== null) {
        const pod = await claimAccess.podState(attachment.pod, deadlineMs);
        if (pod === "completed") return "over";
        const mayBeOver =
          isOfFormerBoot(parts, attachment) ||
          context.namespaceGone(attachment.netns) ||
          wasGivenBack(reading, attachment, holder);
        // The kubelet runs a static pod again, whatever objects there are, but one with another manifest of its name.
        if (pod === "gone" && mayBeOver && (await claimAccess.hasEnded(attachment.pod, deadlineMs)))
          return "over";
      }
      // A released address is free, whoever had it: a restored server does not know who took it over since.
      const state = reading?.object.status?.state;
      if (reading !== null && !isReleased(reading.object) && !isOwn(reading, holder)) return "lost";
      if (state !== "Bound") await missing.noteAddress(network, ip);
      return null;
    },
  });
  if (outcome.kind === "left") return outcome.why;
  if (outcome.kind !== "held") throw tooManyWriters(network, one.address);
  missing.putBack(network, ip);
  hint.note(network, one.address, holder.owner.uid, "Bound", outcome.object.metadata.resourceVersion);
  if (isStillThere(parts, attachment)) return "restored";
  // Its DEL came while it was being restored, and found nothing to release.
  const { owner, containerId, interface: interfaceName } = attachment;
  await directory.write((ledger) =>
    owe(ledger, {
      network,
      address: one.address,
      owner,
      containerId,
      interface: interfaceName,
      uncertain: false,
      ended: true,
    }),
  );
  parts.owed();
  return "held";
}

/** The holder of an attachment's addresses, as its ADD recorded it. */
function holderOfAttachment(attachment: Attachment): AttachedHolder {
  const { containerId, interface: interfaceName, node, pod, sinceMs } = attachment;
  const ours: AllocationAttachment = {
    containerID: containerId,
    interface: interfaceName,
    node,
    ...(pod === null ? {} : { pod }),
    since: isoTime(sinceMs),
  };
  return { owner: toAllocationOwner(attachment.owner), attachment: ours };
}

function isOwn({ object }: AllocationReading, { owner }: AttachedHolder): boolean {
  return sameAllocationOwner(object.spec.owner, owner);
}

/** Whether an allocation is as it should be: Bound, to this owner or a claim after it, with this attachment. */
function isRecorded(reading: AllocationReading | null, holder: AttachedHolder): boolean {
  if (reading === null) return false;
  const { status } = reading.object;
  const { containerID, interface: interfaceName } = holder.attachment;
  const key = attachmentKey(containerID, interfaceName);
  if (!isOwn(reading, holder)) return isHandedOver(reading.object, key);
  return status?.state === "Bound" && key in (status.attachments ?? {});
}

/** Whether the container cannot run any more: its machine has been started again since. */
function isOfFormerBoot({ context }: AttachParts, { stamp, netns }: Attachment): boolean {
  return stamp.bootId !== context.bootId && context.namespaceAlive?.(netns) !== true;
}

/** Whether an address rests of which this node knows from the API alone: its pod was seen to end before it was deleted. */
function wasGivenBack(
  reading: AllocationReading | null,
  attachment: Attachment,
  holder: AttachedHolder,
): boolean {
  return reading !== null && isReleased(reading.object) && isOwn(reading, holder) && isLearnt(attachment);
}

function isReleased({ status }: IPAllocation): boolean {
  return status?.state === "Cooling" || status?.state === "Retained";
}

function isStillThere({ directory }: AttachParts, attachment: Attachment): boolean {
  return directory.ledger.sql.attachmentById.get(attachment.id) !== undefined;
}
