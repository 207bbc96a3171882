import type { AllocationClient } from "../../../allocations/allocation-client.ts";
import { sameAllocationOwner } from "../../../allocations/allocation-object.ts";
import { type Change, giveBack } from "../../../allocations/give-back.ts";
import { tooManyWriters } from "../../../allocations/hold.ts";
import type { Picture } from "../../../allocations/picture.ts";
import { OWNER_KINDS } from "../../../ipam/owner.ts";
import { type Address, sameAddress } from "../../../ipam/space/address.ts";
import { allocationName } from "../../../kube/object-names.ts";
import { attachmentKey, attachmentsIn, type IPAllocation } from "../../../kube/objects.ts";
import { attachmentsOf } from "../../journal/holdings.ts";
import type { Ledger } from "../../journal/ledger.ts";
import { type AttachmentRow, addressesOf, type PendingRow, ownerOf as useOwnerOf } from "../../journal/rows.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";
import { isUnderWay, takingOf } from "../../journal/uses.ts";
import { objectOf, verdictOn } from "./facts.ts";
import type { Facts } from "./relations.ts";

/** Longest time for one release before the others get their turn, ms. */
const DELIVERY_MS_MAX = 10_000;

export interface ReleaseParts {
  readonly directory: StateDirectory;
  readonly client: AllocationClient;
  readonly picture: Picture;
  /** ADDs of this process that have not ended. */
  readonly underWay: ReadonlySet<string>;
}

/**
 * The object as written; "sent": nothing had to be written; "absent": nor is there one; "later": an ADD of the same
 * owner is under way and may be about to use the address.
 */
export type Released = IPAllocation | "sent" | "later" | "absent";

/** An address that now belongs to another owner is left alone. Throws ApiAway, RefusalError. */
export async function releaseAddress(
  { directory, client, picture, underWay }: ReleaseParts,
  row: PendingRow,
  address: Address,
): Promise<Released> {
  const { ledger } = directory;
  const { name: network } = ledger.networkById(row.network_id);
  const holder = {
    owner: ownerOf(row),
    attachment: { containerID: row.container_id, interface: row.interface },
  };
  const outcome = await giveBack<"sent" | "later">(
    client,
    { name: allocationName(network, address) },
    (reading) => {
      const { object } = reading;
      const isOwn = sameAllocationOwner(object.spec.owner, ownerOf(row));
      const needed = () => (isOwn ? neededBy(ledger, row, address, underWay) : neededByContainer(ledger, row, address));
      const verdict = verdictOn({ phase: "leaving", object: objectOf(reading, holder) }, { needed });
      if (verdict === "close") return { kind: "leave", why: "sent" };
      if (verdict === "wait") return { kind: "leave", why: "later" };
      const key = attachmentKey(row.container_id, row.interface);
      return isOwn ? changeFor(object, row) : { kind: "prune", keys: [key] };
    },
    client.clock.monotonicMs() + DELIVERY_MS_MAX,
  );
  switch (outcome.kind) {
    case "absent":
      picture.noteFree(network, address);
      return "absent";
    case "other":
      return "sent";
    case "left":
      return outcome.why;
    case "changed":
      throw tooManyWriters(network, address);
    case "done": {
      const { metadata, status, spec } = outcome.object;
      picture.note(network, address, spec.owner.uid, status?.state, metadata.resourceVersion);
      return outcome.object;
    }
  }
}

function ownerOf({ owner_kind: kind, owner_uid: uid, owner_interface: interfaceName }: PendingRow) {
  return { kind: OWNER_KINDS[kind].object, uid, interface: interfaceName };
}

/** Whether the same owner has attached again with the address meanwhile, or is about to. */
function neededBy(ledger: Ledger, row: PendingRow, address: Address, underWay: ReadonlySet<string>): Facts["needed"] {
  if (isUsed(ledger, row, address)) return "held";
  return isBeingAdded(ledger, row, underWay) ? "adding" : "no";
}

/** The same of an address that was handed over to a claim while the container used it: only the container counts. */
function neededByContainer({ sql }: Ledger, row: PendingRow, address: Address): Facts["needed"] {
  if (sql.attachmentsOfContainer.all(row.container_id, row.interface).some((one) => has(one, address))) return "held";
  return sql.takingOfContainer.all(row.container_id, row.interface).length > 0 ? "adding" : "no";
}

function isUsed(ledger: Ledger, row: PendingRow, address: Address): boolean {
  // Other attachments may use the address of an owner that outlives them: only those of this container count.
  const rows = OWNER_KINDS[row.owner_kind].outlivesAttachments
    ? ledger.sql.attachmentsOfContainer.all(row.container_id, row.interface)
    : attachmentsOf(ledger, useOwnerOf(row));
  return rows
    .filter((one) => one.network_id === row.network_id && one.owner_uid === row.owner_uid)
    .some((one) => has(one, address));
}

function has(one: AttachmentRow, address: Address): boolean {
  return addressesOf(one).some((its) => sameAddress(its.address, address));
}

/** A row is there before its ADD writes; one at rest, unanswered, keeps nothing: the next ADD takes back what cools. */
function isBeingAdded(ledger: Ledger, row: PendingRow, underWay: ReadonlySet<string>): boolean {
  const adds = takingOf(ledger, useOwnerOf(row), row.network_id);
  return adds.some((add) => isUnderWay(ledger, add, underWay));
}

/** It cools down when that was the last attachment of an owner that ends with it. */
function changeFor(object: IPAllocation, row: PendingRow): Change<"sent"> {
  const attachments = attachmentsIn(object);
  const own = attachmentKey(row.container_id, row.interface);
  const keys = attachments.flatMap((one) => {
    const key = attachmentKey(one.containerID, one.interface);
    const isFormer =
      row.owner_kind === "pod" && one.pod?.uid === row.owner_uid && one.interface === row.owner_interface;
    return key === own || isFormer ? [key] : [];
  });
  if (!OWNER_KINDS[row.owner_kind].outlivesAttachments && attachments.length === keys.length)
    return { kind: "cool", holderEnded: row.ended === 1 && keys.every((key) => key === own) };
  return keys.length === 0 ? { kind: "leave", why: "sent" } : { kind: "prune", keys, ended: row.ended === 1 };
}
