import type { AnsweredAddress, PodIdentity } from "../../allocations/records.ts";
import type { KnownAttachment } from "../../ipam/attach-view.ts";
import type { Stamp } from "../../ipam/stamp.ts";
import type { NamespaceIdentity } from "../../platform/namespaces.ts";
import { type AttachmentRow, podOf } from "./rows.ts";

/** An attachment of the journal for decisions: columns are parsed only when they are read. */
export class JournalAttachment implements KnownAttachment {
  readonly row: AttachmentRow;

  constructor(row: AttachmentRow) {
    this.row = row;
  }

  get id(): number {
    return this.row.id;
  }

  get containerId(): string {
    return this.row.container_id;
  }

  get interface(): string {
    return this.row.interface;
  }

  get pod(): PodIdentity | null {
    return podOf(this.row);
  }

  get claimRef(): string {
    return this.row.claim_ref;
  }

  get ips(): readonly AnsweredAddress[] {
    return JSON.parse(this.row.ips) as AnsweredAddress[];
  }

  get stamp(): Stamp {
    return { bootId: this.row.boot_id, us: this.row.boot_us };
  }

  get netns(): NamespaceIdentity {
    const { netns_path: path, netns_id: id, netns_witnessed: witnessed } = this.row;
    return { path, id, witnessed: witnessed === 1 };
  }

  get isLost(): boolean {
    return this.row.lost === 1;
  }
}
