import type { AnsweredAddress } from "../../allocations/records.ts";
import { OWNER_KINDS, type Owner, sameOwner } from "../../ipam/owner.ts";
import { addressBytes } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Ledger } from "./ledger.ts";
import { type AllocationRow, type AttachmentRow, ownerOf } from "./rows.ts";

/** The attachments of an owner on all networks, oldest first. */
export function attachmentsOf(ledger: Ledger, owner: Pick<Owner, "kind" | "uid" | "interface">): AttachmentRow[] {
  const { kind, uid, interface: interfaceName } = owner;
  if (!OWNER_KINDS[kind].isContainer) return ledger.sql.attachmentsOfOwner.all(uid, interfaceName, kind);
  return ledger.sql.attachmentsOfContainer.all(uid, interfaceName).filter((row) => row.owner_kind === kind);
}

/** The allocations of an attachment's answer, if its owner still has them. */
export function allocationsOf(ledger: Ledger, attachment: AttachmentRow): AllocationRow[] {
  const owner = ownerOf(attachment);
  const ips = JSON.parse(attachment.ips) as AnsweredAddress[];
  return ips.flatMap((ip) => {
    const { address } = parseInterfaceAddress(ip.address);
    const row = ledger.sql.allocation.get(attachment.network_id, addressBytes(address));
    return row?.state === "Bound" && sameOwner(ownerOf(row), owner) ? [row] : [];
  });
}
