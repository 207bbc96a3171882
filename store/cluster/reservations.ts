import { decideReservation, type ReservationDecision } from "../../ipam/decide-reservation.ts";
import { describeOwner, OWNER_KINDS, type Owner } from "../../ipam/owner.ts";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { allocationName, labelSelector } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, type IPAllocation, LABEL_OWNER } from "../../kube/objects.ts";
import type { OwnerReleaseOutcome, Reservations, ReserveOutcome, ReserveWant } from "../allocations.ts";
import type { HostLocalTakeover } from "../host-local/takeover.ts";
import { isSound, sameAllocationOwner } from "./allocations/allocation-object.ts";
import { type GivenBack, giveBack } from "./allocations/give-back.ts";
import { tooManyWriters } from "./allocations/hold.ts";
import { toAllocationOwner } from "./allocations/owners.ts";
import type { AttachParts } from "./attach-parts.ts";
import { type KeyedMutex, ownerKey, STILL_UNDER_WAY } from "./keyed-mutex.ts";
import { reconsider } from "./reconsider.ts";
import { reserve } from "./reserve.ts";
import { takeOverFirst } from "./take-over.ts";

/** Everything that reservations work with. */
interface ReservationParts
  extends Pick<AttachParts, "context" | "client" | "hint" | "claimAccess" | "continuity" | "follow"> {
  readonly api: KubeApi;
  readonly hostLocal: HostLocalTakeover;
  readonly mutex: KeyedMutex;
  /** Time for one reservation or release, ms. */
  readonly msMax: number;
}

type OwnedAllocation = InterfaceAddress & { readonly network: string; readonly object: IPAllocation };

/** Reservations as IPAllocations without an attachment. Methods throw ApiAway; `release` also throws API_REFUSED. */
export class KubernetesReservations implements Reservations {
  readonly #parts: ReservationParts;

  constructor(parts: ReservationParts) {
    this.#parts = parts;
  }

  reserve(want: ReserveWant): Promise<ReserveOutcome> {
    return this.#exclusively(want.owner, async (deadlineMs) => {
      const { hostLocal, context } = this.#parts;
      const refusal = await takeOverFirst(hostLocal, context.clock, want, deadlineMs);
      if (refusal !== null) return { kind: "refused", refusal };
      return reserveInKubernetes(this.#parts, want, deadlineMs);
    });
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
    for (;;) {
      const outcome = await reserveOnce(parts, want, deadlineMs);
      if (outcome !== "again") return outcome;
      if (parts.context.clock.monotonicMs() > deadlineMs)
        throw new ApiAway("others kept changing what this reservation had read");
    }
  } catch (error) {
    if (error instanceof RefusalError) return { kind: "refused", refusal: error.refusal };
    throw error;
  }
}

async function reserveOnce(
  parts: ReservationParts,
  want: ReserveWant,
  deadlineMs: number,
): Promise<ReserveOutcome | "again"> {
  const decision = await decide(parts, want, deadlineMs);
  if (decision.kind === "refuse") return refusedOrAgain(parts, want, decision.refusal, deadlineMs);
  const { kept, slots } = decision;
  if (slots.length === 0) return { kind: "reserved", addresses: kept };
  const { continuity, context, hint } = parts;
  const unsettled = await continuity.admit(want.network, deadlineMs);
  if (unsettled !== null) return { kind: "refused", refusal: unsettled };
  const { epoch } = continuity;
  const reserved = await reserve(
    {
      clock: context.clock,
      client: parts.client.admitted(epoch),
      hint,
      definition: want.definition,
      pools: poolsOf(parts, want),
      holder: { owner: toAllocationOwner(want.owner), attachment: null },
      deadlineMs,
      // A repeat finds by the owner what was reserved: nothing needs to be remembered here.
      announce: async () => {},
      follow: () => parts.follow(want.network),
    },
    slots,
  );
  await continuity.untilKnown(epoch, deadlineMs);
  const whyNot = continuity.whyNot(epoch);
  if (reserved.kind === "reserved" && whyNot === null)
    return { kind: "reserved", addresses: [...kept, ...reserved.addresses] };
  const addresses = reserved.kind === "reserved" ? reserved.addresses : reserved.reserved;
  for (const one of addresses) await rest(parts, want.owner, { ...one, network: want.network }, deadlineMs);
  if (reserved.kind === "reserved")
    throw new ApiAway(`${whyNot}; what this reservation had reserved is given back`);
  // The requested address is taken: the hint knows it now, and the refusal names the holder.
  if (want.request.kind === "addresses" && reserved.refusal.code === "POOL_FULL") return "again";
  return refusedOrAgain(parts, want, reserved.refusal, deadlineMs);
}

/** What the hint says is read from the API before anything is refused. */
async function refusedOrAgain(
  parts: ReservationParts,
  want: ReserveWant,
  refusal: Refusal,
  deadlineMs: number,
): Promise<ReserveOutcome | "again"> {
  const outcome = await reconsider(parts, want, refusal, deadlineMs);
  return outcome === "again" ? outcome : { kind: "refused", refusal: outcome.refusal };
}

/** Decides from the owner's allocations in the API, and from the hint of free addresses. */
async function decide(
  parts: ReservationParts,
  want: ReserveWant,
  deadlineMs: number,
): Promise<ReservationDecision> {
  const { owner, network, definition, request } = want;
  const own = (await readHoldings(parts.api, owner, deadlineMs)).filter((one) => one.network === network);
  return decideReservation({
    definition,
    pools: poolsOf(parts, want),
    held: own.map(({ address, prefixLength, object }) => ({
      address,
      prefixLength,
      state: object.status?.state === "Cooling" ? "cooling" : "bound",
      adopted: false,
    })),
    request,
    seed: OWNER_KINDS[owner.kind].outlivesAttachments ? owner.uid : null,
    nowMs: parts.context.clock.monotonicMs(),
    // Only the API server knows the name, and reconsider reads it.
    holderOf: () => null,
  });
}

/** Releases everything of an owner that has no attachments. Throws ApiAway and RefusalError API_REFUSED. */
async function releaseOwner(
  parts: ReservationParts,
  owner: Owner,
  deadlineMs: number,
): Promise<OwnerReleaseOutcome> {
  const all = await readHoldings(parts.api, owner, deadlineMs);
  const held = all.filter(({ object }) => object.status?.state !== "Cooling");
  const users = held.flatMap(({ object }) => usersOf(object));
  const claim =
    owner.kind === "claim" && held.length > 0 ? await parts.claimAccess.read(owner, deadlineMs) : null;
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
  { client, hint }: ReservationParts,
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
  if (outcome.kind === "done")
    hint.note(network, address, owner.uid, true, outcome.object.metadata.resourceVersion);
  return outcome;
}

function inUse(
  owner: Owner,
  held: readonly OwnedAllocation[],
  users: readonly string[],
): OwnerReleaseOutcome {
  const addresses = held.map(({ address }) => formatAddress(address)).join(", ");
  const holder = [...new Set([describeOwner(owner), ...users])].join(", ");
  return { kind: "refused", refusal: refuse("IN_USE", { addresses, holder }) };
}

function usersOf({ status }: IPAllocation): string[] {
  return Object.values(status?.attachments ?? {}).map(
    (one) => `container ${one.containerID} (${one.interface}) on node ${one.node}`,
  );
}

function poolsOf({ hint, context }: ReservationParts, { network, definition }: ReserveWant) {
  const nowMs = context.clock.monotonicMs();
  const space = hint.space(network);
  space.definition = definition;
  const pools = space.poolsOf(definition, nowMs);
  for (const pool of pools) pool.expire(nowMs);
  return pools;
}

/** All allocations of an owner, by a quorum read. */
async function readHoldings(api: KubeApi, owner: Owner, deadlineMs: number): Promise<OwnedAllocation[]> {
  const found: OwnedAllocation[] = [];
  const wanted = toAllocationOwner(owner);
  await api.list({
    path: ALLOCATIONS_PATH,
    query: { labelSelector: labelSelector(LABEL_OWNER, owner.uid) },
    deadlineMs,
    each: (object: IPAllocation) => {
      if (!isSound(object) || !sameAllocationOwner(object.spec.owner, wanted)) return;
      found.push({ ...parseInterfaceAddress(object.spec.address), network: object.spec.network, object });
    },
    restarted: () => found.splice(0),
  });
  return found;
}
