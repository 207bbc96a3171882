import { RefusalError } from "../../ipam/refusals.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { attachmentKey } from "../../kube/objects.ts";
import { attachmentOf } from "../journal/rows.ts";
import type { Attachment } from "../records.ts";
import { sameAllocationOwner } from "./allocations/allocation-object.ts";
import { hold } from "./allocations/hold.ts";
import type { AttachParts } from "./attach-parts.ts";
import { holderOfAttachment } from "./reassert.ts";

const ONE_MS_MAX = 10_000;

/**
 * Writes into the allocations of this node's guests of an earlier release by which address they have their route, so
 * that every node keeps it back, and a migrated guest has it on its next node, whatever becomes of the definition.
 */
export class GatewayPublisher {
  readonly #parts: Pick<AttachParts, "client" | "context" | "folder">;
  /** Attachments whose entries have it. */
  readonly #published = new Set<number>();
  #isRunning = false;

  constructor(parts: Pick<AttachParts, "client" | "context" | "folder">) {
    this.#parts = parts;
  }

  /** One after the other; what fails is tried again by the next call. Never rejects for the API server. */
  async publish(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      const { ledger } = this.#parts.folder;
      for (const row of ledger.sql.formerGuests.all()) {
        if (this.#published.has(row.id)) continue;
        const attachment = attachmentOf(row, ledger.networkById(row.network_id).name);
        for (const { address } of attachment.ips) await this.#publishOne(attachment, address);
        this.#published.add(row.id);
      }
    } catch (error) {
      if (!(error instanceof ApiAway || error instanceof RefusalError)) throw error;
    } finally {
      this.#isRunning = false;
    }
  }

  async #publishOne(attachment: Attachment, ip: string): Promise<void> {
    const { client, context, folder } = this.#parts;
    const holder = holderOfAttachment(attachment);
    const key = attachmentKey(attachment.containerId, attachment.interface);
    await hold<"left">(client, {
      network: attachment.network,
      one: parseInterfaceAddress(ip),
      holder,
      deadlineMs: context.clock.monotonicMs() + ONE_MS_MAX,
      // What is missing or in other hands is for `reassert`.
      whyNot: (reading) => {
        if (reading === null || folder.ledger.sql.attachmentById.get(attachment.id) === undefined)
          return "left";
        const { spec, status } = reading.object;
        const entry = status?.attachments?.[key];
        const isOurs = status?.state === "Bound" && sameAllocationOwner(spec.owner, holder.owner);
        return isOurs && entry !== undefined && entry.metadataVia !== attachment.formerGateway
          ? null
          : "left";
      },
    });
  }
}
