import type { NetworkDefinition } from "./definition/network-definition.ts";
import type { RequestedAddress } from "./definition/requested-address.ts";
import { missingSets, presentPrefixLength } from "./former-state.ts";
import { type Refusal, refuse } from "./refusals.ts";
import { type Address, formatAddress, sameAddress } from "./space/address.ts";
import { formatCidr, formatInterfaceAddress, type InterfaceAddress } from "./space/cidr.ts";
import type { Pool } from "./space/pool.ts";
import { describeRangeSet, placeOf, type RangeSet } from "./space/range-set.ts";

/** An address that the owner has on this network according to the store. */
export interface HeldAddress extends InterfaceAddress {
  /** "cooling": released, and not yet allocated to another owner. */
  readonly state: "bound" | "cooling";
  /** The address was filled in by somebody else (a claim with prefilled status); Holdfast did not choose it. */
  readonly adopted: boolean;
  /** It is recorded for an owner that this one succeeds, and is taken over. */
  readonly former?: boolean;
}

export interface AddressQuestion {
  readonly definition: NetworkDefinition;
  /** In the order of the definition's range sets. */
  readonly pools: readonly Pool[];
  readonly held: readonly HeldAddress[];
  readonly requested: readonly RequestedAddress[];
  /** Of the interface; absent: not known, or there is none. */
  readonly mac?: string | undefined;
  /** The search starts at its hash; null for a pod or container. See searchSeed. */
  readonly seed: string | null;
  readonly nowMs: number;
  /** Owner of an address, for messages. */
  readonly holderOf: (address: Address) => string | null;
  /** Whether a requested address that is held or cools down may be given, because its holder has certainly ended. */
  readonly mayReturn?: (address: Address, state: "cooling" | "allocated") => boolean;
  /**
   * The owner's guest starts now, and nobody else uses its addresses: they get the prefix lengths that the network has
   * now, and families that it was given since. Otherwise it gets exactly what it holds. See docs/decisions/0060.
   */
  readonly renews?: boolean;
}

/** One address to be reserved: the first candidate that the store accepts. */
export interface Slot {
  readonly rangeSetIndex: number;
  /** In the order to try them. Lazy: read only as many as needed. No address occurs twice. */
  readonly candidates: Iterable<bigint>;
  /** Whether the next search continues after this address: not for requested, hashed or the owner's own addresses. */
  readonly moveCursor: boolean;
  /** The one candidate was requested by address: its cool-down may end early. */
  readonly isRequested: boolean;
}

export type AddressDecision =
  /** The owner keeps its addresses; `slots`: one address more of each family that its network has been given since. */
  | {
      readonly kind: "reuse";
      readonly addresses: readonly InterfaceAddress[];
      readonly slots: readonly Slot[];
    }
  | { readonly kind: "allocate"; readonly slots: readonly Slot[] }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

/**
 * The addresses of an ADD. An owner that holds addresses keeps exactly those. Any other owner gets one address of each
 * range set: the requested one, else one that it released and that is still cooling, else the next free one. All or
 * nothing.
 */
export function decideAddresses(question: AddressQuestion): AddressDecision {
  const bound = question.held.filter(({ state }) => state === "bound");
  return bound.length > 0 ? reuse(question, bound) : allocate(question);
}

function reuse(question: AddressQuestion, bound: readonly HeldAddress[]): AddressDecision {
  const { definition, renews = false } = question;
  // What a claim brought along is an address: no guest has been given a prefix length with it yet.
  const present = bound.map((one) =>
    renews || one.adopted ? { ...one, prefixLength: presentPrefixLength(definition, one) } : one,
  );
  const { slots, requested } = renews ? addedSlots(question, bound) : { slots: [], requested: [] };
  const refusal = whyNotReused(question, present, requested);
  if (refusal !== null) return { kind: "refuse", refusal };
  const addresses = inRangeSetOrder(definition, present);
  return { kind: "reuse", addresses, slots };
}

/** Names who asks for the address that is refused: a request, or the list of a claim. */
export function withSource(refusal: Refusal, requested: readonly RequestedAddress[]): Refusal {
  const { about } = refusal;
  const request = "address" in about && requested.find(({ address }) => sameAddress(address, about.address));
  return request ? { ...refusal, message: `${refusal.message}; ${request.source} asks for it` } : refusal;
}

/** An answer has the addresses of an owner in the order of the network's subnets. */
export function inRangeSetOrder(
  { rangeSets }: Pick<NetworkDefinition, "rangeSets">,
  addresses: readonly InterfaceAddress[],
): InterfaceAddress[] {
  return addresses
    .map(({ address, prefixLength }) => ({ order: rangeSetOrder(rangeSets, address), address, prefixLength }))
    .sort((a, b) => a.order - b.order)
    .map(({ address, prefixLength }) => ({ address, prefixLength }));
}

/**
 * One address more of each family that the owner has none of, and those of them that were requested. A family without a
 * free address is no reason to refuse an owner that keeps what it has.
 */
function addedSlots(
  question: AddressQuestion,
  bound: readonly HeldAddress[],
): { readonly slots: readonly Slot[]; readonly requested: readonly InterfaceAddress[] } {
  const { rangeSets } = question.definition;
  const missing = missingSets(rangeSets, bound);
  const ofMissing = question.requested.filter(({ address }) =>
    missing.some((index) => rangeSets[index]?.family === address.family),
  );
  const requests = assignRequests({ ...question, requested: ofMissing });
  if ("code" in requests) return { slots: [], requested: [] };
  const slots: Slot[] = [];
  const requested: InterfaceAddress[] = [];
  for (const index of missing) {
    const request = requests.get(index) ?? null;
    const pool = question.pools[index];
    if (pool === undefined) continue;
    const slot = slotOf(question, pool, index, request);
    if ("code" in slot) continue;
    slots.push(slot);
    const prefixLength = request && pool.subnetOf(request.address.value)?.cidr.prefixLength;
    if (request !== null && prefixLength != null) requested.push({ address: request.address, prefixLength });
  }
  return { slots, requested };
}

/** A held address may be reused even outside the present ranges, unless it was adopted from outside. */
function whyNotReused(
  { definition, requested }: AddressQuestion,
  bound: readonly HeldAddress[],
  added: readonly InterfaceAddress[],
): Refusal | null {
  const stranger = whyUnfit(
    definition,
    bound.filter(({ adopted }) => adopted),
  );
  if (stranger !== null) return stranger;
  for (const request of requested) {
    const held = [...bound, ...added].find(({ address }) => sameAddress(address, request.address));
    if (held === undefined) {
      const text = bound.map(({ address }) => formatAddress(address)).join(", ");
      return refuse("REQUEST_MISMATCH", {
        requested: request.address,
        source: request.source,
        held: text,
        network: definition.name,
      });
    }
    const refusal = wrongMask(request, held.prefixLength, "it is held");
    if (refusal !== null) return refusal;
  }
  return null;
}

/** Adopted addresses must be ones that the network could have given: a usable one per range set, with its mask. */
export function whyUnfit(definition: NetworkDefinition, brought: readonly InterfaceAddress[]): Refusal | null {
  const { rangeSets, name: network } = definition;
  if (rangeSets.length === 0) return null;
  const seen = new Set<number>();
  for (const one of brought) {
    const { address, prefixLength } = one;
    // The claim's own list is at fault, and its condition says so.
    const invalid = (remedy: string): Refusal => ({
      ...refuse("REQUEST_INVALID", { key: "status.ips", value: formatInterfaceAddress(one), remedy }),
      claimReason: "RequestedIPOutsideSubnet",
    });
    const place = placeOf(rangeSets, address);
    if (place === null) return outside(definition, address);
    if (seen.has(place.index)) return invalid("an interface has one address of each subnet");
    seen.add(place.index);
    const { cidr, usable } = place.subnet;
    if (!usable.contains(address.value)) return refuse("ADDRESS_EXCLUDED", { address, network });
    if (prefixLength !== cidr.prefixLength)
      return invalid(`its subnet is ${formatCidr(cidr)}, so the prefix length must be /${cidr.prefixLength}`);
  }
  return null;
}

/** The position of a held address in the answer: that of its range set, else that of the first set of its family. */
function rangeSetOrder(rangeSets: readonly RangeSet[], address: Address): number {
  const own = placeOf(rangeSets, address);
  if (own !== null) return own.index;
  const sameFamily = rangeSets.findIndex((set) => set.family === address.family);
  return sameFamily >= 0 ? sameFamily : rangeSets.length;
}

function allocate(question: AddressQuestion): AddressDecision {
  const { definition, pools } = question;
  if (pools.length !== definition.rangeSets.length) throw new Error("one pool per range set is needed");
  if (pools.length === 0) return refused(refuse("NETWORK_UNDEFINED", { network: definition.name }));
  const requests = assignRequests(question);
  if ("code" in requests) return refused(requests);
  const slots: Slot[] = [];
  for (const [rangeSetIndex, pool] of pools.entries()) {
    const slot = slotOf(question, pool, rangeSetIndex, requests.get(rangeSetIndex) ?? null);
    if ("code" in slot) return refused(slot);
    slots.push(slot);
  }
  return { kind: "allocate", slots };
}

/** Assigns each requested address to its range set. The same address requested twice counts once. */
export function assignRequests(question: AddressQuestion): ReadonlyMap<number, RequestedAddress> | Refusal {
  const { definition } = question;
  const requests = new Map<number, RequestedAddress>();
  for (const request of question.requested) {
    const { address } = request;
    const index = definition.rangeSets.findIndex(
      (set) => set.family === address.family && set.extent.contains(address.value),
    );
    const set = definition.rangeSets[index];
    if (set === undefined) return outside(definition, request.address);
    const mac = definition.reservations?.otherMac(address, question.mac) ?? null;
    if (mac !== null) return refuse("ADDRESS_RESERVED", { address, network: definition.name, mac });
    const subnet = set.subnets.find(({ extent }) => extent.contains(address.value));
    const mask = subnet && wrongMask(request, subnet.cidr.prefixLength, `its subnet is ${formatCidr(subnet.cidr)}`);
    if (mask) return mask;
    const other = requests.get(index);
    if (other !== undefined && !sameAddress(other.address, address)) {
      const remedy = `${other.source} asks for ${formatAddress(other.address)} already, and one address is given from ${describeRangeSet(set)}`;
      return refuse("CONFIG_INVALID", { key: request.source, value: formatAddress(address), remedy });
    }
    requests.set(index, request);
  }
  return requests;
}

export function slotOf(
  question: AddressQuestion,
  pool: Pool,
  rangeSetIndex: number,
  request: RequestedAddress | null,
): Slot | Refusal {
  const { rangeSet } = pool;
  // Nothing is bound to the owner itself here: this is cooling, or passes to it.
  const own = question.held
    .filter(({ address }) => address.family === rangeSet.family && rangeSet.usable.contains(address.value))
    .filter(({ address }) => !question.definition.reservations?.otherMac(address, question.mac))
    .map(({ address }) => address.value);
  if (request !== null) {
    const refusal = own.includes(request.address.value) ? null : whyNotGiven(question, pool, request);
    return refusal ?? { rangeSetIndex, candidates: [request.address.value], moveCursor: false, isRequested: true };
  }
  if (own.length === 0 && pool.isExhausted) {
    return poolFull(pool, question.definition.name);
  }
  const startAt = question.seed === null ? undefined : pool.hashStart(question.seed);
  const candidates = pool.candidates(question.nowMs, startAt);
  const isRequested = false;
  if (own.length === 0) return { rangeSetIndex, candidates, moveCursor: question.seed === null, isRequested };
  return { rangeSetIndex, candidates: ownFirst(own, candidates), moveCursor: false, isRequested };
}

/** The refusal of a range set without a free address; its hint says what became of them. */
export function poolFull(pool: Pool, network: string): Refusal {
  const { size, allocated, retained, cooling, excluded } = pool.counts();
  const subnets = describeRangeSet(pool.rangeSet);
  const held = retained === 0n ? "" : ` (${retained} retained for claims that were deleted)`;
  const counts = `of ${size} addresses ${allocated} allocated, ${cooling} cooling, ${excluded} excluded or reserved`;
  return refuse("POOL_FULL", { subnets: `${subnets}${held}`, network, counts });
}

function* ownFirst(own: readonly bigint[], others: Iterable<bigint>): Generator<bigint> {
  yield* own;
  for (const value of others) if (!own.includes(value)) yield value;
}

function whyNotGiven(
  { definition, nowMs, holderOf, mayReturn = () => false }: AddressQuestion,
  pool: Pool,
  request: RequestedAddress,
): Refusal | null {
  const network = definition.name;
  const { address } = request;
  const state = pool.stateOf(address.value, nowMs);
  switch (state) {
    case "free":
      return null;
    case "cooling":
      return mayReturn(address, state) ? null : refuse("ADDRESS_COOLING", { address, network });
    case "allocated":
    case "retained":
      if (state === "allocated" && mayReturn(address, state)) return null;
      return refuse("ADDRESS_TAKEN", {
        address,
        network,
        holder: holderOf(address) ?? "another owner",
      });
    case "excluded":
      return refuse("ADDRESS_EXCLUDED", { address, network });
    case "outside":
      return outside(definition, address);
  }
}

function outside(definition: NetworkDefinition, address: Address): Refusal {
  return refuse("ADDRESS_OUTSIDE", {
    address,
    network: definition.name,
    subnets: definition.rangeSets.map(describeRangeSet).join(", "),
  });
}

function wrongMask(
  { address, prefixLength, source }: RequestedAddress,
  right: number,
  because: string,
): Refusal | null {
  if (prefixLength === null || prefixLength === right) return null;
  return refuse("CONFIG_INVALID", {
    key: source,
    value: formatInterfaceAddress({ address, prefixLength }),
    remedy: `${because}, so write ${formatInterfaceAddress({ address, prefixLength: right })} or omit the prefix length`,
  });
}

function refused(refusal: Refusal): AddressDecision {
  return { kind: "refuse", refusal };
}
