import { decideAdd, type HeldAddress } from "../../ipam/decide-add.ts";
import { gatewaysOf, withBridgeGateways } from "../../ipam/definition/bridge-gateway.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { RequestedAddress } from "../../ipam/definition/requested-address.ts";
import { describeOwner, sameOwner } from "../../ipam/owner.ts";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Address, addressBytes, formatAddress } from "../../ipam/space/address.ts";
import { formatCidr, type InterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { killPoint } from "../../platform/kill-point.ts";
import type { AttachOutcome, AttachWant } from "../allocations.ts";
import { isExactRepeat, isOvertaken, record, repeat, whyTooNarrow } from "../journal/attachment-journal.ts";
import { endAttachment } from "../journal/end-attachment.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { allocationsOf } from "../journal/holdings.ts";
import { nameInterface } from "../journal/host-local.ts";
import type { Ledger } from "../journal/ledger.ts";
import { interfaceAddressOf, ownerOf } from "../journal/rows.ts";
import type { NetworkSpace } from "../network-space.ts";
import { recordClaimRefusal, recordClaimSuccess, requestedByClaim } from "./claim-status.ts";
import { type Attacher, resolveOwner } from "./resolve-owner.ts";

/** One ADD inside a transaction: reads, decides, writes. Nothing else can happen in between. */
export function attach(ledger: Ledger, transaction: Transaction, want: AttachWant): AttachOutcome {
  const { sql } = ledger;
  const space = ledger.networkOf(want.network, transaction);
  if (want.bridgeIsGateway && !space.bridgeIsGateway) ledger.setBridgeIsGateway(space, transaction);
  const definition = effectiveDefinition(ledger, transaction, space, want);
  if (isOvertaken(ledger, want)) {
    const { containerId } = want;
    return refused(refuse("SUPERSEDED", { containerId, interface: want.interface, later: "a later DEL" }));
  }
  nameInterface(ledger, want);
  const former = sql.attachment.get(want.containerId, want.interface, space.id);
  if (former && isExactRepeat(former, want)) return repeat(ledger, space, definition, former, want);
  if (definition.rangeSets.length === 0) {
    return refused(refuse("NETWORK_UNDEFINED", { network: want.network }));
  }
  const resolved = resolveOwner(ledger, definition, want, former);
  if (resolved.kind === "refused") {
    if (resolved.claim) recordClaimRefusal(ledger, resolved.claim, resolved.refusal);
    return refused(resolved.refusal);
  }
  const gatewayHeld = want.bridgeIsGateway ? whoHoldsGateway(ledger, space, definition) : null;
  if (gatewayHeld !== null) {
    if (resolved.claim) recordClaimRefusal(ledger, resolved.claim, gatewayHeld);
    return refused(gatewayHeld);
  }
  const decision = decide(ledger, transaction, space, definition, resolved, want);
  if (decision.kind === "refused") {
    if (resolved.claim) recordClaimRefusal(ledger, resolved.claim, decision.refusal);
    return decision;
  }
  for (const { row, reason } of resolved.superseded)
    endAttachment(ledger, transaction, row, reason, resolved.owner);
  // Once answered they are the network's own, and later edits of its ranges do not concern them.
  if (resolved.claim && decision.kind === "reuse") sql.settleAdopted.run(resolved.owner.uid);
  const addresses =
    decision.kind === "reuse"
      ? decision.addresses
      : reserve(ledger, transaction, space, definition, resolved, decision.slots);
  killPoint("in-transaction");
  if (resolved.claim) recordClaimSuccess(ledger, resolved.claim, addresses, want);
  const attachment = record(ledger, space, definition, resolved.owner, want, addresses);
  return { kind: "attached", attachment, definition, repeat: false, warnings: resolved.warnings };
}

/** An applied definition wins; else the configuration of this very request is what the network is from now on. */
function effectiveDefinition(
  ledger: Ledger,
  transaction: Transaction,
  space: NetworkSpace,
  want: AttachWant,
): NetworkDefinition {
  if (space.appliedBy !== null && space.definition !== null) return space.definition;
  const definition = space.bridgeIsGateway ? withBridgeGateways(want.definition) : want.definition;
  if (space.definition?.fingerprint !== definition.fingerprint && definition.rangeSets.length > 0) {
    ledger.sql.setRuntimeConfig.run(want.definitionSource, space.id);
    ledger.define(space, definition, null, transaction);
  }
  return definition;
}

/** The bridge would answer for an address that somebody uses: whoever came first keeps it, and is named. */
function whoHoldsGateway(ledger: Ledger, space: NetworkSpace, definition: NetworkDefinition): Refusal | null {
  for (const gateway of gatewaysOf(definition)) {
    const row = ledger.sql.allocation.get(space.id, addressBytes(gateway));
    if (row?.state !== "Bound") continue;
    const holder = describeOwner(ownerOf(row));
    return refuse("GATEWAY_HELD", { address: gateway, network: space.name, holder });
  }
  return null;
}

type Slots = Extract<ReturnType<typeof decideAdd>, { kind: "allocate" }>["slots"];

type Decided =
  | { kind: "reuse"; addresses: readonly InterfaceAddress[] }
  | { kind: "allocate"; slots: Slots }
  | { kind: "refused"; refusal: Refusal };

function decide(
  ledger: Ledger,
  transaction: Transaction,
  space: NetworkSpace,
  definition: NetworkDefinition,
  attacher: Attacher,
  want: AttachWant,
): Decided {
  const nowMs = ledger.context.clock.monotonicMs();
  const pools = ledger.poolsOf(space, definition, transaction);
  for (const pool of pools) pool.expire(nowMs);
  const { owner } = attacher;
  const decision = decideAdd({
    definition,
    pools,
    held: heldBy(ledger, space, attacher),
    requested: requestedBy(attacher, want),
    seed: attacher.claim ? owner.uid : null,
    nowMs,
    holderOf: (address) => holderOf(ledger, space, address),
  });
  if (decision.kind === "refuse") return refused(decision.refusal);
  const families =
    decision.kind === "reuse"
      ? decision.addresses.map((one) => one.address.family)
      : decision.slots.map((slot) => (pools[slot.rangeSetIndex] as Pool).rangeSet.family);
  return whyTooNarrow(families, want) ?? decision;
}

/** What the owner has on the network. A pod or container holds only what the attachments it is about to replace were answered. */
function heldBy(ledger: Ledger, space: NetworkSpace, { owner, superseded }: Attacher): HeldAddress[] {
  const { sql } = ledger;
  const rows =
    owner.kind === "claim"
      ? sql.allocationsOfClaim.all(owner.uid, space.id)
      : [
          ...superseded.flatMap(({ row }) =>
            sameOwner(ownerOf(row), owner) ? allocationsOf(ledger, row) : [],
          ),
          ...sql.coolingOfOwner.all(owner.uid, owner.interface, space.id, owner.kind),
        ];
  return rows.map((row) => ({
    ...interfaceAddressOf(row),
    state: row.state === "Bound" ? "bound" : "cooling",
    adopted: row.adopted === 1,
  }));
}

/** What the claim asks for counts once, at its first use; what the runtime asks for must fit what is held. */
function requestedBy(attacher: Attacher, want: AttachWant): RequestedAddress[] {
  if (attacher.claim?.ips !== "[]") return [...want.requested];
  const own = requestedByClaim(attacher.claim);
  const known = new Set(want.requested.map((one) => formatAddress(one.address)));
  return [...want.requested, ...own.filter((one) => !known.has(formatAddress(one.address)))];
}

function holderOf(ledger: Ledger, space: NetworkSpace, address: Address): string | null {
  const row = ledger.sql.allocation.get(space.id, addressBytes(address));
  return row ? describeOwner(ownerOf(row)) : null;
}

/** Insert-if-absent, one address for each range set; throws POOL_FULL, and with it rolls back, when a set has no candidate left. */
function reserve(
  ledger: Ledger,
  transaction: Transaction,
  space: NetworkSpace,
  definition: NetworkDefinition,
  attacher: Attacher,
  slots: Slots,
): InterfaceAddress[] {
  const pools = ledger.poolsOf(space, definition, transaction);
  return slots.map(({ rangeSetIndex, candidates, moveCursor }) => {
    const pool = pools[rangeSetIndex] as Pool;
    for (const value of candidates) {
      const address: Address = { family: pool.rangeSet.family, value };
      const prefixLength = pool.subnetOf(value)?.cidr.prefixLength;
      if (prefixLength === undefined) throw new Error(`candidate ${formatAddress(address)} is in no subnet`);
      const taken = insert(ledger, space, attacher, { address, prefixLength });
      transaction.onRollback(space.allocate(address, moveCursor));
      if (taken) return { address, prefixLength };
    }
    throw new RefusalError(
      refuse("POOL_FULL", {
        subnets: pool.rangeSet.subnets.map((subnet) => formatCidr(subnet.cidr)).join(", "),
        network: space.name,
      }),
    );
  });
}

function insert(ledger: Ledger, space: NetworkSpace, { owner }: Attacher, one: InterfaceAddress): boolean {
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

function refused(refusal: Refusal): { kind: "refused"; refusal: Refusal } {
  return { kind: "refused", refusal };
}
