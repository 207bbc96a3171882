import type { AttachDecision } from "../../ipam/decide-attach.ts";
import { describeUser, userInTheWay } from "../../ipam/decide-attach.ts";
import { claimRefOf } from "../../ipam/decide-repeat.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import { attachmentKey, type IPAllocation } from "../../kube/objects.ts";
import { isoTime } from "../../platform/time.ts";
import type { AttachWant } from "../allocations.ts";
import { openIntent, owe } from "../journal/intents.ts";
import type { JournalAttachment } from "../journal/journal-attachment.ts";
import {
  type Holder,
  newAllocation,
  sameAllocationOwner,
  takenOver,
  withAttachment,
  withoutAttachments,
} from "./allocations/allocation-object.ts";
import { fromAllocationOwner } from "./allocations/owners.ts";
import { type AttachParts, type ClusterAttacher, holderOf } from "./attach-parts.ts";
import type { ClusterView } from "./attach-view.ts";
import type { ClaimReading } from "./claim-desk.ts";
import { formerKeys, type Reserved } from "./reserve.ts";

type Joining = Pick<
  Extract<AttachDecision<JournalAttachment, ClaimReading>, { kind: "reuse" }>,
  "attacher" | "addresses"
>;

/**
 * An attachment joins addresses that its owner has already: those of the claim's status, or those of a pod's former
 * sandbox. Exactly these are given, or the ADD is refused. Throws ApiAway and RefusalError.
 */
export async function join(
  parts: AttachParts,
  view: ClusterView,
  { attacher, addresses }: Joining,
  deadlineMs: number,
): Promise<Reserved> {
  const { ask: want } = view;
  await parts.folder.write((ledger, transaction) =>
    openIntent(ledger, transaction, want, attacher.owner, addresses),
  );
  const results = await Promise.allSettled(
    addresses.map((one) => joinOne(parts, view, attacher, one, deadlineMs)),
  );
  const failed = results.find((result) => result.status === "rejected");
  if (failed) {
    if (failed.reason instanceof RefusalError) await leave(parts, want, attacher, addresses);
    throw failed.reason;
  }
  return { kind: "reserved", addresses };
}

/** One address gets the attachment: one write, and a new look whenever somebody else was faster. */
async function joinOne(
  parts: AttachParts,
  view: ClusterView,
  attacher: ClusterAttacher,
  one: InterfaceAddress,
  deadlineMs: number,
): Promise<void> {
  const { client, context, hint } = parts;
  const { ask: want } = view;
  const { network } = want;
  const holder = holderOf(parts, want, attacher);
  for (;;) {
    const reading = view.reading(one.address);
    const time = isoTime(context.clock.wallMs());
    const written =
      reading === null
        ? await client.create(newAllocation(network, one, holder, time), deadlineMs)
        : await client.replace(joined(reading.object, { one, holder, want, attacher, time }), deadlineMs);
    if (written.kind === "done") {
      hint.note(network, one.address, attacher.owner.uid, false, written.object.metadata.resourceVersion);
      return;
    }
    view.renew(one.address, await client.read(network, one.address, deadlineMs));
    // Whoever was faster may have attached another pod meanwhile.
    const { claim } = attacher;
    const user = claim && (await view.settle(() => userInTheWay(view, attacher, claim, [])));
    if (user !== null) {
      const values = { claim: claimRefOf(want), holder: describeUser(user) };
      throw new RefusalError(refuse("CLAIM_IN_USE", values));
    }
  }
}

/** The object with the attachment in it. Throws RefusalError ADDRESS_TAKEN. */
function joined(
  object: IPAllocation,
  given: {
    readonly one: InterfaceAddress;
    readonly holder: Holder;
    readonly want: AttachWant;
    readonly attacher: ClusterAttacher;
    readonly time: string;
  },
): object {
  const { one, holder, want, attacher, time } = given;
  if (!sameAllocationOwner(object.spec.owner, holder.owner)) {
    const other = describeOwner(fromAllocationOwner(object.spec.owner));
    const values = { address: one.address, network: want.network, holder: other };
    throw new RefusalError(refuse("ADDRESS_TAKEN", values));
  }
  if (object.status?.state === "Cooling" || holder.attachment === null)
    return takenOver(object, one, holder, time);
  return withAttachment(
    withoutAttachments(object, staleKeys(object, holder, want, attacher)),
    holder.attachment,
  );
}

/** Attachments that this one replaces: of the same pod's older sandboxes, and of containers of this node that are gone. */
function staleKeys(
  object: IPAllocation,
  holder: Holder,
  want: AttachWant,
  attacher: ClusterAttacher,
): string[] {
  const replaced = attacher.superseded.map(({ attachment: { containerId, interface: name } }) =>
    attachmentKey(containerId, name),
  );
  return [...formerKeys(object, holder), ...replaced].filter(
    (key) => key !== attachmentKey(want.containerId, want.interface),
  );
}

async function leave(
  parts: AttachParts,
  want: AttachWant,
  { owner }: ClusterAttacher,
  addresses: readonly InterfaceAddress[],
): Promise<void> {
  const { containerId, interface: interfaceName, network } = want;
  await parts.folder.write((ledger) => {
    for (const { address } of addresses) {
      owe(ledger, { network, address, owner, containerId, interface: interfaceName, uncertain: false });
    }
    for (const intent of ledger.sql.intentsOfContainer.all(containerId, interfaceName)) {
      if (intent.owner_uid === owner.uid) ledger.sql.deleteIntent.run(intent.id);
    }
  });
  parts.owed();
}
