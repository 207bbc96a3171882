import type { Attachment } from "../../allocations/records.ts";
import type { Owner } from "../../ipam/owner.ts";
import { OWNER_KINDS, sameOwner } from "../../ipam/owner.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "../../ipam/space/cidr.ts";
import { isBefore } from "../../ipam/stamp.ts";
import { type AttachWant, CERTAIN_ENDS, type DetachWant, type EndReason } from "../allocations.ts";
import type { Transaction } from "./group-commit.ts";
import type { Ledger } from "./ledger.ts";
import { type AttachmentRow, addressesOf, ownerOf, type TakingRow } from "./rows.ts";

/** What an ADD is about to reserve, and what an earlier ADD of its key, of unknown outcome, may have reserved. */
export interface Taking {
  readonly id: number;
  readonly earlier: readonly InterfaceAddress[];
}

export function take(
  ledger: Ledger,
  transaction: Transaction,
  want: AttachWant,
  owner: Owner,
  addresses: readonly InterfaceAddress[],
): Taking {
  const space = ledger.networkOf(want.network, transaction);
  const earlier: InterfaceAddress[] = [];
  for (const row of ledger.sql.takingOfContainer.all(want.containerId, want.interface)) {
    if (row.network_id !== space.id) continue;
    if (sameOwner(ownerOf(row), owner)) {
      earlier.push(...addressesOf(row));
      ledger.sql.deleteTaking.run(row.id);
    } else abandon(ledger, row);
  }
  const id = ledger.ids.next();
  ledger.sql.insertTaking.run(
    id,
    space.id,
    want.containerId,
    want.interface,
    owner.kind,
    owner.uid,
    owner.interface,
    owner.namespace,
    owner.name,
    want.stamp.bootId,
    want.stamp.us,
    ipsOf([...earlier, ...addresses]),
  );
  return { id, earlier };
}

/** Returns whether the row is still there: a DEL ends it, and a new journal does not know it. */
export function takeMore(ledger: Ledger, taking: Taking, addresses: readonly InterfaceAddress[]): boolean {
  return ledger.sql.updateTaking.run(ipsOf([...taking.earlier, ...addresses]), taking.id).changes === 1;
}

/** Addresses that a container has stopped using, to be sent to the API server. */
export interface Pending {
  readonly network: string;
  readonly addresses: readonly InterfaceAddress[];
  readonly owner: Owner;
  readonly containerId: string;
  readonly interface: string;
  /** A write whose answer was lost may still arrive, so the addresses are checked again later. */
  readonly uncertain: boolean;
  /** The container certainly runs no more, or was never answered. */
  readonly ended: boolean;
}

export function addPending(ledger: Ledger, transaction: Transaction, pending: Pending): void {
  const { owner, addresses } = pending;
  if (addresses.length === 0) return;
  ledger.sql.insertLeaving.run(
    ledger.ids.next(),
    ledger.networkOf(pending.network, transaction).id,
    pending.containerId,
    pending.interface,
    owner.kind,
    owner.uid,
    owner.interface,
    owner.namespace,
    owner.name,
    ipsOf(addresses),
    pending.ended ? 1 : 0,
    pending.uncertain ? 1 : 0,
  );
}

/** Gives back what an ADD may have reserved that nobody was answered. */
export function abandon(ledger: Ledger, row: TakingRow): void {
  ledger.attachments.leave(row, row.ips, { ended: true, again: true });
}

/** The key of an ADD; no two ADDs under way have the same. */
export function addKey(add: Pick<AttachWant, "network" | "containerId" | "interface">): string {
  return `${add.network} ${add.containerId} ${add.interface}`;
}

/** Rows whose ADD has ended in this process, or was one of an earlier process: nobody was answered. */
export function takingAtRest(ledger: Ledger, underWay: ReadonlySet<string>): TakingRow[] {
  return ledger.sql.taking.all().filter((row) => !isUnderWay(ledger, row, underWay));
}

export function isUnderWay(ledger: Ledger, row: TakingRow, underWay: ReadonlySet<string>): boolean {
  const { name: network } = ledger.networkById(row.network_id);
  return underWay.has(addKey({ network, containerId: row.container_id, interface: row.interface }));
}

/** What ADDs of an owner are about to take, or were, on a network. */
export function takingOf(ledger: Ledger, owner: Owner, networkId: number): TakingRow[] {
  const { kind, uid, interface: interfaceName } = owner;
  const rows = OWNER_KINDS[kind].isContainer
    ? ledger.sql.takingOfContainer.all(uid, interfaceName).filter((row) => row.owner_kind === kind)
    : ledger.sql.takingOfOwner.all(uid, interfaceName, kind);
  return rows.filter((row) => row.network_id === networkId);
}

/** Ends an attachment in the journal. Its addresses are to be released, except those that its owner keeps. */
export function endRow(
  ledger: Ledger,
  row: AttachmentRow,
  reason: EndReason,
  kept: ReadonlySet<string> = new Set(),
): void {
  const { sql, context } = ledger;
  sql.endHistory.run(context.clock.wallMs(), reason, row.history_id, row.history_id + row.history_count);
  const left = addressesOf(row).filter(({ address }) => !kept.has(formatAddress(address)));
  if (left.length === 0) ledger.attachments.remove(row);
  else ledger.attachments.leave(row, ipsOf(left), { ended: CERTAIN_ENDS.has(reason), again: false });
}

/** Ends one attachment that was read before, unless it has been requested again since. */
export function journalEnd(ledger: Ledger, which: Attachment, reason: EndReason): boolean {
  const row = ledger.sql.attachmentById.get(which.id);
  if (!row || row.boot_us !== which.stamp.us) return false;
  endRow(ledger, row, reason);
  return true;
}

/** A DEL was seen: an older ADD that is still on its way takes nothing. Of several DELs the newest counts. */
export function rememberDel(
  ledger: Ledger,
  transaction: Transaction,
  { containerId, interface: interfaceName, network, stamp }: Omit<DetachWant, "reason">,
): void {
  const { sql, ids } = ledger;
  const networkId = network === null ? null : ledger.networkOf(network, transaction).id;
  const { bootId } = stamp;
  const known = sql.over.all(containerId, interfaceName).filter((row) => row.network_id === networkId);
  const earlier = known.filter((row) => row.deleted === 1 && row.boot_id === bootId);
  const us = Math.max(stamp.us, ...earlier.map((row) => row.boot_us));
  if (known.length === 0) sql.insertGone.run(ids.next(), networkId, containerId, interfaceName, bootId, us);
  for (const [at, row] of known.entries()) {
    // A younger row remembers the same.
    if (row.phase === "gone" && row.again === 0 && at < known.length - 1) sql.forgetGone.run(row.id);
    else if (row.deleted === 0 || row.boot_id !== bootId || row.boot_us !== us) sql.markDeleted.run(bootId, us, row.id);
  }
}

/** Whether a later DEL of the same container and interface has been seen already. */
export function isOvertaken(
  ledger: Ledger,
  want: Pick<AttachWant, "network" | "containerId" | "interface" | "stamp">,
): boolean {
  return delsOf(ledger, want).some((row) =>
    isBefore(want.stamp, { bootId: row.boot_id, us: row.boot_us }, ledger.context.bootId),
  );
}

/** What is over of a container's interface on a network because of a DEL. */
export function delsOf(
  ledger: Ledger,
  { network, containerId, interface: interfaceName }: Pick<AttachWant, "network" | "containerId" | "interface">,
) {
  const id = ledger.networks.get(network)?.id;
  return ledger.sql.over
    .all(containerId, interfaceName)
    .filter((row) => row.deleted === 1 && (row.network_id === null || row.network_id === id));
}

function ipsOf(addresses: readonly InterfaceAddress[]): string {
  const texts = new Set(addresses.map(formatInterfaceAddress));
  return JSON.stringify([...texts].map((address) => ({ address })));
}
