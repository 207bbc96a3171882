import type Database from "better-sqlite3";
import type { AllocationState, AnsweredAddress, Attachment, PodIdentity } from "../../allocations/records.ts";
import { describeOwner, describeRetained, type Owner } from "../../ipam/owner.ts";
import { addressFromBytes, formatAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { isoTime } from "../../platform/time.ts";

export interface OwnerColumns {
  readonly owner_kind: Owner["kind"];
  readonly owner_uid: string;
  readonly owner_interface: string;
  readonly owner_namespace: string;
  readonly owner_name: string;
}

export interface AllocationRow extends OwnerColumns {
  readonly id: number;
  readonly network_id: number;
  readonly address: Buffer;
  readonly prefix_length: number;
  readonly state: AllocationState;
  readonly adopted: 0 | 1;
  readonly since_ms: number;
  /** Of a Retained one: until when, ms of the wall clock. null: not retained. */
  readonly retained_until_ms: number | null;
}

interface PodColumns {
  readonly pod_namespace: string | null;
  readonly pod_name: string | null;
  readonly pod_uid: string | null;
}

type Phase = "taking" | "held" | "leaving" | "gone";

/** What is known of one interface of one container on one network: the phases are in migrations.ts. */
export interface UseRow<P extends Phase = Phase> extends OwnerColumns, PodColumns {
  readonly id: number;
  readonly phase: P;
  readonly network_id: number;
  readonly container_id: string;
  readonly interface: string;
  readonly claim_ref: string;
  readonly ips: string;
  readonly boot_id: string;
  readonly boot_us: number;
  readonly netns_path: string;
  readonly netns_id: string;
  readonly netns_witnessed: 0 | 1;
  readonly node: string;
  readonly since_ms: number;
  /** The attachment's rows in the history: `history_count` of them from `history_id` on. */
  readonly history_id: number;
  readonly history_count: number;
  /** One of its addresses belongs to another owner now: no repeat is answered from it. */
  readonly lost: 0 | 1;
  /** As requested; null: none was. */
  readonly mac: string | null;
  /** In Kubernetes: the newest version of what was written for it, or of its release; 0: not known. */
  readonly version: number;
  readonly deleted: 0 | 1;
  readonly ended: 0 | 1;
  readonly again: 0 | 1;
}

export type AttachmentRow = UseRow<"held">;
/** What an ADD in Kubernetes is about to reserve. */
export type TakingRow = UseRow<"taking">;
/** What a container has stopped using and whose release is pending, for the first time or once more. */
export type PendingRow = UseRow<"leaving" | "gone">;
/** An address that was given back: no other trace of a restore to before its release. */
export type ReleasedRow = UseRow<"gone">;
export type OverRow = Pick<
  PendingRow,
  "id" | "phase" | "network_id" | "ips" | "boot_id" | "boot_us" | "deleted" | "again"
>;

export const OWNER = "owner_kind, owner_uid, owner_interface, owner_namespace, owner_name";

/** Conditions of the partial indexes, in the words by which SQLite recognises them. */
export const LIVE = "(phase = 'taking' OR phase = 'held')";
export const OVER = "(phase = 'leaving' OR phase = 'gone')";
export const PENDING = "(phase = 'leaving' OR again = 1)";
export const RELEASED = "phase = 'gone' AND version > 0 AND deleted = 0";
/** Gone, and remembered for an hour at most. */
export const FORGETTABLE = "phase = 'gone' AND again = 0 AND (version = 0 OR deleted = 1)";

export type UserRow = OwnerColumns & PodColumns & Pick<AttachmentRow, "network_id" | "container_id">;

export interface ClaimRow {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly network: string;
  /** JSON: the applied object's metadata and spec. */
  readonly manifest: string;
  readonly vm_name: string;
  readonly vm_uid: string;
  /** JSON: status.ips. */
  readonly ips: string;
  readonly owner_pod: string | null;
  /** JSON: status.conditions. */
  readonly conditions: string;
  readonly created_ms: number;
  readonly deleted_ms: number | null;
  readonly version: number;
}

export interface ContentRow {
  readonly namespace: string;
  readonly kind: "Secret" | "ConfigMap";
  readonly name: string;
  /** JSON: texts. */
  readonly labels: string;
  readonly immutable: 0 | 1;
  /** JSON: a list of keys with the sizes of their values. */
  readonly keys: string;
  /** JSON: base64 by key. */
  readonly data: string;
  /** Of all values. */
  readonly bytes: number;
  readonly created_ms: number;
}

export interface HistoryRow extends OwnerColumns, PodColumns {
  readonly id: number;
  readonly network: string;
  readonly address: Buffer;
  readonly prefix_length: number;
  readonly container_id: string | null;
  readonly interface: string | null;
  readonly node: string;
  readonly from_ms: number;
  readonly until_ms: number | null;
  readonly ended_by: string | null;
}

export interface NetworkRow {
  readonly id: number;
  readonly name: string;
  readonly runtime_config: string | null;
  readonly bridge_is_gateway: 0 | 1;
  /** `mtu` of the plugin's configuration at the last ADD on a network with metadata; null: it names none. */
  readonly mtu: number | null;
}

export interface DefinitionRow {
  readonly id: number;
  readonly namespace: string;
  readonly name: string;
  readonly network: string;
  readonly config: string;
  readonly manifest: string;
}

/** SQL: the owner is of one of these kinds. OR instead of IN, for which SQLite builds a table at every insert. */
export function kindIs(kinds: readonly string[], column = "owner_kind"): string {
  return `(${kinds.map((kind) => `${column} = '${kind}'`).join(" OR ") || "FALSE"})`;
}

/** SQL: the owner is of none of these kinds, each a term: so SQLite recognises the condition of a partial index. */
export function kindIsNot(kinds: readonly string[], column = "owner_kind"): string {
  return kinds.map((kind) => `${column} <> '${kind}'`).join(" AND ") || "TRUE";
}

export function ownerOf(row: OwnerColumns): Owner {
  return {
    kind: row.owner_kind,
    uid: row.owner_uid,
    interface: row.owner_interface,
    namespace: row.owner_namespace,
    name: row.owner_name,
  };
}

/** The holder of an allocation, for people: of a Retained one, until when. */
export function describeHolding(row: AllocationRow): string {
  const holder = describeOwner(ownerOf(row));
  return row.retained_until_ms === null ? holder : describeRetained(holder, isoTime(row.retained_until_ms));
}

export function podOf(row: PodColumns): PodIdentity | null {
  if (row.pod_uid === null) return null;
  return { namespace: row.pod_namespace ?? "", name: row.pod_name ?? "", uid: row.pod_uid };
}

export function interfaceAddressOf(row: { address: Buffer; prefix_length: number }): InterfaceAddress {
  const address = addressFromBytes(row.address);
  if (row.prefix_length < 0 || row.prefix_length > (address.family === 4 ? 32 : 128)) {
    throw new Error(`stored address ${formatAddress(address)} has prefix length ${row.prefix_length}`);
  }
  return { address, prefixLength: row.prefix_length };
}

export function cidrTextOf(row: { address: Buffer; prefix_length: number }): string {
  return formatInterfaceAddress(interfaceAddressOf(row));
}

export function addressesOf({ ips }: Pick<UseRow, "ips">): InterfaceAddress[] {
  return (JSON.parse(ips) as AnsweredAddress[]).map(({ address }) => parseInterfaceAddress(address));
}

export function attachmentOf(row: AttachmentRow, network: string): Attachment {
  return {
    id: row.id,
    network,
    containerId: row.container_id,
    interface: row.interface,
    owner: ownerOf(row),
    claimRef: row.claim_ref,
    ips: JSON.parse(row.ips) as AnsweredAddress[],
    stamp: { bootId: row.boot_id, us: row.boot_us },
    netns: { path: row.netns_path, id: row.netns_id, witnessed: row.netns_witnessed === 1 },
    pod: podOf(row),
    node: row.node,
    sinceMs: row.since_ms,
    mac: row.mac,
  };
}

/**
 * IDs of new rows, none of which comes a second time while the daemon runs. SQLite gives the highest ID of the table
 * plus one, so that of a deleted row comes again, and whoever still waits with it would end somebody else's row.
 */
export class RowIds {
  #last = 0;

  /** A database was opened: what it has is not given again, nor what its note of a gap names. */
  startAfter(db: Database.Database): void {
    const given = "SELECT max(id) AS id FROM uses UNION SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'gap'";
    for (const { id } of db.prepare<[], { id: number | null }>(given).all()) this.#last = Math.max(this.#last, id ?? 0);
  }

  /** The youngest that was given; 0: none. */
  get last(): number {
    return this.#last;
  }

  next(): number {
    this.#last += 1;
    return this.#last;
  }
}
