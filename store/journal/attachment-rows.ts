import type Database from "better-sqlite3";
import type { Stamp } from "../../ipam/stamp.ts";
import type { NamespaceIdentity } from "../../platform/namespaces.ts";
import type { AttachmentRow, RowIds, TakingRow } from "./rows.ts";

const COLUMNS = [
  "network_id",
  "container_id",
  "interface",
  "owner_kind",
  "owner_uid",
  "owner_interface",
  "owner_namespace",
  "owner_name",
  "claim_ref",
  "ips",
  "boot_id",
  "boot_us",
  "netns_path",
  "netns_id",
  "netns_witnessed",
  "pod_namespace",
  "pod_name",
  "pod_uid",
  "node",
  "since_ms",
  "history_id",
  "history_count",
  "mac",
  "version",
] as const satisfies readonly (keyof AttachmentRow)[];

export type NewAttachmentRow = Pick<AttachmentRow, (typeof COLUMNS)[number]>;

/**
 * The only writer of attachments, whichever path makes or ends them, so that followers of a network are told of every
 * change. `changed` is called inside the transaction, which may still be rolled back.
 */
export class AttachmentRows {
  readonly #insert: Database.Statement<unknown[]>;
  readonly #hold: Database.Statement<unknown[]>;
  readonly #leave: Database.Statement<[number, string, number, number, number]>;
  readonly #goByDel: Database.Statement<[string, number, number]>;
  readonly #refresh: Database.Statement<[string, number, string, string, number, number]>;
  readonly #bringUpToDate: Database.Statement<unknown[]>;
  readonly #markLost: Database.Statement<[number]>;
  readonly #markFound: Database.Statement<[number]>;
  readonly #renameBoot: Database.Statement<[string, string]>;
  readonly #noteVersion: Database.Statement<[number, number]>;
  readonly #remove: Database.Statement<[number]>;
  readonly #nameInterface: Database.Statement<[string, string, number]>;
  readonly #nameInHistory: Database.Statement<[string, string, number, number]>;
  readonly #ids: RowIds;
  readonly #changed: (networkId: number) => void;

  constructor(db: Database.Database, ids: RowIds, changed: (networkId: number) => void) {
    this.#ids = ids;
    this.#changed = changed;
    const places = COLUMNS.map(() => "?").join(", ");
    this.#insert = db.prepare(`INSERT INTO uses (phase, id, ${COLUMNS.join(", ")}) VALUES ('held', ?, ${places})`);
    this.#hold = db.prepare(
      `UPDATE uses SET phase = 'held', id = ?, ${COLUMNS.map((name) => `${name} = ?`).join(", ")} WHERE id = ?`,
    );
    this.#leave = db.prepare(
      "UPDATE uses SET phase = 'leaving', id = ?, ips = ?, ended = ?, again = ?, version = 0 WHERE id = ?",
    );
    this.#goByDel = db.prepare(
      "UPDATE uses SET phase = 'gone', ips = '[]', deleted = 1, boot_id = ?, boot_us = ? WHERE id = ?",
    );
    this.#refresh = db.prepare(
      "UPDATE uses SET boot_id = ?, boot_us = ?, netns_path = ?, netns_id = ?, netns_witnessed = ? WHERE id = ?",
    );
    this.#bringUpToDate = db.prepare(
      `UPDATE uses SET ips = ?, boot_id = ?, boot_us = ?, netns_path = ?, netns_id = ?, netns_witnessed = ?, node = ?,
         mac = ? WHERE id = ?`,
    );
    this.#markLost = db.prepare("UPDATE uses SET lost = 1 WHERE id = ? AND lost = 0");
    this.#markFound = db.prepare("UPDATE uses SET lost = 0 WHERE id = ?");
    this.#renameBoot = db.prepare("UPDATE uses SET boot_id = ? WHERE boot_id = ?");
    this.#nameInterface = db.prepare("UPDATE uses SET interface = ?, owner_interface = ? WHERE id = ?");
    this.#nameInHistory = db.prepare("UPDATE history SET interface = ?, owner_interface = ? WHERE id >= ? AND id < ?");
    this.#noteVersion = db.prepare("UPDATE uses SET version = ? WHERE id = ?");
    this.#remove = db.prepare("DELETE FROM uses WHERE id = ?");
  }

  /** `taking`: the row of the ADD that has taken it; null: there is none. Returns its id. */
  insert(row: NewAttachmentRow, taking: TakingRow | null): number {
    const id = this.#ids.next();
    const values = COLUMNS.map((name) => row[name]);
    if (taking === null) this.#insert.run(id, ...values);
    else this.#hold.run(id, ...values, taking.id);
    this.#changed(row.network_id);
    return id;
  }

  /** The same attachment was requested again. */
  refresh(row: AttachmentRow, stamp: Stamp, { path, id, witnessed }: NamespaceIdentity): void {
    this.#refresh.run(stamp.bootId, stamp.us, path, id, witnessed ? 1 : 0, row.id);
    if (path !== row.netns_path) this.#changed(row.network_id);
  }

  bringUpToDate(row: AttachmentRow, now: AttachmentRow): void {
    const { ips, boot_id: bootId, boot_us: us, netns_path: path, netns_id: id } = now;
    this.#bringUpToDate.run(ips, bootId, us, path, id, now.netns_witnessed, now.node, now.mac, row.id);
    this.#changed(row.network_id);
  }

  /** One of its addresses now belongs to another owner. Returns whether that was unknown. */
  markLost({ id, network_id: networkId }: Pick<AttachmentRow, "id" | "network_id">): boolean {
    const news = this.#markLost.run(id).changes === 1;
    if (news) this.#changed(networkId);
    return news;
  }

  /** All of its addresses are its own again. */
  markFound({ id, network_id: networkId }: Pick<AttachmentRow, "id" | "network_id">): void {
    this.#markFound.run(id);
    this.#changed(networkId);
  }

  /** What was written for it in Kubernetes is there, and this is the newest version of it. */
  noteVersion(id: number, version: number): void {
    this.#noteVersion.run(version, id);
  }

  /** Renames a boot ID: the boot is the same. */
  renameBoot(from: string, to: string): void {
    this.#renameBoot.run(to, from);
  }

  /** Sets the interface of an attachment that was recorded without one, and of what its container owns through it. */
  nameInterface(row: AttachmentRow, interfaceName: string): void {
    this.#nameInterface.run(interfaceName, interfaceName, row.id);
    const end = row.history_id + row.history_count;
    this.#nameInHistory.run(interfaceName, interfaceName, row.history_id, end);
    this.#changed(row.network_id);
  }

  /** It is over: these of its addresses (JSON) are to be given back. */
  leave(row: AttachmentRow | TakingRow, ips: string, how: { ended: boolean; again: boolean }): void {
    this.#leave.run(this.#ids.next(), ips, how.ended ? 1 : 0, how.again ? 1 : 0, row.id);
    if (row.phase === "held") this.#changed(row.network_id);
  }

  /** A DEL ended it, and is remembered in its row; nothing is to be given back. */
  goByDel({ id, network_id: networkId }: Pick<AttachmentRow, "id" | "network_id">, del: Stamp): void {
    this.#goByDel.run(del.bootId, del.us, id);
    this.#changed(networkId);
  }

  remove({ id, network_id: networkId }: Pick<AttachmentRow, "id" | "network_id">): void {
    this.#remove.run(id);
    this.#changed(networkId);
  }
}
