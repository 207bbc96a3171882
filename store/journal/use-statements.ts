import type Database from "better-sqlite3";
import { kindsThat } from "../../ipam/owner.ts";
import {
  type AttachmentRow,
  FORGETTABLE,
  kindIsNot,
  LIVE,
  OVER,
  type OverRow,
  OWNER,
  PENDING,
  type PendingRow,
  RELEASED,
  type ReleasedRow,
  type TakingRow,
  type UseRow,
  type UserRow,
} from "./rows.ts";

export function preparing(db: Database.Database) {
  return {
    // From 3.54 on SQLite prepares a statement with ORDER BY, LIMIT or an aggregate anew at every execution where it
    // compares with a parameter, for ten times the price; not where it compares with an expression.
    get: <P extends unknown[], R>(sql: string) => db.prepare<P, R>(sql.replaceAll(/([=<>]|LIMIT) \?/g, "$1 +?")),
    run: <P extends unknown[]>(sql: string) => db.prepare<P>(sql),
  };
}

/** Attachments of these kinds are found by their container ID. */
const CONTAINER_KINDS = kindsThat((kind) => kind.isContainer);
const TAKING = `phase = 'taking' AND ${LIVE}`;
const HELD = `uses WHERE phase = 'held' AND ${LIVE}`;
/** Through the open periods of the history, of which an address has few: attachments have no index by address. */
function users(condition: string): string {
  return `SELECT uses.network_id, uses.container_id, uses.owner_kind, uses.owner_uid, uses.owner_interface,
      uses.owner_namespace, uses.owner_name, uses.pod_namespace, uses.pod_name, uses.pod_uid
    FROM history INDEXED BY history_open CROSS JOIN uses
    ON uses.container_id = history.container_id AND uses.interface = history.interface
      AND uses.network_id = history.network_id AND history.id >= uses.history_id
      AND history.id < uses.history_id + uses.history_count
    WHERE history.address = ? ${condition} AND history.until_ms IS NULL AND history.container_id IS NOT NULL
      AND uses.phase = 'held' AND ${LIVE} AND uses.lost = 0`;
}

export function prepareUseStatements(db: Database.Database) {
  const { get, run } = preparing(db);
  return {
    attachment: get<[string, string, number], AttachmentRow>(
      `SELECT * FROM ${HELD} AND container_id = ? AND interface = ? AND network_id = ?`,
    ),
    attachmentsOfContainer: get<[string, string], AttachmentRow>(
      `SELECT * FROM ${HELD} AND container_id = ? AND interface = ? ORDER BY id`,
    ),
    attachmentsOfContainerId: get<[string], AttachmentRow>(`SELECT * FROM ${HELD} AND container_id = ? ORDER BY id`),
    attachmentsOfPod: get<[string], AttachmentRow>(`SELECT * FROM ${HELD} AND pod_uid = ? ORDER BY id`),
    usersOfAddress: get<[Buffer | Uint8Array], UserRow>(users("")),
    usersOnNetwork: get<[Buffer | Uint8Array, number], UserRow>(users("AND history.network_id = ?")),
    /** Not for containers: see `attachmentsOf`. */
    attachmentsOfOwner: get<[string, string, string], AttachmentRow>(
      `SELECT * FROM ${HELD} AND owner_uid = ? AND owner_interface = ? AND owner_kind = ?
         AND ${kindIsNot(CONTAINER_KINDS)} ORDER BY id`,
    ),
    attachmentsOfNetwork: get<[number], AttachmentRow>(`SELECT * FROM ${HELD} AND network_id = ? ORDER BY id`),
    attachmentsAfter: get<[number, number], AttachmentRow>(`SELECT * FROM ${HELD} AND id > ? ORDER BY id LIMIT ?`),
    /** Boots other than the given one: how many attachments they have, and the stamp of the youngest. */
    otherBoots: get<[string], { boot_id: string; n: number; last_us: number }>(
      `SELECT boot_id, count(*) AS n, max(boot_us) AS last_us FROM ${HELD} AND boot_id <> ? GROUP BY boot_id`,
    ),
    /** The attachment that was written to Kubernetes last, of those up to an id that still stand. */
    attachmentWrittenLast: get<[number], AttachmentRow>(
      `SELECT * FROM ${HELD} AND version > 0 AND lost = 0 AND id <= ? ORDER BY version DESC LIMIT 1`,
    ),
    /** What belongs to somebody else by now is not counted. */
    firstAttachment: get<[], { id: number }>(`SELECT id FROM ${HELD} AND lost = 0 ORDER BY id LIMIT 1`),
    lastUse: get<[], { id: number | null }>("SELECT max(id) AS id FROM uses"),
    lostAttachments: get<[], AttachmentRow>(`SELECT * FROM ${HELD} AND lost = 1 ORDER BY id`),
    attachmentById: get<[number], AttachmentRow>(`SELECT * FROM ${HELD} AND id = ?`),
    attachmentCounts: get<[], { network_id: number; n: number }>(
      `SELECT network_id, count(*) AS n FROM ${HELD} GROUP BY network_id`,
    ),
    attachmentsWithMac: get<[], AttachmentRow>(`SELECT * FROM ${HELD} AND mac IS NOT NULL AND lost = 0 ORDER BY id`),
    lostCount: get<[], { n: number }>(`SELECT count(*) AS n FROM ${HELD} AND lost = 1`),

    over: get<[string, string], OverRow>(
      `SELECT id, phase, network_id, ips, boot_id, boot_us, deleted, again FROM uses WHERE ${OVER} AND NOT (${RELEASED}) AND container_id = ? AND interface = ? ORDER BY id`,
    ),
    markDeleted: run<[string, number, number]>("UPDATE uses SET deleted = 1, boot_id = ?, boot_us = ? WHERE id = ?"),
    insertGone: run<[number, number | null, string, string, string, number]>(
      `INSERT INTO uses (id, phase, network_id, container_id, interface, boot_id, boot_us, deleted)
       VALUES (?, 'gone', ?, ?, ?, ?, ?, 1)`,
    ),
    forgetGone: run<[number]>("DELETE FROM uses WHERE id = ? AND phase = 'gone'"),
    pruneGone: run<[string, number]>(`DELETE FROM uses WHERE ${FORGETTABLE} AND (boot_id <> ? OR boot_us < ?)`),
    /** What a DEL has ended: a backup may be older than that DEL. */
    deletedUses: get<[], UseRow<"leaving" | "gone">>(`SELECT * FROM uses WHERE ${OVER} AND deleted = 1`),

    insertTaking: run<unknown[]>(
      `INSERT INTO uses (id, phase, network_id, container_id, interface, ${OWNER}, boot_id, boot_us, ips)
       VALUES (?, 'taking', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    updateTaking: run<[string, number]>("UPDATE uses SET ips = ? WHERE id = ? AND phase = 'taking'"),
    deleteTaking: run<[number]>("DELETE FROM uses WHERE id = ? AND phase = 'taking'"),
    taking: get<[], TakingRow>(`SELECT * FROM uses WHERE ${TAKING} ORDER BY id`),
    takingOfContainer: get<[string, string], TakingRow>(
      `SELECT * FROM uses WHERE ${TAKING} AND container_id = ? AND interface = ? ORDER BY id`,
    ),
    /** Not for containers: see `takingOf`. */
    takingOfOwner: get<[string, string, string], TakingRow>(
      `SELECT * FROM uses WHERE ${TAKING} AND owner_uid = ? AND owner_interface = ? AND owner_kind = ?
         AND ${kindIsNot(CONTAINER_KINDS)} ORDER BY id`,
    ),
    insertLeaving: run<unknown[]>(
      `INSERT INTO uses (id, phase, network_id, container_id, interface, ${OWNER}, ips, ended, again)
       VALUES (?, 'leaving', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    pendingAfter: get<[number, number], PendingRow>(
      `SELECT * FROM uses WHERE ${PENDING} AND id > ? ORDER BY id LIMIT ?`,
    ),
    /** Of those that are not younger than the one of this id; what may have reserved nothing is not counted. */
    pendingCount: get<[number], { n: number; last: number | null }>(
      `SELECT count(*) AS n, max(id) AS last FROM uses WHERE ${PENDING} AND phase = 'leaving' AND again = 0 AND id <= ?`,
    ),
    lookAgain: run<[number]>(`UPDATE uses SET phase = 'gone', again = 1 WHERE id = ? AND ${OVER}`),
    /** It was given back: only a DEL is remembered. */
    settleDeleted: run<[number]>(
      `UPDATE uses SET phase = 'gone', again = 0, ips = '[]' WHERE id = ? AND deleted = 1 AND ${OVER}`,
    ),
    settle: run<[number]>(`DELETE FROM uses WHERE id = ? AND deleted = 0 AND ${OVER}`),

    released: get<[], ReleasedRow>(`SELECT * FROM uses WHERE ${RELEASED} ORDER BY id`),
    insertReleased: run<[number, number, string, string, string, number]>(
      "INSERT INTO uses (id, phase, network_id, container_id, interface, ips, version) VALUES (?, 'gone', ?, ?, ?, ?, ?)",
    ),
    forgetReleasedBefore: run<[number]>(`DELETE FROM uses WHERE ${RELEASED} AND id < ?`),
    /** The numbers of those up to this id say nothing any more. */
    doubtReleased: run<[number]>(`UPDATE uses SET version = 1 WHERE ${RELEASED} AND id <= ?`),
  };
}
