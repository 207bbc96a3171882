import type { AllocationReading } from "../../allocations/allocation-client.ts";
import { type Holder, sameAllocationOwner } from "../../allocations/allocation-object.ts";
import { type HoldOutcome, hold, tooManyWriters } from "../../allocations/hold.ts";
import { describeUser, userInTheWay } from "../../ipam/claim-users.ts";
import type { AttachDecision } from "../../ipam/decide-attach.ts";
import { claimRefOf } from "../../ipam/decide-repeat.ts";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { attachmentKey, type IPAllocation } from "../../kube/objects.ts";
import type { AttachWant } from "../allocations.ts";
import type { JournalAttachment } from "../journal/journal-attachment.ts";
import { addPending, type Taking, take } from "../journal/uses.ts";
import type { ClusterView } from "./attach-view.ts";
import { type AttachParts, type ClusterAttacher, holderOf } from "./parts/attach-parts.ts";
import type { ClaimReading } from "./parts/claim-access.ts";
import { formerKeys, type SlotsOutcome } from "./reserve.ts";

type Joining = Pick<
  Extract<AttachDecision<JournalAttachment, ClaimReading>, { kind: "reuse" }>,
  "attacher" | "addresses"
>;

/**
 * An attachment joins addresses that its owner already has: a claim's, or those of a pod's former sandbox. It gets
 * exactly these, or the ADD is refused; `again`: one of them is not the owner's any more. Throws ApiAway, RefusalError.
 */
export async function join(
  parts: AttachParts,
  view: ClusterView,
  { attacher, addresses }: Joining,
  deadlineMs: number,
): Promise<SlotsOutcome | "again"> {
  const { ask: want } = view;
  const taking = await parts.directory.write((ledger, transaction) =>
    take(ledger, transaction, want, attacher.owner, addresses),
  );
  const results = await Promise.allSettled(addresses.map((one) => joinOne(parts, view, attacher, one, deadlineMs)));
  const failed = results.find((result) => result.status === "rejected");
  if (failed) {
    if (failed.reason instanceof RefusalError) await leave(parts, want, attacher, addresses, taking);
    throw failed.reason;
  }
  const joined = results.flatMap((result) => (result.status === "fulfilled" && result.value ? [result.value] : []));
  // What was joined is let go by the round that does without it.
  if (joined.length < results.length) return "again";
  const isNew = joined.some(({ was }) => was !== "bound");
  return { kind: "reserved", addresses: joined.map(({ object }) => parseInterfaceAddress(object.spec.address)), isNew };
}

/**
 * Adds the attachment to one address: one write, and a new read whenever another writer was faster. null: another's.
 */
async function joinOne(
  parts: AttachParts,
  view: ClusterView,
  attacher: ClusterAttacher,
  one: InterfaceAddress,
  deadlineMs: number,
): Promise<Extract<HoldOutcome<never>, { kind: "held" }> | null> {
  const { client, picture } = parts;
  const { ask: want } = view;
  const { network } = want;
  const { address } = one;
  const holder = holderOf(parts, want, attacher);
  let isFirst = true;
  const outcome = await hold<Refusal | "others">(client, {
    network,
    one,
    holder,
    deadlineMs,
    believed: view.reading(address),
    whyNot: async (reading) => {
      if (!isFirst) view.renew(address, reading);
      const inUse = isFirst ? null : await whyInUse(view, attacher);
      isFirst = false;
      return inUse ?? (isOthers(reading, holder) ? "others" : null);
    },
    replaced: (object) => staleKeys(object, holder, want, attacher),
  });
  if (outcome.kind === "left") {
    if (outcome.why === "others") return null;
    throw new RefusalError(outcome.why);
  }
  if (outcome.kind !== "held") throw tooManyWriters(network, address);
  const { resourceVersion } = outcome.object.metadata;
  view.wrote(resourceVersion);
  picture.note(network, address, attacher.owner.uid, "Bound", resourceVersion);
  return outcome;
}

/** The faster writer may have attached another pod; the journal has it also where a restored etcd has lost that. */
async function whyInUse(view: ClusterView, attacher: ClusterAttacher): Promise<Refusal | null> {
  const { claim, owner } = attacher;
  const inTheWay = (claim: ClaimReading) => userInTheWay(view, attacher, claim, view.attachmentsOf(owner));
  const user = claim && (await view.settle(() => inTheWay(claim)));
  if (user === null) return null;
  return refuse("CLAIM_IN_USE", { claim: claimRefOf(view.ask), holder: describeUser(user) });
}

/** A cooling address that another owner had since is no longer the owner's. */
function isOthers(reading: AllocationReading | null, holder: Holder): boolean {
  return reading !== null && !sameAllocationOwner(reading.object.spec.owner, holder.owner);
}

/** Attachments that this one replaces: older sandboxes of the same pod, and containers of this node that are gone. */
function staleKeys(object: IPAllocation, holder: Holder, want: AttachWant, attacher: ClusterAttacher): string[] {
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
  taking: Taking,
): Promise<void> {
  const { containerId, interface: interfaceName, network } = want;
  await parts.directory.write((ledger, transaction) => {
    const key = { containerId, interface: interfaceName };
    addPending(ledger, transaction, { network, addresses, owner, ...key, uncertain: false, ended: false });
    // Unless a DEL has given them back.
    if (ledger.sql.deleteTaking.run(taking.id).changes === 1)
      addPending(ledger, transaction, {
        ...{ network, addresses: taking.earlier, owner, ...key },
        uncertain: true,
        ended: true,
      });
  });
  parts.pending();
}
