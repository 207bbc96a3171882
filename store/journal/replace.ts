import { rmSync } from "node:fs";
import Database from "better-sqlite3";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { FORCED } from "../allocations.ts";
import type { NewDatabase } from "./files/aside.ts";
import { nativeBinding } from "./files/database-file.ts";
import type { Transaction } from "./group-commit.ts";
import { allocationsOf } from "./holdings.ts";
import { addressesOfRow } from "./host-local.ts";
import type { LeaseRow } from "./lease-rows.ts";
import { Ledger } from "./ledger.ts";
import { copyOf } from "./rebuild.ts";
import type { AttachmentRow } from "./rows.ts";
import { rememberDel } from "./uses.ts";

/** The copy is discarded as a whole when it fails. */
const DISCARDED: Transaction = { onRollback: () => {} };
/** Containers named in a refusal; more would hide the hint. */
const NAMED_MAX = 5;

/*
 * What a backup must have of a container that runs, or may run, now:
 *
 *   in the backup                                   verdict
 *   not there                                       refused: its address would be allocated again
 *   there, with other addresses or another owner    refused, for the same reason
 *   there, but its addresses are not allocated      refused: the backup itself is wrong
 *   there, of an earlier boot or network namespace  the same container, stopped and started since: its row gets today's
 *                                                   boot, stamp and namespace, else it would be ended while it runs
 *
 * A container that is not attached now is left as the backup has it: its boot and namespace tell whether it is alive.
 */

/**
 * A copy of a backup that may replace a database in use: sound, and with every container that may run, with its
 * addresses. Throws RefusalError, and leaves nothing then.
 */
export function replacementOf(
  ledger: Ledger,
  { directory, backup, isComparable }: { directory: string; backup: string; isComparable: boolean },
): NewDatabase {
  const copy = copyOf(directory, backup, ledger.context.clock);
  try {
    carryRunning(ledger, copy.path);
  } catch (error) {
    // A damaged database may not even be readable; the containers that it still names count.
    if (isComparable || error instanceof RefusalError) {
      rmSync(copy.path, { force: true });
      throw error;
    }
  }
  return copy;
}

/** Updates the copy with the containers that run now. Throws RefusalError IN_USE with those for which it cannot be. */
function carryRunning(ledger: Ledger, copy: string): void {
  const db = new Database(copy, nativeBinding());
  try {
    const past = new Ledger(db, ledger.context);
    db.transaction(() => {
      const running = ledger.sql.attachmentsAfter.all(0, Number.MAX_SAFE_INTEGER).filter((row) => isAlive(ledger, row));
      const wrong = running.filter((row) => !carry(ledger, past, row));
      if (wrong.length > 0) throw inUse(wrong);
      carryDels(ledger, past, DISCARDED);
      carryLeases(ledger, past, running);
    })();
  } finally {
    db.close();
  }
}

/** Updates the row of a running container. Returns whether the copy has a row for it that can be updated. */
function carry(ledger: Ledger, past: Ledger, row: AttachmentRow): boolean {
  const space = past.networks.get(ledger.networkById(row.network_id).name);
  const known = space && past.sql.attachment.get(row.container_id, row.interface, space.id);
  if (known === undefined || identityOf(known) !== identityOf(row)) return false;
  if (allocationsOf(past, known).length !== addressesOfRow(known).length) return false;
  if (known.owner_kind === "claim" && past.sql.claimByUid.get(known.owner_uid) === undefined) return false;
  past.attachments.bringUpToDate(known, row);
  return true;
}

/** Rows of one container, interface and network with the same identity are the same holder of the same addresses. */
function identityOf(row: AttachmentRow): string {
  const { owner_kind: kind, owner_uid: uid, owner_interface: name, claim_ref: claim, pod_uid: pod } = row;
  const addresses = (JSON.parse(row.ips) as { address: string }[]).map((ip) => ip.address);
  return JSON.stringify([kind, uid, name, claim, pod, addresses]);
}

/** An ADD that is older than a DEL served since the backup may still be on its way. */
function carryDels(ledger: Ledger, past: Ledger, transaction: Transaction): void {
  for (const row of ledger.sql.deletedUses.all()) {
    rememberDel(past, transaction, {
      containerId: row.container_id,
      interface: row.interface,
      network: row.network_id === null ? null : ledger.networkById(row.network_id).name,
      stamp: { bootId: row.boot_id, us: row.boot_us },
    });
  }
}

/** Copies today's host-local state: directories that are followed, and files of running containers. */
function carryLeases(ledger: Ledger, past: Ledger, running: readonly AttachmentRow[]): void {
  const carried = new Set(running.map((row) => keyOf(ledger, row)));
  const isForced = forcedReleases(ledger);
  for (const then of past.networks.values()) {
    for (const lease of past.leases.ofNetwork(then.id)) {
      // The file of a forcibly released address was removed by Holdfast: no evidence that its container has ended.
      if (carried.has(keyOf(past, lease)) || isForced(then.name, lease)) past.leases.delete(lease);
    }
    const now = ledger.networks.get(then.name);
    for (const lease of now === undefined ? [] : ledger.leases.ofNetwork(now.id)) {
      if (carried.has(keyOf(ledger, lease))) past.leases.put({ ...lease, network_id: then.id });
    }
  }
  for (const { network, directory } of ledger.leases.directories()) {
    const then = past.networks.get(network);
    if (then !== undefined) past.leases.remember(then.id, directory);
  }
}

/** Whether the last known event of a lease's container is that an operator released its address by force. */
function forcedReleases(ledger: Ledger): (network: string, lease: LeaseRow) => boolean {
  const last = ledger.db.prepare<[string, Buffer, string, string], { ended_by: string | null }>(
    `SELECT ended_by FROM history JOIN networks ON networks.id = history.network_id
     WHERE networks.name = ? AND address = ? AND container_id = ? AND interface = ? ORDER BY history.id DESC LIMIT 1`,
  );
  return (network, lease) => last.get(network, lease.address, lease.container_id, lease.interface)?.ended_by === FORCED;
}

function keyOf(ledger: Ledger, row: Pick<AttachmentRow, "network_id" | "container_id" | "interface">): string {
  return `${row.container_id} ${row.interface} ${ledger.networkById(row.network_id).name}`;
}

function inUse(rows: readonly AttachmentRow[]): RefusalError {
  const named = rows.slice(0, NAMED_MAX).map((row) => `${row.container_id} (${row.interface})`);
  const more = rows.length > NAMED_MAX ? ` and ${rows.length - NAMED_MAX} more` : "";
  const addresses = rows.flatMap((row) => (JSON.parse(row.ips) as { address: string }[]).map((ip) => ip.address));
  return new RefusalError(
    refuse("IN_USE", {
      addresses: addresses.slice(0, NAMED_MAX).join(", "),
      holder: `what was attached after that backup was made, or is recorded differently in it: container ${named.join(", ")}${more}`,
    }),
  );
}

function isAlive({ context }: Ledger, row: AttachmentRow): boolean {
  const witnessed = row.netns_witnessed === 1;
  return !context.namespaceGone({ path: row.netns_path, id: row.netns_id, witnessed });
}
