import type { NetworkSpace } from "../../allocations/network-space.ts";
import { inRangeSetOrder, withSource } from "../../ipam/decide-addresses.ts";
import { decideAttach } from "../../ipam/decide-attach.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { AttachOutcome, AttachWant } from "../allocations.ts";
import { record, repeat } from "../journal/attachment-journal.ts";
import { endAttachment } from "../journal/end-attachment.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { nameInterface } from "../journal/host-local.ts";
import type { Ledger } from "../journal/ledger.ts";
import { StandaloneView } from "./attach-view.ts";
import { recordClaimRefusal, recordClaimSuccess } from "./claim-status.ts";
import { keepPrefixLength, reserve } from "./reserve.ts";

/** One ADD inside a transaction: reads, decides, writes. Nothing else can happen in between. */
export function attach(ledger: Ledger, transaction: Transaction, want: AttachWant): AttachOutcome {
  const space = ledger.networkOf(want.network, transaction);
  if (want.bridgeIsGateway && !space.bridgeIsGateway) ledger.setBridgeIsGateway(space, transaction);
  const definition = effectiveDefinition(ledger, transaction, space, want);
  nameInterface(ledger, want);
  const view = new StandaloneView(ledger, transaction, { ask: want, definition, space });
  const decision = decideAttach(view);
  if (decision === undefined) throw new Error("everything is here, and a decision asks for more");
  if (decision.kind === "repeat") return repeat(ledger, space, definition, decision.attachment, want);
  const { ignored } = decision;
  if (ignored !== null) recordClaimRefusal(ledger, ignored.claim, ignored.refusal);
  if (decision.kind === "refuse") {
    if (decision.claim === null) return { kind: "refused", refusal: decision.refusal };
    const refusal = withSource(decision.refusal, decision.requested);
    recordClaimRefusal(ledger, decision.claim, refusal);
    return { kind: "refused", refusal };
  }
  const { owner, claim, superseded, warnings } = decision.attacher;
  for (const { attachment, reason } of superseded)
    endAttachment(ledger, transaction, attachment.row, reason, { keep: owner });
  const { slots } = decision;
  const added = slots.length === 0 ? [] : reserve(ledger, transaction, { space, pools: view.pools, owner, slots });
  const kept = decision.kind === "reuse" ? decision.addresses : [];
  for (const one of kept) keepPrefixLength(ledger, space, one);
  const addresses = kept.length === 0 ? added : inRangeSetOrder(definition, [...kept, ...added]);
  ledger.context.killPoint?.("in-transaction");
  if (claim !== null) {
    // Once answered, adopted addresses are the owner's, and later edits of the ranges do not affect them.
    if (decision.kind === "reuse") ledger.sql.settleAdopted.run(owner.uid);
    recordClaimSuccess(ledger, claim, addresses, want, { space, definition });
  }
  const attachment = record(ledger, space, definition, owner, want, addresses);
  return { kind: "attached", attachment, definition, repeat: false, warnings };
}

/** An applied definition takes precedence; else the configuration of this request defines the network from now on. */
function effectiveDefinition(
  ledger: Ledger,
  transaction: Transaction,
  space: NetworkSpace,
  want: AttachWant,
): NetworkDefinition {
  if (space.appliedBy !== null && space.definition !== null) return space.definition;
  const definition = space.bridgeIsGateway ? ledger.bridgeGateways.of(want.definition) : want.definition;
  if (space.definition?.fingerprint !== definition.fingerprint && definition.rangeSets.length > 0) {
    ledger.sql.setRuntimeConfig.run(want.definitionSource, space.id);
    ledger.define(space, definition, null, transaction);
  }
  return definition;
}
