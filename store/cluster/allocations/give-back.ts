import type { IPAllocation } from "../../../kube/objects.ts";
import { isoTime } from "../../../platform/time.ts";
import type { AllocationClient, AllocationReading } from "./allocation-client.ts";
import { cooled, sameAllocationOwner, withNode, withoutAttachments } from "./allocation-object.ts";
import { ATTEMPTS_MAX } from "./hold.ts";

/** Which allocation is meant. One of another owner, or that was created again since, is left alone. */
export interface Meant {
  readonly name: string;
  readonly uid?: string;
  readonly owner?: Parameters<typeof sameAllocationOwner>[0];
}

/** What is to become of an allocation that was read. */
export type Change<W> =
  /** Nobody has it any more, and it rests: since `since`, RFC 3339, or by default since now. */
  | { readonly kind: "cool"; readonly since?: string | undefined }
  /** It goes on without these attachments. */
  | { readonly kind: "prune"; readonly keys: readonly string[] }
  /** It goes on, on a node that was not recorded. */
  | { readonly kind: "record"; readonly node: string }
  /** It has rested. */
  | { readonly kind: "delete" }
  | { readonly kind: "leave"; readonly why: W };

export type GivenBack<W> =
  /** Written as it is now, or deleted as it was. */
  | { readonly kind: "done"; readonly object: IPAllocation }
  /** Nobody has the address. */
  | { readonly kind: "absent" }
  /** It is not the one that is meant. */
  | { readonly kind: "other"; readonly object: IPAllocation }
  | { readonly kind: "left"; readonly why: W }
  /** Others kept writing it. */
  | { readonly kind: "changed" };

/**
 * The one place where an address ceases to be somebody's: an allocation is read from the quorum, judged, and changed
 * against the version just read; when somebody else was faster, everything begins anew. Whoever was stopped in between
 * writes nothing. Throws ApiAway when the outcome is unknown, and RefusalError API_REFUSED.
 * See docs/decisions/0014.
 */
export async function giveBack<W = never>(
  client: AllocationClient,
  meant: Meant,
  judge: (reading: AllocationReading) => Change<W> | Promise<Change<W>>,
  deadlineMs: number,
): Promise<GivenBack<W>> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
    const reading = await client.readNamed(meant.name, deadlineMs);
    if (reading === null) return { kind: "absent" };
    const { object } = reading;
    if (!isMeant(object, meant)) return { kind: "other", object };
    const change = await judge(reading);
    if (change.kind === "leave") return { kind: "left", why: change.why };
    const written = await write(client, reading, change, deadlineMs);
    if (written.kind === "done") return written;
  }
  return { kind: "changed" };
}

function isMeant({ metadata, spec }: IPAllocation, { uid, owner }: Meant): boolean {
  if (uid !== undefined && metadata.uid !== uid) return false;
  return owner === undefined || sameAllocationOwner(spec.owner, owner);
}

function write<W>(
  client: AllocationClient,
  { object, serverMs }: AllocationReading,
  change: Exclude<Change<W>, { kind: "leave" }>,
  deadlineMs: number,
) {
  switch (change.kind) {
    case "cool": {
      // The server's clock, against which allocators measure the rest.
      const since = change.since ?? isoTime(serverMs ?? client.clock.wallMs());
      return client.replace(cooled(object, since), deadlineMs);
    }
    case "prune":
      return client.replace(withoutAttachments(object, change.keys), deadlineMs);
    case "record":
      return client.replace(withNode(object, change.node), deadlineMs);
    case "delete":
      return client.delete(object, deadlineMs);
  }
}
