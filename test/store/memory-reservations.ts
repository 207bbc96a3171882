import { poolFull, type Slot } from "../../ipam/decide-addresses.ts";
import { decideReservation, definitionFor } from "../../ipam/decide-reservation.ts";
import { describeOwner, type Owner, sameOwner, searchSeed, succeeds } from "../../ipam/owner.ts";
import { refuse } from "../../ipam/refusals.ts";
import { type Address, formatAddress, sameAddress } from "../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import type { OwnerReleaseOutcome, Reservations, ReserveOutcome, ReserveWant } from "../../store/allocations.ts";
import type { MemoryState } from "./memory-state.ts";

/** `Reservations` in the plain arrays of the model. */
export class MemoryReservations implements Reservations {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async reserve({ owner, network, request, ...want }: ReserveWant): Promise<ReserveOutcome> {
    const nowMs = this.#state.context.clock.monotonicMs();
    const definition = definitionFor(want.definition, request);
    const space = this.#state.spaceOf(network, definition);
    const pools = space.poolsOf(definition, nowMs);
    for (const pool of pools) pool.expire(nowMs);
    const decision = decideReservation({
      definition,
      pools,
      held: this.#state.heldAs(owner, network),
      request,
      seed: searchSeed(owner, network),
      nowMs,
      holderOf: (address) => this.#state.holderOf(network, address),
    });
    if (decision.kind === "refuse") return { kind: "refused", refusal: decision.refusal };
    const undos: (() => void)[] = [];
    const found: InterfaceAddress[] = [];
    for (const slot of decision.slots) {
      const pool = pools[slot.rangeSetIndex] as Pool;
      const one = this.#firstOf(slot, pool, { owner, network });
      if (one === null) {
        for (const undo of undos.reverse()) undo();
        return { kind: "refused", refusal: poolFull(pool, network) };
      }
      undos.push(space.allocate(one.address, slot.moveCursor));
      found.push(one);
    }
    for (const one of found) this.#state.take({ ...one, network, owner, state: "Bound" });
    return { kind: "reserved", addresses: [...decision.kept, ...found] };
  }

  async release(owner: Owner): Promise<OwnerReleaseOutcome> {
    const bound = this.#state.held.filter((one) => one.state === "Bound" && sameOwner(one.owner, owner));
    const isUsed =
      this.#state.attachments.some((one) => sameOwner(one.owner, owner)) ||
      this.#state.claims.some((one) => sameOwner(one.owner, owner));
    if (bound.length > 0 && isUsed) {
      const addresses = bound.map(({ address }) => formatAddress(address)).join(", ");
      return { kind: "refused", refusal: refuse("IN_USE", { addresses, holder: describeOwner(owner) }) };
    }
    for (const one of bound) this.#state.release(one);
    return {
      kind: "released",
      addresses: bound.map(({ address, prefixLength, network }) => ({ address, prefixLength, network })),
    };
  }

  #firstOf(
    { candidates }: Slot,
    pool: Pool,
    { owner, network }: Pick<ReserveWant, "owner" | "network">,
  ): InterfaceAddress | null {
    for (const value of candidates) {
      const address: Address = { family: pool.rangeSet.family, value };
      const isBound = this.#state.held.some(
        (one) =>
          one.network === network &&
          one.state === "Bound" &&
          sameAddress(one.address, address) &&
          !succeeds(owner, one.owner),
      );
      if (!isBound) return { address, prefixLength: pool.subnetOf(value)?.cidr.prefixLength ?? 0 };
    }
    return null;
  }
}
