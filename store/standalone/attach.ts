import { type AttachDecision, decideAttach } from "../../ipam/decide-attach.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Owner } from "../../ipam/owner.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Address, addressBytes, formatAddress } from "../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { describeRangeSet } from "../../ipam/space/range-set.ts";
import type { AttachOutcome, AttachWant } from "../allocations.ts";
import { record, repeat } from "../journal/attachment-journal.ts";
import { endAttachment } from "../journal/end-attachment.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { nameInterface } from "../journal/host-local.ts";
import type { JournalAttachment } from "../journal/journal-attachment.ts";
import type { Ledger } from "../journal/ledger.ts";
import type { NetworkSpace } from "../network-space.ts";
import { StandaloneView, type StoredClaim } from "./attach-view.ts";
import { recordClaimRefusal, recordClaimSuccess } from "./claim-status.ts";

type Decision = AttachDecision<JournalAttachment, StoredClaim>;

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
    const { refusal } = decision;
    if (decision.claim !== null) recordClaimRefusal(ledger, decision.claim, refusal);
    return { kind: "refused", refusal };
  }
  const { owner, claim, superseded, warnings } = decision.attacher;
  for (const { attachment, reason } of superseded)
    endAttachment(ledger, transaction, attachment.row, reason, owner);
  const addresses =
    decision.kind === "reuse"
      ? decision.addresses
      : reserve(ledger, transaction, { space, pools: view.pools, owner, decision });
  ledger.context.killPoint?.("in-transaction");
  if (claim !== null) {
    // Once answered they are the network's own, and later edits of its ranges do not concern them.
    if (decision.kind === "reuse") ledger.sql.settleAdopted.run(owner.uid);
    recordClaimSuccess(ledger, claim, addresses, want);
  }
  const attachment = record(ledger, space, definition, owner, want, addresses);
  return { kind: "attached", attachment, definition, repeat: false, warnings };
}

/** An applied definition wins; else the configuration of this very request is what the network is from now on. */
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

/** Insert-if-absent, one address for each range set; throws POOL_FULL, and with it rolls back, when a set has no candidate left. */
function reserve(
  ledger: Ledger,
  transaction: Transaction,
  given: {
    readonly space: NetworkSpace;
    readonly pools: readonly Pool[];
    readonly owner: Owner;
    readonly decision: Extract<Decision, { kind: "allocate" }>;
  },
): InterfaceAddress[] {
  const { space, pools, owner, decision } = given;
  return decision.slots.map(({ rangeSetIndex, candidates, moveCursor }) => {
    const pool = pools[rangeSetIndex] as Pool;
    for (const value of candidates) {
      const address: Address = { family: pool.rangeSet.family, value };
      const prefixLength = pool.subnetOf(value)?.cidr.prefixLength;
      if (prefixLength === undefined) throw new Error(`candidate ${formatAddress(address)} is in no subnet`);
      const taken = insert(ledger, space, owner, { address, prefixLength });
      transaction.onRollback(space.allocate(address, moveCursor));
      if (taken) return { address, prefixLength };
    }
    const subnets = describeRangeSet(pool.rangeSet);
    throw new RefusalError(refuse("POOL_FULL", { subnets, network: space.name }));
  });
}

function insert(ledger: Ledger, space: NetworkSpace, owner: Owner, one: InterfaceAddress): boolean {
  const result = ledger.sql.insertAllocation.run(
    space.id,
    addressBytes(one.address),
    one.prefixLength,
    owner.kind,
    owner.uid,
    owner.interface,
    owner.namespace,
    owner.name,
    0,
    ledger.context.clock.wallMs(),
  );
  return result.changes === 1;
}
