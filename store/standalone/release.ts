import { type ClaimCondition, forcedCondition, mergeCondition } from "../../ipam/claim-conditions.ts";
import { describeOwner, type Owner } from "../../ipam/owner.ts";
import { refuse } from "../../ipam/refusals.ts";
import { type Address, addressBytes, formatAddress } from "../../ipam/space/address.ts";
import { isoTime } from "../../platform/time.ts";
import { FORCED } from "../allocations.ts";
import { endAttachment, endHolding, forgetClaimWhenUnused, releaseAllocation } from "../journal/end-attachment.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { attachmentsOf } from "../journal/holdings.ts";
import type { Ledger } from "../journal/ledger.ts";
import { type AllocationRow, cidrTextOf, interfaceAddressOf, ownerOf } from "../journal/rows.ts";
import type { ReleaseOutcome } from "../node-store.ts";

/**
 * An operator releases an address. While it is in use (an attachment, or a claim that exists) this is refused, unless
 * forced; then all that its owner holds on this network is released: no owner keeps a part. See docs/decisions/0008.
 */
export function releaseAddress(
  ledger: Ledger,
  transaction: Transaction,
  which: { readonly network: string; readonly address: Address; readonly force: boolean },
): ReleaseOutcome {
  const { sql } = ledger;
  const space = ledger.networks.get(which.network);
  const row = space && sql.allocation.get(space.id, addressBytes(which.address));
  const text = formatAddress(which.address);
  if (!row) {
    return {
      kind: "refused",
      refusal: refuse("NOT_FOUND", { what: `allocation of ${text} on network ${which.network}` }),
    };
  }
  const owner = ownerOf(row);
  if (row.state === "Cooling") return endCooldown(ledger, transaction, row, owner);
  if (row.state === "Retained") {
    releaseAllocation(ledger, transaction, row);
    return { kind: "released", addresses: [cidrTextOf(row)], holder: describeOwner(owner) };
  }
  const attachments = attachmentsOf(ledger, owner).filter((one) => one.network_id === row.network_id);
  const claim = owner.kind === "claim" ? sql.claimByUid.get(owner.uid) : undefined;
  if ((attachments.length > 0 || claim) && !which.force) {
    const users = attachments.map((one) => `container ${one.container_id} (${one.interface})`);
    const holder = [...new Set([describeOwner(owner), ...users])].join(", ");
    return { kind: "refused", refusal: refuse("IN_USE", { addresses: text, holder }) };
  }
  const reason = which.force ? FORCED : "released by an operator";
  for (const attachment of attachments) endAttachment(ledger, transaction, attachment, reason, { keep: owner });
  const held = sql.boundOfOwnerSlowly.all(row.network_id, owner.uid, owner.interface, owner.kind);
  for (const one of held) {
    endHolding(ledger, one, reason);
    releaseAllocation(ledger, transaction, one);
  }
  if (claim) {
    unpublish(ledger, claim.uid, JSON.parse(claim.conditions) as ClaimCondition[]);
    if (claim.deleted_ms !== null) forgetClaimWhenUnused(ledger, transaction, owner);
  }
  return { kind: "released", addresses: held.map(cidrTextOf), holder: describeOwner(owner) };
}

function endCooldown(ledger: Ledger, transaction: Transaction, row: AllocationRow, owner: Owner): ReleaseOutcome {
  const space = ledger.networkById(row.network_id);
  ledger.sql.deleteAllocation.run(row.id);
  transaction.onRollback(space.endCooldown(interfaceAddressOf(row).address));
  return { kind: "released", addresses: [cidrTextOf(row)], holder: describeOwner(owner) };
}

/** A forced release removes a claim's addresses; its condition says so, and its next ADD allocates again. */
function unpublish(ledger: Ledger, uid: string, conditions: readonly ClaimCondition[]): void {
  const changed = mergeCondition(conditions, forcedCondition(isoTime(ledger.context.clock.wallMs())));
  ledger.sql.updateClaimStatus.run("[]", null, JSON.stringify(changed), uid);
}
