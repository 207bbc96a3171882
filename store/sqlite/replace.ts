import Database from "better-sqlite3";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { nativeBinding } from "./database-file.ts";
import type { Ledger } from "./ledger.ts";
import type { AttachmentRow } from "./rows.ts";

/** Containers named in a refusal; more would hide the remedy. */
const NAMED_MAX = 5;

/**
 * A backup knows nothing of containers that were attached after it was made: their addresses would be given again while
 * they run. Throws RefusalError IN_USE and names them.
 */
export function refuseAttachedSince(ledger: Ledger, backup: string): void {
  const db = new Database(backup, { readonly: true, ...nativeBinding() });
  let known: Set<string>;
  try {
    const rows = db
      .prepare<[], { container_id: string; interface: string; ips: string }>(
        "SELECT container_id, interface, ips FROM attachments",
      )
      .all();
    known = new Set(rows.map(keyOf));
  } finally {
    db.close();
  }
  const later = ledger.sql.attachmentsAfter
    .all(0, Number.MAX_SAFE_INTEGER)
    .filter((row) => !known.has(keyOf(row)) && isAlive(ledger, row));
  if (later.length === 0) return;
  const named = later.slice(0, NAMED_MAX).map((row) => `${row.container_id} (${row.interface})`);
  const more = later.length > NAMED_MAX ? ` and ${later.length - NAMED_MAX} more` : "";
  const address = later.flatMap((row) =>
    (JSON.parse(row.ips) as { address: string }[]).map((ip) => ip.address),
  );
  throw new RefusalError(
    refuse("IN_USE", {
      address: address.slice(0, NAMED_MAX).join(", "),
      holder: `what was attached after that backup was made: container ${named.join(", ")}${more}`,
    }),
  );
}

function keyOf(row: { container_id: string; interface: string; ips: string }): string {
  return `${row.container_id} ${row.interface} ${row.ips}`;
}

function isAlive({ context }: Ledger, row: AttachmentRow): boolean {
  const witnessed = row.netns_witnessed === 1;
  return !context.namespaceGone({ path: row.netns_path, id: row.netns_id, witnessed });
}
