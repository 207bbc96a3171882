import type { Owner } from "../../ipam/owner.ts";
import { type Address, addressBytes, formatAddress } from "../../ipam/space/address.ts";
import {
  formatInterfaceAddress,
  type InterfaceAddress,
  parseInterfaceAddress,
} from "../../ipam/space/cidr.ts";
import { type AttachWant, CERTAIN_ENDS, type EndReason } from "../allocations.ts";
import type { Attachment } from "../records.ts";
import type { Transaction } from "./group-commit.ts";
import type { Ledger } from "./ledger.ts";
import { type AttachmentRow, attachmentOf, type IntentRow, ownerOf } from "./rows.ts";

/** Opens an intent: what this ADD is about to reserve, and for whom. Returns its id. */
export function openIntent(
  ledger: Ledger,
  transaction: Transaction,
  want: AttachWant,
  owner: Owner,
  addresses: readonly InterfaceAddress[],
): number {
  const space = ledger.networkOf(want.network, transaction);
  const id = ledger.ids.next();
  ledger.sql.insertIntent.run(
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
    textOf(addresses),
  );
  return id;
}

/** Returns whether the intent still exists: a DEL ends it, and a new journal does not know it. */
export function extendIntent(ledger: Ledger, id: number, addresses: readonly InterfaceAddress[]): boolean {
  return ledger.sql.updateIntent.run(textOf(addresses), id).changes === 1;
}

export function addressesOf(row: IntentRow): InterfaceAddress[] {
  return (JSON.parse(row.addresses) as string[]).map(parseInterfaceAddress);
}

/** An address that a container has stopped using, to be sent to the API server. */
export interface Owed {
  readonly network: string;
  readonly address: Address;
  readonly owner: Pick<Owner, "kind" | "uid" | "interface">;
  readonly containerId: string;
  readonly interface: string;
  /** A write whose answer was lost may still arrive, so the address is checked again later. */
  readonly uncertain: boolean;
  /** The container certainly runs no more, or was never answered. */
  readonly ended: boolean;
}

export function owe(ledger: Ledger, owed: Owed): void {
  ledger.sql.insertOwed.run(
    ledger.ids.next(),
    owed.network,
    addressBytes(owed.address),
    owed.owner.kind,
    owed.owner.uid,
    owed.owner.interface,
    owed.containerId,
    owed.interface,
    owed.uncertain ? 1 : 0,
    owed.ended ? 1 : 0,
  );
}

/** Abandons what an intent may have reserved: the release is outstanding from now on. */
export function abandonIntent(ledger: Ledger, row: IntentRow): void {
  const network = ledger.networkById(row.network_id).name;
  for (const { address } of addressesOf(row)) {
    owe(ledger, {
      network,
      address,
      owner: ownerOf(row),
      containerId: row.container_id,
      interface: row.interface,
      uncertain: true,
      ended: true,
    });
  }
  ledger.sql.deleteIntent.run(row.id);
}

/** The key of an ADD; no two ADDs under way have the same. */
export function addKey(add: Pick<AttachWant, "network" | "containerId" | "interface">): string {
  return `${add.network} ${add.containerId} ${add.interface}`;
}

/** Intents whose ADD has ended in this process, or was one of an earlier process: nobody was answered. */
export function intentsAtRest(ledger: Ledger, underWay: ReadonlySet<string>): IntentRow[] {
  return ledger.sql.intents.all().filter((row) => {
    const { name: network } = ledger.networkById(row.network_id);
    return !underWay.has(addKey({ network, containerId: row.container_id, interface: row.interface }));
  });
}

/** Ends an attachment in the journal. Its addresses are to be released, except those that its owner keeps. */
export function endRow(
  ledger: Ledger,
  row: AttachmentRow,
  reason: EndReason,
  kept: ReadonlySet<string> = new Set(),
): void {
  const { sql, context } = ledger;
  ledger.attachments.remove(row);
  sql.endHistory.run(context.clock.wallMs(), reason, row.history_id, row.history_id + row.history_count);
  const {
    network,
    owner,
    ips,
    containerId,
    interface: interfaceName,
  } = attachmentOf(row, ledger.networkById(row.network_id).name);
  for (const ip of ips) {
    const { address } = parseInterfaceAddress(ip.address);
    if (kept.has(formatAddress(address))) continue;
    const ended = CERTAIN_ENDS.has(reason);
    owe(ledger, { network, address, owner, containerId, interface: interfaceName, uncertain: false, ended });
  }
}

/** Ends one attachment that was read before, unless it has been requested again since. */
export function journalEnd(ledger: Ledger, which: Attachment, reason: EndReason): boolean {
  const row = ledger.sql.attachmentById.get(which.id);
  if (!row || row.boot_us !== which.stamp.us) return false;
  endRow(ledger, row, reason);
  return true;
}

function textOf(addresses: readonly InterfaceAddress[]): string {
  return JSON.stringify(addresses.map(formatInterfaceAddress));
}
