/*
 * store/cluster/: the Allocations port where IPAllocation objects are the truth, beside this node's journal
 *
 *   cluster-store                 the port
 *   attach                        one ADD: find-own, join-published, reserve, record-attachment, reconsider
 *   attacher, claim-desk, take-over   who holds the address; the claim; what host-local gave comes first
 *   outbox, release               what is owed to the API server; an operator takes an address back
 *   recover-journal, reassert     journal and API server compared, at the start and after every gap
 *   check-node, check-definitions what is wrong
 *   allocations/                  the objects, their client, the picture of what is free (hint)
 */

import { decideAdd } from "../../ipam/decide-add.ts";
import { gatewaysOf } from "../../ipam/definition/bridge-gateway.ts";
import { parseRequestedAddress, type RequestedAddress } from "../../ipam/definition/requested-address.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { killPoint } from "../../platform/kill-point.ts";
import type { AttachOutcome, AttachWant } from "../allocations.ts";
import { isExactRepeat, isOvertaken, repeat, whyTooNarrow } from "../journal/attachment-journal.ts";
import { extendIntent, openIntent, owe } from "../journal/intents.ts";
import type { AttachmentRow } from "../journal/rows.ts";
import { poolOf } from "../network-space.ts";
import { fromAllocationOwner } from "./allocations/owners.ts";
import { type AttachParts, holderOf } from "./attach-parts.ts";
import { type Attacher, resolveAttacher } from "./attacher.ts";
import type { ClaimReading } from "./claim-desk.ts";
import { findOwn } from "./find-own.ts";
import { joinPublished } from "./join-published.ts";
import { reconsider } from "./reconsider.ts";
import { recordAttachment } from "./record-attachment.ts";
import { type Reserved, reserve } from "./reserve.ts";

/** What one round of an ADD came to; "again": what it read has changed, and everything is decided anew. */
type Round = AttachOutcome | "again";

/**
 * One ADD in Kubernetes: intent, reserve, publish, answer, in that order. The caller lets one ADD of an owner in at a
 * time. Returns API_AWAY when an outcome stays unknown: the intent keeps what may have been reserved, for the next
 * ADD of the same owner to take up or for its DEL to give back.
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
      if (performance.now() > deadlineMs) throw new ApiAway("others kept changing what this ADD had read");
    }
  } catch (error) {
    if (error instanceof RefusalError) return refused(error.refusal);
    if (error instanceof ApiAway) return refused(refuse("API_AWAY", { problem: error.message }));
    throw error;
  }
}

async function attachOnce(parts: AttachParts, want: AttachWant, deadlineMs: number): Promise<Round> {
  const known = await answerFromJournal(parts, want, true);
  if (known !== null) return known;
  if (want.definition.rangeSets.length === 0) {
    return refused(refuse("NETWORK_UNDEFINED", { network: want.network }));
  }
  const resolved = await resolveAttacher(parts, want, deadlineMs);
  if (resolved.kind === "refused") return resolved;
  const { attacher } = resolved;
  const { claim } = attacher;
  const gatewayHeld = want.bridgeIsGateway ? await whoHoldsGateway(parts, want, deadlineMs) : null;
  if (gatewayHeld !== null) {
    if (claim !== null) parts.desk.refused(claim, gatewayHeld, want);
    return refused(gatewayHeld);
  }
  const outcome = await returned(
    claim !== null && claim.ips.length > 0
      ? joinPublished(parts, want, attacher, claim, deadlineMs)
      : allocate(parts, want, attacher, deadlineMs),
  );
  if (outcome === "again") return outcome;
  if (outcome.kind === "refused") {
    if (claim !== null) parts.desk.refused(claim, outcome.refusal, want);
    return outcome;
  }
  killPoint("before-publish");
  if (claim !== null && claim.ips.length === 0) {
    const ips = outcome.addresses.map(formatInterfaceAddress);
    if ((await parts.desk.publish(claim, ips, want, deadlineMs)) === "changed") return "again";
  }
  killPoint("after-publish");
  // Whoever was stopped in between for so long may have lost it: only a fresh look can tell.
  if (performance.now() > deadlineMs) throw new ApiAway("this ADD took longer than it may");
  const recorded = await recordAttachment(parts, want, attacher, outcome.addresses);
  if (claim !== null && claim.ips.length > 0 && recorded.kind === "attached") parts.desk.follow(claim, want);
  return recorded;
}

/**
 * The answer that needs no API: an exact repeat, or that a later DEL was seen; null when there is none. `claimKnown`:
 * the want names its claim; without it a repeat is known by container, interface, network and pod.
 */
export async function answerFromJournal(
  { folder }: Pick<AttachParts, "folder">,
  want: AttachWant,
  claimKnown: boolean,
): Promise<AttachOutcome | null> {
  const { ledger } = folder;
  const space = ledger.networks.get(want.network);
  if (isOvertaken(ledger, want)) return refused(supersededByDel(want));
  const former = space && ledger.sql.attachment.get(want.containerId, want.interface, space.id);
  if (!former || former.lost === 1) return null;
  const same = claimKnown ? isExactRepeat(former, want) : isSamePod(former, want);
  if (!same) return null;
  return folder.write((now) => {
    const row = now.sql.attachmentById.get(former.id);
    return row ? repeat(now, now.networkById(row.network_id), want.definition, row, want) : null;
  });
}

/**
 * The bridge would answer for an address that somebody uses: whoever came first keeps it, and is named. The hint tells
 * nearly always that nobody does, so that this costs no request.
 */
async function whoHoldsGateway(
  { hint, client, context }: AttachParts,
  { network, definition, definitionLacksGateway }: AttachWant,
  deadlineMs: number,
): Promise<Refusal | null> {
  const pools = hint.space(network).poolsOf(definition, context.clock.monotonicMs());
  for (const gateway of gatewaysOf(definition)) {
    const believedHeld = poolOf(pools, gateway)?.stateOf(gateway.value) === "allocated";
    if (!believedHeld && !definitionLacksGateway) continue;
    const reading = await client.read(network, gateway, deadlineMs);
    if (reading?.object.status?.state !== "Bound") continue;
    const holder = describeOwner(fromAllocationOwner(reading.object.spec.owner));
    return refuse("GATEWAY_HELD", { address: gateway, network, holder });
  }
  return null;
}

async function allocate(
  parts: AttachParts,
  want: AttachWant,
  attacher: Attacher,
  deadlineMs: number,
): Promise<Reserved | "again"> {
  const { hint, context, folder, continuity } = parts;
  const { definition, network } = want;
  // What a container of this node uses is its pod's; for everybody else the API server must have what it had.
  const knownHere = attacher.superseded.some(({ row }) => row.lost === 0);
  const early = knownHere ? null : await continuity.admit(network, deadlineMs);
  if (early !== null) return { kind: "refused", refusal: early, reserved: [] };
  let { epoch } = continuity;
  const held = await findOwn(parts, want, attacher, deadlineMs);
  const space = hint.space(network);
  space.definition = definition;
  const nowMs = context.clock.monotonicMs();
  const pools = space.poolsOf(definition, nowMs);
  for (const pool of pools) pool.expire(nowMs);
  const requested = requestedBy(attacher.claim, want);
  const decision = decideAdd({
    definition,
    pools,
    held,
    requested,
    seed: attacher.claim?.uid ?? null,
    nowMs,
    holderOf: () => null,
  });
  if (decision.kind === "refuse") return reconsider(parts, want, decision.refusal, deadlineMs);
  if (decision.kind === "reuse") return joinHeld(parts, want, attacher, decision.addresses, deadlineMs);
  const families = decision.slots.map((slot) => pools[slot.rangeSetIndex]?.rangeSet.family ?? 4);
  const narrow = whyTooNarrow(families, want);
  if (narrow) return { ...narrow, reserved: [] };
  const late = knownHere ? await continuity.admit(network, deadlineMs) : null;
  if (late !== null) return { kind: "refused", refusal: late, reserved: [] };
  if (knownHere) epoch = continuity.epoch;
  let intentId: number | null = null;
  const reserved = await reserve(
    {
      clock: context.clock,
      client: parts.client.admitted(epoch),
      hint,
      definition,
      pools,
      holder: holderOf(parts, want, attacher),
      deadlineMs,
      announce: async (addresses) => {
        intentId = await folder.write((ledger, transaction) => {
          // Whoever has overtaken it has taken its intent away: what it reserved from now on nobody would give back.
          if (isOvertaken(ledger, want)) throw new RefusalError(supersededByDel(want));
          if (intentId === null) return openIntent(ledger, transaction, want, attacher.owner, addresses);
          if (!extendIntent(ledger, intentId, addresses)) throw new RefusalError(supersededByDel(want));
          return intentId;
        });
        killPoint("after-intent");
      },
      follow: () => parts.follow(network),
    },
    decision.slots,
  );
  killPoint("after-reserve");
  await continuity.untilKnown(epoch, deadlineMs);
  const whyNot = continuity.whyNot(epoch);
  if (reserved.kind === "reserved" && whyNot !== null) {
    await giveBack(parts, want, attacher, reserved.addresses, intentId);
    throw new ApiAway(`${whyNot}; what this ADD had reserved is given back`);
  }
  if (reserved.kind === "reserved") return reserved;
  await giveBack(parts, want, attacher, reserved.reserved, intentId);
  // Somebody has what was asked for: the picture knows it now, and the refusal names the holder.
  if (requested.length > 0 && reserved.refusal.code === "POOL_FULL") return "again";
  return reconsider(parts, want, reserved.refusal, deadlineMs);
}

/** A pod whose new sandbox keeps what the old one had: every address gets the attachment, or all is decided anew. */
async function joinHeld(
  parts: AttachParts,
  want: AttachWant,
  attacher: Attacher,
  addresses: readonly InterfaceAddress[],
  deadlineMs: number,
): Promise<Reserved | "again"> {
  const narrow = whyTooNarrow(
    addresses.map(({ address }) => address.family),
    want,
  );
  if (narrow) return { ...narrow, reserved: [] };
  const as = { ...attacher, claim: null };
  return joinPublished(parts, want, as, { ips: addresses.map(formatInterfaceAddress) }, deadlineMs);
}

/** Nothing is kept of a refused attachment. */
async function giveBack(
  parts: AttachParts,
  want: AttachWant,
  { owner }: Attacher,
  reserved: readonly InterfaceAddress[],
  intentId: number | null,
): Promise<void> {
  const { containerId, interface: interfaceName, network } = want;
  await parts.folder.write((ledger) => {
    for (const { address } of reserved) {
      owe(ledger, { network, address, owner, containerId, interface: interfaceName, uncertain: false });
    }
    if (intentId !== null) ledger.sql.deleteIntent.run(intentId);
  });
  if (reserved.length > 0) parts.owed();
}

/** What the claim asks for counts once, at its first use. */
function requestedBy(claim: ClaimReading | null, want: AttachWant): RequestedAddress[] {
  if (claim === null) return [...want.requested];
  const known = new Set(want.requested.map((one) => formatAddress(one.address)));
  const own = claim.ipRequests.map((text) =>
    parseRequestedAddress(text, `claim ${claim.namespace}/${claim.name} spec.ipRequests`),
  );
  return [...want.requested, ...own.filter((one) => !known.has(formatAddress(one.address)))];
}

/** A refusal thrown from deep inside becomes an outcome, so that the claim hears of it like of any other. */
async function returned(work: Promise<Reserved | "again">): Promise<Reserved | "again"> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return { kind: "refused", refusal: error.refusal, reserved: [] };
  }
}

function supersededByDel({ containerId, interface: interfaceName }: AttachWant): Refusal {
  return refuse("SUPERSEDED", { containerId, interface: interfaceName, later: "a later DEL" });
}

function refused(refusal: Refusal): { kind: "refused"; refusal: Refusal } {
  return { kind: "refused", refusal };
}

/** A runtime that does not tell the pod's UID is believed its name: container IDs are not used again by another pod of it. */
function isSamePod(former: AttachmentRow, { pod }: AttachWant): boolean {
  if (pod !== null && pod.uid === "") {
    return former.pod_name === pod.name && former.pod_namespace === pod.namespace;
  }
  return former.pod_uid === (pod?.uid ?? null);
}
