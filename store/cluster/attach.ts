/*
 * store/cluster/: the Allocations port where IPAllocation objects are the truth, beside this node's journal
 *
 *   cluster-store                 the port; one DEL
 *   attach, attach-view           one ADD over what it has read; join, reserve, reconsider
 *   reservations                  addresses of owners without containers
 *   release                       release by an operator
 *   parts/                        what these share: the claim, the owner's addresses, the node
 *   agreement/                    what a node believes of its uses, and the loop between it and the API server
 *   contact/                      whether the API server still has everything that it had; networks that recover
 *   network-looks                 networks as people see them
 *   checks/                       consistency checks
 */

import { withSource } from "../../ipam/decide-addresses.ts";
import { type AttachDecision, decideAttach } from "../../ipam/decide-attach.ts";
import { decideRepeat, supersededBy } from "../../ipam/decide-repeat.ts";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import type { AttachOutcome, AttachWant } from "../allocations.ts";
import { repeat } from "../journal/attachment-journal.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { JournalAttachment } from "../journal/journal-attachment.ts";
import type { Ledger } from "../journal/ledger.ts";
import { addPending, isOvertaken, type Taking, take, takeMore } from "../journal/uses.ts";
import { ClusterView } from "./attach-view.ts";
import { join } from "./join.ts";
import { type AttachParts, type ClusterAttacher, holderOf } from "./parts/attach-parts.ts";
import type { ClaimReading } from "./parts/claim-access.ts";
import { recordAttachment } from "./parts/record-attachment.ts";
import { reconsider } from "./reconsider.ts";
import { reserve, type SlotsOutcome } from "./reserve.ts";

/** "again": what was read has changed, and everything is decided again. */
type Round = AttachOutcome | "again";
type Decision = AttachDecision<JournalAttachment, ClaimReading>;

/**
 * One ADD in Kubernetes: take, reserve, publish, answer, in that order. The caller runs one ADD of an owner at a
 * time. Returns API_AWAY when an outcome stays unknown: the journal keeps what may have been reserved, for the next ADD
 * of the same owner to take up or for its DEL to release.
 */
export async function attachInKubernetes(
  parts: AttachParts,
  want: AttachWant,
  deadlineMs: number,
): Promise<AttachOutcome> {
  try {
    for (;;) {
      const round = await attachOnce(parts, want, deadlineMs);
      if (round !== "again") return round;
      if (parts.context.clock.monotonicMs() > deadlineMs)
        throw new ApiAway("others kept changing what this ADD had read");
    }
  } catch (error) {
    if (error instanceof RefusalError) return refused(error.refusal);
    if (error instanceof ApiAway) return refused(refuse("API_AWAY", { problem: error.message }));
    throw error;
  }
}

async function attachOnce(parts: AttachParts, want: AttachWant, deadlineMs: number): Promise<Round> {
  const { claimAccess, context } = parts;
  const view = new ClusterView(parts, want, deadlineMs);
  const decision = await view.settle(() => decideAttach(view));
  if (decision.kind === "repeat") return (await answerAgain(parts, decision.attachment, want)) ?? "again";
  const { ignored } = decision;
  if (ignored !== null) claimAccess.refused(ignored.claim, ignored.refusal, want, { has: false });
  const claim = decision.kind === "refuse" ? decision.claim : decision.attacher.claim;
  const outcome = await carryOut(parts, view, decision, deadlineMs);
  if (outcome === "again") return outcome;
  if (outcome.kind === "refused") {
    if (claim === null) return refused(outcome.refusal);
    const refusal = "requested" in decision ? withSource(outcome.refusal, decision.requested) : outcome.refusal;
    claimAccess.refused(claim, refusal, want, { has: view.hasAny(claim) });
    return refused(refusal);
  }
  if (decision.kind === "refuse") throw new Error("a refusal reserves nothing");
  context.killPoint?.("before-publish");
  const instead = decision.kind === "allocate" ? decision.instead : [];
  const published = claim && (await claimAccess.publish(claim, { ...outcome, instead }, want, deadlineMs));
  if (published === "changed") return "again";
  if (published !== null && published !== "listed") view.wrote(published.resourceVersion);
  context.killPoint?.("after-publish");
  // An ADD that was suspended for so long may have lost its addresses: only a new read can tell.
  if (context.clock.monotonicMs() > deadlineMs) throw new ApiAway("this ADD took longer than it may");
  const recorded = await recordAttachment(parts, want, decision.attacher, outcome.addresses, view.version);
  if (claim !== null && published === "listed" && recorded.kind === "attached") claimAccess.follow(claim, want);
  return recorded;
}

async function carryOut(
  parts: AttachParts,
  view: ClusterView,
  decision: Exclude<Decision, { kind: "repeat" }>,
  deadlineMs: number,
): Promise<SlotsOutcome | "again"> {
  try {
    switch (decision.kind) {
      case "refuse":
        return decision.isByFreeSpace
          ? await reconsider(parts, view.ask, decision.refusal, {
              namespace: namespaceOf(view.ask),
              claim: decision.claim,
              deadlineMs,
            })
          : { kind: "refused", refusal: decision.refusal, reserved: [] };
      case "reuse":
        return await join(parts, view, decision, deadlineMs);
      case "allocate":
        return await allocate(parts, view, decision, deadlineMs);
    }
  } catch (error) {
    // Thrown from deep inside; the claim's condition reports it like any other refusal.
    if (!(error instanceof RefusalError)) throw error;
    return { kind: "refused", refusal: error.refusal, reserved: [] };
  }
}

/** To a repeat, or when a later DEL was seen; null: neither. The request is not read yet: its claim is not known. */
export async function answerFromJournal(
  parts: Pick<AttachParts, "directory">,
  want: AttachWant,
): Promise<AttachOutcome | null> {
  const { ledger } = parts.directory;
  const space = ledger.networks.get(want.network);
  const row = space && ledger.sql.attachment.get(want.containerId, want.interface, space.id);
  const former = row === undefined ? null : new JournalAttachment(row);
  const known = decideRepeat({ ask: want, hasLaterDel: isOvertaken(ledger, want), former }, { claimKnown: false });
  if (known === null) return null;
  return known.kind === "refuse" ? refused(known.refusal) : answerAgain(parts, known.attachment, want);
}

/** null: the attachment has ended meanwhile. */
function answerAgain(
  { directory }: Pick<AttachParts, "directory">,
  { id }: JournalAttachment,
  want: AttachWant,
): Promise<AttachOutcome | null> {
  return directory.write((ledger) => {
    const row = ledger.sql.attachmentById.get(id);
    if (row === undefined) return null;
    return repeat(ledger, ledger.networkById(row.network_id), want.definition, new JournalAttachment(row), want);
  });
}

/** Reserves an address for each slot, after it is durable what will be taken. */
async function allocate(
  parts: AttachParts,
  view: ClusterView,
  { attacher, slots, requested }: Extract<Decision, { kind: "allocate" }>,
  deadlineMs: number,
): Promise<SlotsOutcome | "again"> {
  const { picture, context, directory, continuity } = parts;
  const { ask: want, definition } = view;
  const epoch = await view.admit(attacher, true);
  let taking: Taking | null = null;
  const reserved = await reserve(
    {
      clock: context.clock,
      client: parts.client.admitted(epoch),
      picture,
      definition,
      pools: view.pools,
      holder: holderOf(parts, want, attacher),
      deadlineMs,
      wrote: ({ metadata }) => view.wrote(metadata.resourceVersion),
      announce: async (addresses) => {
        const work = (ledger: Ledger, transaction: Transaction) => {
          // A later request ended the row: whatever this ADD reserves from now on, nobody would release.
          const goesOn = taking === null || takeMore(ledger, taking, addresses);
          if (isOvertaken(ledger, want) || !goesOn) throw new RefusalError(supersededBy(want, "a later DEL"));
          return taking ?? take(ledger, transaction, want, attacher.owner, addresses);
        };
        taking = await directory.write(work, { canRepeat: true });
        context.killPoint?.("after-intent");
      },
    },
    slots,
  );
  context.killPoint?.("after-reserve");
  const whyNot = continuity.whyNot(epoch);
  if (reserved.kind === "reserved" && whyNot !== null) {
    await giveBack(parts, want, attacher, reserved.addresses, taking);
    throw new ApiAway(`${whyNot}; what this ADD had reserved is given back`);
  }
  if (reserved.kind === "reserved") return reserved;
  await giveBack(parts, want, attacher, reserved.reserved, taking);
  // The requested address is taken: the picture knows it now, and the refusal names the holder.
  if (requested.length > 0 && reserved.refusal.code === "POOL_FULL") return "again";
  const { namespace } = attacher.owner;
  return reconsider(parts, want, reserved.refusal, { namespace, claim: attacher.claim, deadlineMs });
}

/** A refused attachment keeps nothing. */
async function giveBack(
  parts: AttachParts,
  want: AttachWant,
  { owner }: ClusterAttacher,
  reserved: readonly InterfaceAddress[],
  taking: Taking | null,
): Promise<void> {
  const { containerId, interface: interfaceName, network } = want;
  const earlier = taking?.earlier ?? [];
  await parts.directory.write((ledger, transaction) => {
    const key = { containerId, interface: interfaceName };
    addPending(ledger, transaction, { network, addresses: reserved, owner, ...key, uncertain: false, ended: true });
    // Unless a DEL has given them back.
    if (taking !== null && ledger.sql.deleteTaking.run(taking.id).changes === 1)
      addPending(ledger, transaction, { network, addresses: earlier, owner, ...key, uncertain: true, ended: true });
  });
  if (reserved.length + earlier.length > 0) parts.pending();
}

/** Of the owner: a claim is in its pod's namespace. */
function namespaceOf({ claim, pod }: AttachWant): string {
  return claim?.namespace ?? pod?.namespace ?? "";
}

function refused(refusal: Refusal): { kind: "refused"; refusal: Refusal } {
  return { kind: "refused", refusal };
}
