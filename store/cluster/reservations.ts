import { sameAllocationOwner, wasImported } from "../../allocations/allocation-object.ts";
import { type GivenBack, giveBack } from "../../allocations/give-back.ts";
import { tooManyWriters } from "../../allocations/hold.ts";
import { describeHolding, succeedsHolder, toAllocationOwner } from "../../allocations/owners.ts";
import { decideReservation, definitionFor, type ReservationDecision } from "../../ipam/decide-reservation.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { describeOwner, type Owner, searchSeed } from "../../ipam/owner.ts";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { allocationName } from "../../kube/object-names.ts";
import { attachmentsIn, type IPAllocation } from "../../kube/objects.ts";
import type { OwnerReleaseOutcome, Reservations, ReserveOutcome, ReserveWant } from "../allocations.ts";
import type { AttachParts } from "./parts/attach-parts.ts";
import type { ClaimAccess } from "./parts/claim-access.ts";
import { type Holdings, type OwnedAllocation, readOwned } from "./parts/holdings.ts";
import { type KeyedMutex, ownerKey, STILL_UNDER_WAY } from "./parts/keyed-mutex.ts";
import { reconsider } from "./reconsider.ts";
import { reserve } from "./reserve.ts";

interface ReservationParts extends Pick<AttachParts, "client" | "picture" | "continuity"> {
  readonly context: Pick<AttachParts["context"], "clock">;
  readonly api: KubeApi;
  readonly holdings: Holdings;
  readonly claimAccess: Pick<ClaimAccess, "read">;
  readonly mutex: KeyedMutex;
  /** Time for one reservation or release, ms. */
  readonly msMax: number;
  /** Whether a reservation waits while its network recovers; false: it is refused at once. */
  readonly waits: boolean;
}

/** Reservations as IPAllocations without an attachment. Methods throw ApiAway; `release` also throws API_REFUSED. */
export class KubernetesReservations implements Reservations {
  readonly #parts: ReservationParts;

  constructor(parts: ReservationParts) {
    this.#parts = parts;
  }

  reserve(want: ReserveWant): Promise<ReserveOutcome> {
    return this.#exclusively(want.owner, (deadlineMs) => reserveInKubernetes(this.#parts, want, deadlineMs));
  }

  release(owner: Owner): Promise<OwnerReleaseOutcome> {
    return this.#exclusively(owner, (deadlineMs) => releaseOwner(this.#parts, owner, deadlineMs));
  }

  async #exclusively<T>(owner: Owner, work: (deadlineMs: number) => Promise<T>): Promise<T> {
    const { mutex, context, msMax } = this.#parts;
    const deadlineMs = context.clock.monotonicMs() + msMax;
    const leave = await mutex.enter(ownerKey(owner), deadlineMs);
    if (leave === null) throw new ApiAway(STILL_UNDER_WAY);
    try {
      return await work(deadlineMs);
    } finally {
      leave();
    }
  }
}

async function reserveInKubernetes(
  parts: ReservationParts,
  want: ReserveWant,
  deadlineMs: number,
): Promise<ReserveOutcome> {
  try {
    let isRepeated = false;
    for (;;) {
      const outcome = await reserveOnce(parts, want, { deadlineMs, isRepeated });
      if (outcome !== "again" && outcome !== "was-taken") return outcome;
      isRepeated ||= outcome === "was-taken";
      if (parts.context.clock.monotonicMs() > deadlineMs)
        throw new ApiAway("others kept changing what this reservation had read");
    }
  } catch (error) {
    if (error instanceof RefusalError) return { kind: "refused", refusal: error.refusal };
    throw error;
  }
}

/** `was-taken`: a requested address turned out to be taken; not twice, for one that is being deleted stays so. */
async function reserveOnce(
  parts: ReservationParts,
  want: ReserveWant,
  { deadlineMs, isRepeated }: { readonly deadlineMs: number; readonly isRepeated: boolean },
): Promise<ReserveOutcome | "again" | "was-taken"> {
  const definition = definitionFor(want.definition, want.request);
  const decision = await decide(parts, want, definition, deadlineMs);
  if (decision.kind === "refuse") return refusedOrAgain(parts, want, decision.refusal, deadlineMs);
  const { kept, slots } = decision;
  if (!(await areStillOwn(parts, want, kept, deadlineMs))) return "again";
  if (slots.length === 0) return { kind: "reserved", addresses: kept };
  const { continuity, context, picture, holdings, waits } = parts;
  const unsettled = await continuity.admit(want.network, deadlineMs, { waits });
  if (unsettled !== null) return { kind: "refused", refusal: unsettled };
  const { epoch } = continuity;
  const reserved = await reserve(
    {
      clock: context.clock,
      client: parts.client.admitted(epoch),
      picture,
      definition,
      pools: poolsOf(parts, definition),
      holder: { owner: toAllocationOwner(want.owner), attachment: null },
      deadlineMs,
      mayBeOwn: want.request.kind === "single",
      learned: (object) => holdings.learned(object),
      // A repeat finds by the owner what was reserved: nothing needs to be remembered here.
      announce: async () => {},
    },
    slots,
  );
  const whyNot = continuity.whyNot(epoch);
  if (reserved.kind === "reserved" && whyNot === null)
    return { kind: "reserved", addresses: [...kept, ...reserved.addresses] };
  const addresses = reserved.kind === "reserved" ? reserved.addresses : reserved.reserved;
  for (const one of addresses) await rest(parts, want.owner, { ...one, network: want.network }, deadlineMs);
  if (reserved.kind === "reserved") throw new ApiAway(`${whyNot}; what this reservation had reserved is given back`);
  // The requested address is taken: the picture knows it now, and the refusal names the holder.
  const named = namedIn(want);
  if (named.length > 0 && reserved.refusal.code === "POOL_FULL") {
    if (!isRepeated) return "was-taken";
    const refusal = await whyTaken(parts, want, { named, deadlineMs });
    return refusal === null ? "again" : { kind: "refused", refusal };
  }
  return refusedOrAgain(parts, want, reserved.refusal, deadlineMs);
}

function namedIn({ request }: ReserveWant): readonly Address[] {
  if (request.kind === "addresses") return request.addresses.map(({ address }) => address);
  return request.kind === "single" && request.requested !== null ? [request.requested.address] : [];
}

/** Why one of the requested addresses cannot be had, from the quorum; null: it can. */
async function whyTaken(
  { client }: ReservationParts,
  { network, owner }: ReserveWant,
  { named, deadlineMs }: { readonly named: readonly Address[]; readonly deadlineMs: number },
): Promise<Refusal | null> {
  const holder = toAllocationOwner(owner);
  for (const address of named) {
    const object = (await client.read(network, address, deadlineMs))?.object;
    if (object?.status?.state === "Cooling") return refuse("ADDRESS_COOLING", { address, network });
    if (object !== undefined && !sameAllocationOwner(object.spec.owner, holder))
      return refuse("ADDRESS_TAKEN", { address, network, holder: describeHolding(object) });
  }
  return null;
}

/** Whether the addresses that are kept, known from a copy that may lag behind, are the owner's now. Throws ApiAway. */
async function areStillOwn(
  { holdings, client, picture }: ReservationParts,
  { network, owner }: ReserveWant,
  kept: readonly InterfaceAddress[],
  deadlineMs: number,
): Promise<boolean> {
  if (!holdings.mayLag) return true;
  for (const { address } of kept) {
    const object = (await client.read(network, address, deadlineMs))?.object;
    if (object === undefined) {
      holdings.forgotten(allocationName(network, address));
      picture.noteFree(network, address);
      return false;
    }
    holdings.learned(object);
    const state = object.status?.state;
    const isBound = state === "Bound";
    if (!isBound || !sameAllocationOwner(object.spec.owner, toAllocationOwner(owner))) {
      picture.note(network, address, object.spec.owner.uid, state, object.metadata.resourceVersion);
      return false;
    }
  }
  return true;
}

/** What the picture says is read from the API before anything is refused. */
async function refusedOrAgain(
  parts: ReservationParts,
  want: ReserveWant,
  refusal: Refusal,
  deadlineMs: number,
): Promise<ReserveOutcome | "again"> {
  const outcome = await reconsider(parts, want, refusal, { namespace: want.owner.namespace, deadlineMs });
  return outcome === "again" ? outcome : { kind: "refused", refusal: outcome.refusal };
}

async function decide(
  parts: ReservationParts,
  { owner, network, request }: ReserveWant,
  definition: NetworkDefinition,
  deadlineMs: number,
): Promise<ReservationDecision> {
  const holder = toAllocationOwner(owner);
  const own = await parts.holdings.of(owner, network, deadlineMs);
  return decideReservation({
    definition,
    pools: poolsOf(parts, definition),
    held: own.map(({ address, prefixLength, object }) => ({
      address,
      prefixLength,
      state: object.status?.state === "Bound" ? "bound" : "cooling",
      adopted: wasImported(object),
      former: succeedsHolder(holder, object.spec.owner),
    })),
    request,
    seed: searchSeed(owner, network),
    nowMs: parts.context.clock.monotonicMs(),
    // Only the API server knows the name, and reconsider reads it.
    holderOf: () => null,
  });
}

/** Releases everything of an owner that has no attachments. Throws ApiAway and RefusalError API_REFUSED. */
async function releaseOwner(parts: ReservationParts, owner: Owner, deadlineMs: number): Promise<OwnerReleaseOutcome> {
  const all = await readOwned(parts.api, owner, deadlineMs);
  const held = all.filter(({ object }) => object.status?.state !== "Cooling");
  const users = held.flatMap(({ object }) => usersOf(object));
  const claim = owner.kind === "claim" && held.length > 0 ? await parts.claimAccess.read(owner, deadlineMs) : null;
  if (users.length > 0 || claim?.uid === owner.uid) return inUse(owner, held, users);
  const addresses: OwnedAllocation[] = [];
  for (const one of held) {
    const outcome = await rest(parts, owner, one, deadlineMs);
    if (outcome.kind === "left") return inUse(owner, [one], outcome.why);
    if (outcome.kind === "done") addresses.push(one);
  }
  return {
    kind: "released",
    addresses: addresses.map(({ address, prefixLength, network }) => ({ address, prefixLength, network })),
  };
}

/** `left`: what has attached meanwhile. An address that is no longer the owner's is left alone. */
async function rest(
  { client, picture, holdings }: ReservationParts,
  owner: Owner,
  { network, address }: Pick<OwnedAllocation, "network" | "address">,
  deadlineMs: number,
): Promise<GivenBack<string[]>> {
  const outcome = await giveBack<string[]>(
    client,
    { name: allocationName(network, address), owner: toAllocationOwner(owner) },
    ({ object }) => {
      const users = usersOf(object);
      return users.length === 0 ? { kind: "cool" } : { kind: "leave", why: users };
    },
    deadlineMs,
  );
  if (outcome.kind === "changed") throw tooManyWriters(network, address);
  if (outcome.kind === "done") {
    picture.note(network, address, owner.uid, "Cooling", outcome.object.metadata.resourceVersion);
    holdings.learned(outcome.object);
  }
  return outcome;
}

function inUse(owner: Owner, held: readonly OwnedAllocation[], users: readonly string[]): OwnerReleaseOutcome {
  const addresses = held.map(({ address }) => formatAddress(address)).join(", ");
  const holder = [...new Set([describeOwner(owner), ...users])].join(", ");
  return { kind: "refused", refusal: refuse("IN_USE", { addresses, holder }) };
}

function usersOf(object: IPAllocation): string[] {
  return attachmentsIn(object).map((one) => `container ${one.containerID} (${one.interface}) on node ${one.node}`);
}

function poolsOf({ picture, context }: ReservationParts, definition: NetworkDefinition) {
  const nowMs = context.clock.monotonicMs();
  const space = picture.space(definition.name);
  space.definition = definition;
  const pools = space.poolsOf(definition, nowMs);
  for (const pool of pools) pool.expire(nowMs);
  return pools;
}
