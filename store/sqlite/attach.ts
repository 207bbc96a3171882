import { type Address, addressBytes, type Family, formatAddress } from "../../ipam/address.ts";
import {
  formatCidr,
  formatInterfaceAddress,
  type InterfaceAddress,
  parseInterfaceAddress,
} from "../../ipam/cidr.ts";
import { decideAdd, type HeldAddress } from "../../ipam/decide-add.ts";
import type { NetworkDefinition } from "../../ipam/network-definition.ts";
import type { Pool } from "../../ipam/pool.ts";
import { placeOf } from "../../ipam/range-set.ts";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import type { RequestedAddress } from "../../ipam/requested-address.ts";
import type { AttachOutcome, AttachWant } from "../allocations.ts";
import { killPoint } from "../kill-point.ts";
import type { NetworkSpace } from "../network-space.ts";
import { describeOwner, sameOwner } from "../owner.ts";
import type { AnsweredAddress, Attachment } from "../records.ts";
import { isBefore } from "../stamp.ts";
import { recordClaimRefusal, recordClaimSuccess, requestedByClaim } from "./claim-status.ts";
import { endAttachment } from "./end-attachment.ts";
import type { Transaction } from "./group-commit.ts";
import { allocationsOf } from "./holdings.ts";
import type { Ledger } from "./ledger.ts";
import { type Attacher, resolveOwner } from "./resolve-owner.ts";
import { type AttachmentRow, attachmentOf, interfaceAddressOf, ownerOf } from "./rows.ts";

/** One ADD inside a transaction: reads, decides, writes. Nothing else can happen in between. */
export function attach(ledger: Ledger, transaction: Transaction, want: AttachWant): AttachOutcome {
  const { sql } = ledger;
  const space = ledger.networkOf(want.network, transaction);
  const definition = effectiveDefinition(ledger, transaction, space, want);
  if (isOvertaken(ledger, want)) {
    const { containerId } = want;
    return refused(refuse("SUPERSEDED", { containerId, interface: want.interface, later: "a later DEL" }));
  }
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
  const decision = decide(ledger, space, definition, resolved, want);
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
  const attachment = record(ledger, space, definition, resolved, want, addresses);
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
  if (space.definition?.fingerprint !== want.definition.fingerprint && want.definition.rangeSets.length > 0) {
    ledger.sql.setRuntimeConfig.run(want.definitionSource, space.id);
    ledger.define(space, want.definition, null, transaction);
  }
  return want.definition;
}

function isOvertaken(ledger: Ledger, want: AttachWant): boolean {
  for (const row of ledger.sql.tombstones.all(want.containerId, want.interface, want.network)) {
    if (isBefore(want.stamp, { bootId: row.boot_id, us: row.boot_us }, ledger.context.bootId)) return true;
  }
  return false;
}

/** The same attachment asked for in the same way. A claim or pod that differs means that the container ID is used again. */
function isExactRepeat(former: AttachmentRow, want: AttachWant): boolean {
  return former.claim_ref === claimRefOf(want) && former.pod_uid === (want.pod?.uid ?? null);
}

function claimRefOf(want: AttachWant): string {
  return want.claim === null ? "" : `${want.claim.namespace}/${want.claim.name}`;
}

/** The answer given before, byte for byte; only its stamp moves on, so that an older DEL still on its way ends nothing. */
function repeat(
  ledger: Ledger,
  space: NetworkSpace,
  definition: NetworkDefinition,
  former: AttachmentRow,
  want: AttachWant,
): AttachOutcome {
  const attachment = attachmentOf(former, space.name);
  const addresses = attachment.ips.map((ip) => parseInterfaceAddress(ip.address).address);
  const tooNarrow = whyTooNarrow(
    addresses.map(({ family }) => family),
    want,
  );
  if (tooNarrow) return tooNarrow;
  const held = addresses.map(formatAddress);
  const other = want.requested.find((requested) => !held.includes(formatAddress(requested.address)));
  if (other) {
    return refused(
      refuse("REQUEST_MISMATCH", {
        requested: formatAddress(other.address),
        source: other.source,
        held: held.join(", "),
        network: space.name,
      }),
    );
  }
  if (isBefore(attachment.stamp, want.stamp, ledger.context.bootId)) {
    const { path, id, witnessed } = want.netns;
    ledger.sql.refreshAttachment.run(
      want.stamp.bootId,
      want.stamp.us,
      path,
      id,
      witnessed ? 1 : 0,
      former.id,
    );
  }
  return { kind: "attached", attachment, definition, repeat: true, warnings: [] };
}

type Slots = Extract<ReturnType<typeof decideAdd>, { kind: "allocate" }>["slots"];

type Decided =
  | { kind: "reuse"; addresses: readonly InterfaceAddress[] }
  | { kind: "allocate"; slots: Slots }
  | { kind: "refused"; refusal: Refusal };

function decide(
  ledger: Ledger,
  space: NetworkSpace,
  definition: NetworkDefinition,
  attacher: Attacher,
  want: AttachWant,
): Decided {
  const nowMs = ledger.context.clock.monotonicMs();
  const pools = space.poolsOf(definition, nowMs);
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

/** A result below 0.3.0 would silently leave the second address of a family out. */
function whyTooNarrow(
  families: readonly Family[],
  want: AttachWant,
): { kind: "refused"; refusal: Refusal } | null {
  if (!want.onePerFamily || new Set(families).size === families.length) return null;
  const count = families.length;
  return refused(refuse("VERSION_TOO_NARROW", { version: "below 0.3.0", count, network: want.network }));
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
  const pools = space.poolsOf(definition, ledger.context.clock.monotonicMs());
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

/** The attachment and its history, with the very addresses that are about to be answered. */
function record(
  ledger: Ledger,
  space: NetworkSpace,
  definition: NetworkDefinition,
  { owner }: Attacher,
  want: AttachWant,
  addresses: readonly InterfaceAddress[],
): Attachment {
  const { sql, context } = ledger;
  const sinceMs = context.clock.wallMs();
  const ips = addresses.map((one) => answered(definition, one));
  const pod = [want.pod?.namespace ?? null, want.pod?.name ?? null, want.pod?.uid ?? null];
  const ownerColumns = [owner.kind, owner.uid, owner.interface, owner.namespace, owner.name];
  const historyIds = addresses.map((one) =>
    Number(
      sql.insertHistory.run(
        space.id,
        addressBytes(one.address),
        one.prefixLength,
        ...ownerColumns,
        want.containerId,
        want.interface,
        ...pod,
        context.node,
        sinceMs,
      ).lastInsertRowid,
    ),
  );
  const { netns, stamp } = want;
  const id = Number(
    sql.insertAttachment.run(
      space.id,
      want.containerId,
      want.interface,
      ...ownerColumns,
      claimRefOf(want),
      JSON.stringify(ips),
      stamp.bootId,
      stamp.us,
      netns.path,
      netns.id,
      netns.witnessed ? 1 : 0,
      ...pod,
      context.node,
      sinceMs,
      historyIds[0] ?? 0,
      historyIds.length,
    ).lastInsertRowid,
  );
  return {
    id,
    network: space.name,
    containerId: want.containerId,
    interface: want.interface,
    owner,
    claimRef: claimRefOf(want),
    ips,
    stamp,
    netns,
    pod: want.pod,
    node: context.node,
    sinceMs,
  };
}

function answered(definition: NetworkDefinition, one: InterfaceAddress): AnsweredAddress {
  const address = formatInterfaceAddress(one);
  const gateway = placeOf(definition.rangeSets, one.address)?.subnet.gateway ?? null;
  return gateway === null ? { address } : { address, gateway: formatAddress(gateway) };
}

function refused(refusal: Refusal): { kind: "refused"; refusal: Refusal } {
  return { kind: "refused", refusal };
}
