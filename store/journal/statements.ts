import type Database from "better-sqlite3";
import { kindsThat } from "../../ipam/owner.ts";
import {
  type AllocationRow,
  type AttachmentRow,
  type ClaimRow,
  type ContentRow,
  type DefinitionRow,
  FORGETTABLE,
  type HistoryRow,
  kindIsNot,
  LIVE,
  type NetworkRow,
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

function preparing(db: Database.Database) {
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

/** Every statement of the request path, prepared once for each opened database. */
export type Statements = ReturnType<typeof prepareStatements>;

const POD = "pod_namespace, pod_name, pod_uid";

/** The network, twice, and the namespace, twice; null: of all. */
type OfHistory = [string | null, string | null, string | null, string | null];
const OF_HISTORY =
  "(? IS NULL OR networks.name = ?) AND (? IS NULL OR ? IN (history.owner_namespace, history.pod_namespace))";

export function prepareStatements(db: Database.Database) {
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
    networks: get<[], NetworkRow>("SELECT * FROM networks ORDER BY name"),
    setBridgeIsGateway: run<[number]>("UPDATE networks SET bridge_is_gateway = 1 WHERE id = ?"),
    insertNetwork: run<[string]>("INSERT INTO networks (name) VALUES (?)"),
    setRuntimeConfig: run<[string, number]>("UPDATE networks SET runtime_config = ? WHERE id = ?"),

    definitions: get<[], DefinitionRow>("SELECT * FROM definitions ORDER BY id"),
    definition: get<[string, string], DefinitionRow>("SELECT * FROM definitions WHERE namespace = ? AND name = ?"),
    definitionsOf: get<[string], DefinitionRow>("SELECT * FROM definitions WHERE network = ? ORDER BY id"),
    putDefinition: run<[string, string, string, string, string]>(
      `INSERT INTO definitions (namespace, name, network, config, manifest) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (namespace, name) DO UPDATE SET network = excluded.network, config = excluded.config, manifest = excluded.manifest`,
    ),
    deleteDefinition: run<[string, string]>("DELETE FROM definitions WHERE namespace = ? AND name = ?"),

    /** Insert-if-absent: nothing changes where the row is Bound or Retained; a Cooling one may be taken over. */
    insertAllocation: run<
      [number, Buffer | Uint8Array, number, string, string, string, string, string, number, number]
    >(
      `INSERT INTO allocations (network_id, address, prefix_length, ${OWNER}, state, adopted, since_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'Bound', ?, ?)
       ON CONFLICT (network_id, address) DO UPDATE SET prefix_length = excluded.prefix_length,
         owner_kind = excluded.owner_kind, owner_uid = excluded.owner_uid, owner_interface = excluded.owner_interface,
         owner_namespace = excluded.owner_namespace, owner_name = excluded.owner_name,
         state = 'Bound', adopted = excluded.adopted, since_ms = excluded.since_ms
       WHERE allocations.state = 'Cooling'`,
    ),
    passAllocation: run<[string, number, number]>(
      "UPDATE allocations SET owner_uid = ?, adopted = 0, since_ms = ? WHERE id = ?",
    ),
    /** Reads every allocation of the network: of kinds that take over by name, which no container has. */
    allocationsOfNameSlowly: get<[number, string, string, string, string], AllocationRow>(
      `SELECT * FROM allocations WHERE network_id = ? AND owner_kind = ? AND owner_namespace = ? AND owner_name = ?
         AND owner_interface = ? ORDER BY address`,
    ),
    allocation: get<[number, Buffer | Uint8Array], AllocationRow>(
      "SELECT * FROM allocations WHERE network_id = ? AND address = ?",
    ),
    coolingOfOwner: get<[string, string, number, string], AllocationRow>(
      `SELECT * FROM allocations WHERE owner_uid = ? AND owner_interface = ? AND network_id = ? AND owner_kind = ?
         AND state = 'Cooling' ORDER BY address`,
    ),
    allocationsOfClaim: get<[string, number], AllocationRow>(
      `SELECT * FROM allocations WHERE owner_kind = 'claim' AND owner_uid = ? AND owner_interface = '' AND network_id = ?
       ORDER BY address`,
    ),
    boundOfClaim: get<[string], AllocationRow>(
      `SELECT * FROM allocations WHERE owner_kind = 'claim' AND owner_uid = ? AND owner_interface = '' AND state = 'Bound'
       ORDER BY network_id, address`,
    ),
    /** Reads every allocation of the network, so that a leak without an attachment is found too: for operators only. */
    boundOfOwnerSlowly: get<[number, string, string, string], AllocationRow>(
      `SELECT * FROM allocations WHERE network_id = ? AND owner_uid = ? AND owner_interface = ? AND owner_kind = ?
         AND state = 'Bound' ORDER BY address`,
    ),
    setPrefixLength: run<[number, number, Buffer, number]>(
      "UPDATE allocations SET prefix_length = ? WHERE network_id = ? AND address = ? AND prefix_length <> ?",
    ),
    settleAdopted: run<[string]>(
      "UPDATE allocations SET adopted = 0 WHERE owner_kind = 'claim' AND owner_uid = ? AND owner_interface = '' AND adopted = 1",
    ),
    coolAllocation: run<[number, number]>(
      "UPDATE allocations SET state = 'Cooling', since_ms = ?, retained_until_ms = NULL WHERE id = ?",
    ),
    allocationsOfNetwork: get<[number, Uint8Array, number], AllocationRow>(
      "SELECT * FROM allocations WHERE network_id = ? AND address > ? ORDER BY address LIMIT ?",
    ),
    deleteAllocation: run<[number]>("DELETE FROM allocations WHERE id = ?"),
    allocationsAfter: get<[number, number], AllocationRow>(
      "SELECT * FROM allocations WHERE id > ? ORDER BY id LIMIT ?",
    ),
    lastAllocationId: get<[], { id: number | null }>("SELECT max(id) AS id FROM allocations"),
    allocationIdAhead: get<[number, number], { id: number }>(
      "SELECT id FROM allocations WHERE id >= ? ORDER BY id LIMIT 1 OFFSET +?",
    ),
    retainAllocation: run<[number, number, number]>(
      "UPDATE allocations SET state = 'Retained', since_ms = ?, retained_until_ms = ? WHERE id = ?",
    ),
    rebindAllocation: run<[string, number, number, number]>(
      `UPDATE allocations SET state = 'Bound', retained_until_ms = NULL, owner_uid = ?, adopted = ?, since_ms = ?
       WHERE id = ? AND state = 'Retained'`,
    ),
    retainedOfName: get<[string, string, number], AllocationRow>(
      `SELECT * FROM allocations WHERE owner_namespace = ? AND owner_name = ? AND network_id = ? AND state = 'Retained'
       ORDER BY address`,
    ),
    /** Of these networks (JSON: their IDs) any, of others those whose time is over. */
    retainedOver: get<[string, number, number], AllocationRow>(
      `SELECT * FROM allocations WHERE state = 'Retained'
         AND (network_id IN (SELECT value FROM json_each(?)) OR retained_until_ms <= ?) ORDER BY id LIMIT ?`,
    ),
    coolingAfter: get<[number, number], AllocationRow>(
      "SELECT * FROM allocations WHERE state = 'Cooling' AND id > ? ORDER BY id LIMIT ?",
    ),
    storedAddresses: get<[number, Uint8Array, number], { address: Buffer; state: string; since_ms: number }>(
      "SELECT address, state, since_ms FROM allocations WHERE network_id = ? AND address > ? ORDER BY address LIMIT ?",
    ),

    networkMtu: get<[number], { mtu: number | null }>("SELECT mtu FROM networks WHERE id = ?"),
    setNetworkMtu: run<[number | null, number]>("UPDATE networks SET mtu = ? WHERE id = ?"),

    claimsAfter: get<[string, string, number], ClaimRow>(
      "SELECT * FROM claims WHERE (namespace, name) > (+?, +?) ORDER BY namespace, name LIMIT ?",
    ),
    claimCount: get<[], { n: number }>("SELECT count(*) AS n FROM claims"),
    claim: get<[string, string], ClaimRow>("SELECT * FROM claims WHERE namespace = ? AND name = ?"),
    claimByUid: get<[string], ClaimRow>("SELECT * FROM claims WHERE uid = ?"),
    vmOfClaim: get<[string], Pick<ClaimRow, "namespace" | "name" | "vm_name" | "vm_uid" | "manifest">>(
      "SELECT namespace, name, vm_name, vm_uid, manifest FROM claims WHERE uid = ?",
    ),
    insertClaim: run<[string, string, string, string, string, string, string, string, string, number]>(
      `INSERT INTO claims (uid, namespace, name, network, manifest, vm_name, vm_uid, ips, conditions, created_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    updateClaimSpec: run<[string, string, string, string, string]>(
      "UPDATE claims SET network = ?, manifest = ?, vm_name = ?, vm_uid = ?, version = version + 1 WHERE uid = ?",
    ),
    updateClaimStatus: run<[string, string | null, string, string]>(
      "UPDATE claims SET ips = ?, owner_pod = ?, conditions = ?, version = version + 1 WHERE uid = ?",
    ),
    markClaimDeleted: run<[number, string]>("UPDATE claims SET deleted_ms = ?, version = version + 1 WHERE uid = ?"),
    deleteClaim: run<[string]>("DELETE FROM claims WHERE uid = ?"),

    /** Without the values, which may be very many. */
    contents: get<[], Omit<ContentRow, "data">>(
      `SELECT namespace, kind, name, labels, immutable, keys, bytes, created_ms FROM contents
       ORDER BY namespace, kind, name`,
    ),
    content: get<[string, string, string], ContentRow>(
      "SELECT * FROM contents WHERE namespace = ? AND kind = ? AND name = ?",
    ),
    contentTotals: get<[], { n: number; bytes: number }>(
      "SELECT count(*) AS n, coalesce(sum(bytes), 0) AS bytes FROM contents",
    ),
    putContent: run<[string, string, string, string, number, string, string, number, number]>(
      `INSERT INTO contents (namespace, kind, name, labels, immutable, keys, data, bytes, created_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (namespace, kind, name) DO UPDATE SET labels = excluded.labels, immutable = excluded.immutable,
         keys = excluded.keys, data = excluded.data, bytes = excluded.bytes`,
    ),
    deleteContent: run<[string, string, string]>("DELETE FROM contents WHERE namespace = ? AND kind = ? AND name = ?"),

    insertHistory: run<unknown[]>(
      `INSERT INTO history (network_id, address, prefix_length, ${OWNER}, container_id, interface, ${POD}, node, from_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    endHistory: run<[number, string, number, number]>(
      "UPDATE history SET until_ms = ?, ended_by = ? WHERE id >= ? AND id < ? AND until_ms IS NULL",
    ),
    endHolding: run<[number, string, number, Buffer, string]>(
      `UPDATE history SET until_ms = ?, ended_by = ?
       WHERE network_id = ? AND address = ? AND owner_uid = ? AND container_id IS NULL AND until_ms IS NULL`,
    ),
    historyIds: get<[], { first: number | null; last: number | null }>(
      // min and max together would read the whole index; each alone is one lookup.
      "SELECT (SELECT min(id) FROM history) AS first, (SELECT max(id) FROM history) AS last",
    ),
    firstPeriod: get<[], { from_ms: number }>("SELECT from_ms FROM history ORDER BY id LIMIT 1"),
    pruneHistory: run<[number, number]>(
      `DELETE FROM history WHERE id IN
         (SELECT id FROM history WHERE id < ? AND until_ms IS NOT NULL ORDER BY id LIMIT ?)`,
    ),
    /** How the latest period of an address ended; null: it goes on. */
    lastEnd: get<[Buffer | Uint8Array, number], { ended_by: string | null }>(
      "SELECT ended_by FROM history WHERE address = ? AND network_id = ? ORDER BY id DESC LIMIT 1",
    ),
    historyOfAddress: get<[Buffer | Uint8Array, ...OfHistory, number], HistoryRow>(
      `SELECT history.*, networks.name AS network FROM history JOIN networks ON networks.id = history.network_id
       WHERE history.address = ? AND ${OF_HISTORY} ORDER BY history.id DESC LIMIT ?`,
    ),
    /** Those with IDs after the first number and up to the second. */
    recentHistory: get<[...OfHistory, number, number, number], HistoryRow>(
      `SELECT history.*, networks.name AS network FROM history JOIN networks ON networks.id = history.network_id
       WHERE ${OF_HISTORY} AND history.id > ? AND history.id <= ? ORDER BY history.id DESC LIMIT ?`,
    ),

    meta: get<[string], { value: string }>("SELECT value FROM meta WHERE key = ?"),
    putMeta: run<[string, string]>(
      "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    ),
  };
}
