import type { NetworkSpace } from "../../allocations/network-space.ts";
import { poolFull, type Slot } from "../../ipam/decide-addresses.ts";
import { isRetainedFor, type Owner, succeeds } from "../../ipam/owner.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Address, addressBytes, formatAddress } from "../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { endHolding } from "../journal/end-attachment.ts";
import type { Transaction } from "../journal/group-commit.ts";
import type { Ledger } from "../journal/ledger.ts";
import { describeHolding, ownerOf } from "../journal/rows.ts";

/** Insert-if-absent, one address per slot; throws POOL_FULL, which rolls back, when a slot has no candidate left. */
export function reserve(
  ledger: Ledger,
  transaction: Transaction,
  given: {
    readonly space: NetworkSpace;
    readonly pools: readonly Pool[];
    readonly owner: Owner;
    readonly slots: readonly Slot[];
  },
): InterfaceAddress[] {
  const { space, pools, owner, slots } = given;
  return slots.map(({ rangeSetIndex, candidates, moveCursor }) => {
    const pool = pools[rangeSetIndex] as Pool;
    for (const value of candidates) {
      const address: Address = { family: pool.rangeSet.family, value };
      const prefixLength = pool.subnetOf(value)?.cidr.prefixLength;
      if (prefixLength === undefined) throw new Error(`candidate ${formatAddress(address)} is in no subnet`);
      const one = { address, prefixLength };
      const taken = insert(ledger, space, owner, one, { adopted: false });
      if (!taken && passOver(ledger, space, owner, address)) return one;
      if (!taken && rebind(ledger, transaction, space, { owner, one, adopted: false })) return one;
      transaction.onRollback(space.allocate(address, moveCursor));
      if (taken) return one;
    }
    throw new RefusalError(poolFull(pool, space.name));
  });
}

/** Allocates an address that is already in use to its owner, also a cooling one. Throws RefusalError ADDRESS_TAKEN. */
export function reserveInUse(
  ledger: Ledger,
  transaction: Transaction,
  space: NetworkSpace,
  owner: Owner,
  one: InterfaceAddress,
): void {
  const { address } = one;
  if (!insert(ledger, space, owner, one, { adopted: true })) {
    if (rebind(ledger, transaction, space, { owner, one, adopted: true })) return;
    const row = ledger.sql.allocation.get(space.id, addressBytes(address));
    const holder = row ? describeHolding(row) : "another owner";
    throw new RefusalError(refuse("ADDRESS_TAKEN", { address, holder, network: space.name }));
  }
  transaction.onRollback(space.allocate(address, false));
}

/** An address that its owner keeps has the prefix length of its subnet from now on. */
export function keepPrefixLength(ledger: Ledger, space: NetworkSpace, one: InterfaceAddress): void {
  ledger.sql.setPrefixLength.run(one.prefixLength, space.id, addressBytes(one.address), one.prefixLength);
}

/** A Bound address passes to an owner that succeeds the present one. Returns whether it did. */
function passOver(ledger: Ledger, space: NetworkSpace, owner: Owner, address: Address): boolean {
  const row = ledger.sql.allocation.get(space.id, addressBytes(address));
  if (row === undefined || !succeeds(owner, ownerOf(row))) return false;
  endHolding(ledger, row, "used again");
  ledger.sql.passAllocation.run(owner.uid, ledger.context.clock.wallMs(), row.id);
  return true;
}

/** A Retained address goes to a claim of the name that had it. Returns whether it did. */
function rebind(
  ledger: Ledger,
  transaction: Transaction,
  space: NetworkSpace,
  { owner, one, adopted }: { readonly owner: Owner; readonly one: InterfaceAddress; readonly adopted: boolean },
): boolean {
  const { address } = one;
  const row = ledger.sql.allocation.get(space.id, addressBytes(address));
  if (row?.state !== "Retained" || !isRetainedFor(owner, ownerOf(row))) return false;
  ledger.sql.rebindAllocation.run(owner.uid, adopted ? 1 : 0, ledger.context.clock.wallMs(), row.id);
  keepPrefixLength(ledger, space, one);
  transaction.onRollback(space.endRetention(address));
  return true;
}

/** Returns false if the address is Bound, to whichever owner, or Retained. */
function insert(
  ledger: Ledger,
  space: NetworkSpace,
  owner: Owner,
  one: InterfaceAddress,
  { adopted }: { readonly adopted: boolean },
): boolean {
  const result = ledger.sql.insertAllocation.run(
    space.id,
    addressBytes(one.address),
    one.prefixLength,
    owner.kind,
    owner.uid,
    owner.interface,
    owner.namespace,
    owner.name,
    adopted ? 1 : 0,
    ledger.context.clock.wallMs(),
  );
  return result.changes === 1;
}
