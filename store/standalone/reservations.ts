import type { NetworkSpace } from "../../allocations/network-space.ts";
import { decideReservation, definitionFor } from "../../ipam/decide-reservation.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { describeOwner, OWNER_KINDS, type Owner, sameOwner, searchSeed, succeeds } from "../../ipam/owner.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { addressBytes, formatAddress } from "../../ipam/space/address.ts";
import type { OwnerReleaseOutcome, Reservations, ReserveOutcome, ReserveWant } from "../allocations.ts";
import type { HostLocalTakeover } from "../host-local/takeover.ts";
import { endHolding, releaseAllocation } from "../journal/end-attachment.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { attachmentsOf } from "../journal/holdings.ts";
import type { Ledger } from "../journal/ledger.ts";
import { type AllocationRow, describeHolding, interfaceAddressOf, ownerOf } from "../journal/rows.ts";
import type { StateDirectory } from "../journal/state-directory.ts";
import { heldOf } from "./attach-view.ts";
import { openHolding } from "./claim-status.ts";
import { reserve } from "./reserve.ts";

export class SqliteReservations implements Reservations {
  readonly #directory: StateDirectory;
  readonly #hostLocal: Pick<HostLocalTakeover, "ensure">;

  constructor(directory: StateDirectory, hostLocal: Pick<HostLocalTakeover, "ensure">) {
    this.#directory = directory;
    this.#hostLocal = hostLocal;
  }

  async reserve(want: ReserveWant): Promise<ReserveOutcome> {
    const problem = this.#directory.whyFull;
    if (problem !== null) return { kind: "refused", refusal: refuse("STORAGE_FAILED", { problem }) };
    try {
      await this.#hostLocal.ensure(want.definition);
      return await this.#directory.write((ledger, transaction) => reserveFor(ledger, transaction, want));
    } catch (error) {
      // Thrown from inside the transaction, so that a partial reservation is rolled back.
      if (error instanceof RefusalError) return { kind: "refused", refusal: error.refusal };
      throw error;
    }
  }

  release(owner: Owner): Promise<OwnerReleaseOutcome> {
    return this.#directory.write((ledger, transaction) => releaseAll(ledger, transaction, owner));
  }
}

function reserveFor(ledger: Ledger, transaction: Transaction, want: ReserveWant): ReserveOutcome {
  const { owner, network, request } = want;
  const { context, sql } = ledger;
  const space = ledger.networkOf(network, transaction);
  const definition = definitionFor(definitionOf(ledger, transaction, space, want.definition), request);
  const nowMs = context.clock.monotonicMs();
  const pools = ledger.poolsOf(space, definition, transaction);
  for (const pool of pools) pool.expire(nowMs);
  const decision = decideReservation({
    definition,
    pools,
    held: rowsOf(ledger, space, owner).map((row) => ({
      ...heldOf(row),
      former: succeeds(owner, ownerOf(row)),
    })),
    request,
    seed: searchSeed(owner, network),
    nowMs,
    holderOf: (address) => {
      const row = sql.allocation.get(space.id, addressBytes(address));
      return row === undefined ? null : describeHolding(row);
    },
  });
  if (decision.kind === "refuse") return { kind: "refused", refusal: decision.refusal };
  const reserved = reserve(ledger, transaction, { space, pools, owner, slots: decision.slots });
  if (OWNER_KINDS[owner.kind].outlivesAttachments) openHolding(ledger, owner, reserved, space);
  return { kind: "reserved", addresses: [...decision.kept, ...reserved] };
}

/** The first definition of an undefined network, until an ADD brings a better one. */
function definitionOf(
  ledger: Ledger,
  transaction: Transaction,
  space: NetworkSpace,
  given: NetworkDefinition,
): NetworkDefinition {
  if (space.appliedBy !== null && space.definition !== null) return space.definition;
  const definition = space.bridgeIsGateway ? ledger.bridgeGateways.of(given) : given;
  if (space.definition === null) ledger.define(space, definition, null, transaction);
  return definition;
}

function releaseAll(ledger: Ledger, transaction: Transaction, owner: Owner): OwnerReleaseOutcome {
  const held = [...ledger.networks.values()].flatMap((space) => boundRows(ledger, space, owner));
  const users = attachmentsOf(ledger, owner).map((one) => `container ${one.container_id} (${one.interface})`);
  const isClaimed = ledger.sql.claimByUid.get(owner.uid) !== undefined;
  if (held.length > 0 && (users.length > 0 || isClaimed)) {
    const addresses = held.map((row) => formatAddress(interfaceAddressOf(row).address)).join(", ");
    const holder = [...new Set([describeOwner(owner), ...users])].join(", ");
    return { kind: "refused", refusal: refuse("IN_USE", { addresses, holder }) };
  }
  const addresses = held.map((row) => {
    endHolding(ledger, row, "released");
    releaseAllocation(ledger, transaction, row);
    return { ...interfaceAddressOf(row), network: ledger.networkById(row.network_id).name };
  });
  return { kind: "released", addresses };
}

function rowsOf(ledger: Ledger, space: NetworkSpace, owner: Owner): AllocationRow[] {
  const { kind, uid, interface: interfaceName, namespace, name } = owner;
  if (OWNER_KINDS[kind].succeededByName) {
    const named = ledger.sql.allocationsOfNameSlowly.all(space.id, kind, namespace, name, interfaceName);
    return named.filter((row) => sameOwner(ownerOf(row), owner) || succeeds(owner, ownerOf(row)));
  }
  const cooling = ledger.sql.coolingOfOwner.all(uid, interfaceName, space.id, kind);
  return [...boundRows(ledger, space, owner), ...cooling];
}

function boundRows(ledger: Ledger, { id }: NetworkSpace, owner: Owner): AllocationRow[] {
  return ledger.sql.boundOfOwnerSlowly.all(id, owner.uid, owner.interface, owner.kind);
}
