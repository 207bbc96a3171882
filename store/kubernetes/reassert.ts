import { parseInterfaceAddress } from "../../ipam/cidr.ts";
import type { Attachment } from "../records.ts";
import { attachmentOf, timeText } from "../sqlite/rows.ts";
import { newAllocation, sameAllocationOwner, takenOver, withAttachment } from "./allocation-object.ts";
import type { AttachParts } from "./attach.ts";
import { journalEnd, owe } from "./journal.ts";
import { type AllocationAttachment, attachmentKey } from "./objects.ts";
import { toAllocationOwner } from "./owners.ts";

const PAGE = 100;
/** Reads under way at once: thousands of attachments are looked through in seconds without a crowd before ADDs. */
const TOGETHER_MAX = 8;
const ONE_MS_MAX = 10_000;

export interface Reasserted {
  /** Addresses whose object was gone, or had lost our attachment, and is as it should be again. */
  readonly restored: number;
  /** Attachments whose address belongs to somebody else now. */
  readonly lost: readonly Attachment[];
  /** Attachments that were ended: their address had been released because all containers of their pod have ended. */
  readonly over: readonly Attachment[];
}

/**
 * Compares what this node believes to hold with the API: what is missing is created again by name, what belongs to
 * somebody else is lost, and the journal says so. What a pod had that has ended is neither: its sandbox may stay for long, and
 * the controller has let its address go by the same rule (PodView.terminal). Throws ApiAway.
 */
export async function reassert(parts: AttachParts): Promise<Reasserted> {
  let restored = 0;
  const lost: Attachment[] = [];
  const over: Attachment[] = [];
  for (let after = 0; ; ) {
    const rows = parts.folder.ledger.sql.attachmentsAfter.all(after, PAGE);
    const last = rows[rows.length - 1];
    if (!last) return { restored, lost, over };
    after = last.id;
    const { ledger } = parts.folder;
    const attachments = rows.map((row) => attachmentOf(row, ledger.networkById(row.network_id).name));
    for (let from = 0; from < attachments.length; from += TOGETHER_MAX) {
      const some = attachments.slice(from, from + TOGETHER_MAX);
      await Promise.all(
        some.map(async (attachment) => {
          const states = await Promise.all(
            attachment.ips.map((ip) => reassertOne(parts, attachment, ip.address)),
          );
          restored += states.filter((state) => state === "restored").length;
          if (states.includes("over")) {
            if (await parts.folder.write((now) => journalEnd(now, attachment, "pod ended")))
              over.push(attachment);
            parts.owed();
          } else if (states.includes("lost")) {
            // The row stays: its DEL gives back what it has still, and until then `check` says so.
            const news = await parts.folder.write((now) => {
              const row = now.sql.attachmentById.get(attachment.id);
              return row !== undefined && now.attachments.markLost(row);
            });
            if (news) lost.push(attachment);
          }
        }),
      );
    }
  }
}

async function reassertOne(
  parts: AttachParts,
  attachment: Attachment,
  ip: string,
): Promise<"held" | "restored" | "lost" | "over"> {
  const { client, context, desk, folder, hint } = parts;
  const one = parseInterfaceAddress(ip);
  const deadlineMs = performance.now() + ONE_MS_MAX;
  const owner = toAllocationOwner(attachment.owner);
  const ours: AllocationAttachment = {
    containerID: attachment.containerId,
    interface: attachment.interface,
    node: attachment.node,
    ...(attachment.pod === null ? {} : { pod: attachment.pod }),
    since: timeText(attachment.sinceMs),
  };
  const key = attachmentKey(ours.containerID, ours.interface);
  for (;;) {
    const reading = await client.read(attachment.network, one.address, deadlineMs);
    if (!isStillThere(parts, attachment)) return "held";
    const time = timeText(context.clock.wallMs());
    const holder = { owner, attachment: ours };
    const isOurs = reading !== null && sameAllocationOwner(reading.object.spec.owner, owner);
    const bound = reading?.object.status?.state === "Bound";
    if (isOurs && bound && key in (reading.object.status?.attachments ?? {})) return "held";
    if (attachment.pod !== null && (await desk.podState(attachment.pod, deadlineMs)) === "completed")
      return "over";
    if (reading !== null && !isOurs) return "lost";
    const written =
      reading === null
        ? await client.create(newAllocation(attachment.network, one, holder, time), deadlineMs)
        : await client.replace(
            bound ? withAttachment(reading.object, ours) : takenOver(reading.object, one, holder, time),
            deadlineMs,
          );
    if (written.kind === "changed") continue;
    hint.note(attachment.network, one.address, owner.uid, false, written.object.metadata.resourceVersion);
    if (isStillThere(parts, attachment)) return "restored";
    // Its DEL came while it was being restored, and found nothing to release.
    const { network, containerId, interface: interfaceName } = attachment;
    await folder.write((ledger) =>
      owe(ledger, {
        network,
        address: one.address,
        owner: attachment.owner,
        containerId,
        interface: interfaceName,
        uncertain: false,
      }),
    );
    parts.owed();
    return "held";
  }
}

function isStillThere({ folder }: AttachParts, attachment: Attachment): boolean {
  return folder.ledger.sql.attachmentById.get(attachment.id) !== undefined;
}
