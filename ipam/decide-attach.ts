/*
 * ipam/: decisions, without clock, randomness or I/O
 *
 *   decide-attach, decide-repeat, decide-addresses   one ADD: reuse, allocate or refuse
 *   attach-view, claim-users                         the facts that these may ask for; who else uses a claim
 *   counting                                         which count of the addresses that a claim has
 *   decide-reservation                               addresses for an owner without containers
 *   refusals, owner, stamp, finding                  tables and types that all rooms use
 *   duplicate-macs                                   interfaces that have one MAC
 *   former-state, former-holders                     what stays behind a definition that was changed
 *   claim-conditions, condition-of-refusal           the conditions in an IPAMClaim's status
 *   definition/                                      a network's configuration, read and compared
 *   space/                                           addresses, ranges, pools
 */

import type {
  AttachAsk,
  Attacher,
  AttachView,
  Fact,
  KnownAttachment,
  KnownClaim,
  SupersededReason,
} from "./attach-view.ts";
import { describeUser, isOfSamePod, otherUsers, userInTheWay } from "./claim-users.ts";
import { decideAddresses, type HeldAddress, type Slot } from "./decide-addresses.ts";
import { claimRefOf, decideRepeat, type RepeatDecision, supersededBy, whyTooNarrow } from "./decide-repeat.ts";
import { gatewaysOf } from "./definition/bridge-gateway.ts";
import type { NetworkDefinition } from "./definition/network-definition.ts";
import { parseRequestedAddress, type RequestedAddress } from "./definition/requested-address.ts";
import { withReservation } from "./definition/reservations.ts";
import { missingSets } from "./former-state.ts";
import { type Owner, ownerOfClaim, ownerWithoutClaim } from "./owner.ts";
import { type Refusal, RefusalError, refuse } from "./refusals.ts";
import { formatAddress, sameAddress } from "./space/address.ts";
import type { InterfaceAddress } from "./space/cidr.ts";
import { firstOfEachSet, placeOf } from "./space/range-set.ts";
import { isBefore } from "./stamp.ts";

/*
 * The outcome of an ADD. The first line that applies counts:
 *
 *   a later DEL was seen                           refuse   SUPERSEDED
 *   the same container repeats the same request    repeat   (VERSION_TOO_NARROW, REQUEST_MISMATCH)
 *   the network has no ranges                      refuse   NETWORK_UNDEFINED
 *   the claim may not be used                      refuse   CLAIM_ABSENT, CLAIM_OTHER_NETWORK, …, or warn and ignore it
 *   a newer sandbox of the pod is attached         refuse   SUPERSEDED
 *   the bridge's own address has another owner     refuse   GATEWAY_HELD
 *   a claim that has nothing, and whose list       refuse   REQUEST_INVALID
 *   cannot be read
 *   a deleted claim of its name has an address     refuse   PREDECESSOR_HOLDS
 *   another container uses the claim               refuse   CLAIM_IN_USE
 *   the claim of a VM that asks for others         allocate, unless it runs with what it has
 *   the owner has addresses                        reuse    (REQUEST_MISMATCH, ADDRESS_OUTSIDE, …), with what the
 *                                                           network has been given since, unless they are used
 *   otherwise                                      allocate (POOL_FULL, ADDRESS_TAKEN, …); what a claim lists is asked
 *                                                           for where it has nothing
 *
 * A claim that a request on another network names follows its VM where that is to be there: KubeVirt 1.9 lets the
 * network of a running VM be edited (VEP 140). One whose network is "" is of a definition without a name, which
 * kubevirt/ipam-extensions copies as it is written: it is of the network of its VM's interface.
 */

/** A claim that is ignored while the ADD goes on without it, and the reason. */
interface IgnoredClaim<C> {
  readonly claim: C;
  readonly refusal: Refusal;
}

interface Refused<C> {
  readonly kind: "refuse";
  readonly refusal: Refusal;
  /** That the refusal concerns; null: it has none. */
  readonly claim: C | null;
  readonly ignored: IgnoredClaim<C> | null;
  /** The refusal follows from the free space that the store knows, which may be out of date. */
  readonly isByFreeSpace: boolean;
  readonly requested: readonly RequestedAddress[];
}

interface Granted<A extends KnownAttachment, C extends KnownClaim> {
  readonly attacher: Attacher<A, C>;
  readonly ignored: IgnoredClaim<C> | null;
}

export type AttachDecision<A extends KnownAttachment, C extends KnownClaim> =
  | Extract<RepeatDecision<A>, { kind: "repeat" }>
  /** The owner keeps its own addresses, and gets one more for each slot. */
  | ({
      readonly kind: "reuse";
      readonly addresses: readonly InterfaceAddress[];
      readonly slots: readonly Slot[];
    } & Granted<A, C>)
  | ({
      readonly kind: "allocate";
      readonly slots: readonly Slot[];
      readonly requested: readonly RequestedAddress[];
      /** What the claim had instead of what its VM asks for. */
      readonly instead: readonly InterfaceAddress[];
    } & Granted<A, C>)
  | Refused<C>;

/** Decides about one ADD from what the view has read; undefined: it needs more. Changes nothing. */
export function decideAttach<A extends KnownAttachment, C extends KnownClaim>(
  view: AttachView<A, C>,
): Fact<AttachDecision<A, C>> {
  const known = decideRepeat(view, { claimKnown: true });
  if (known !== null) return known.kind === "repeat" ? known : refused<C>(null, known.refusal);
  const { ask, definition } = view;
  if (definition.rangeSets.length === 0) {
    return refused<C>(null, refuse("NETWORK_UNDEFINED", { network: ask.network }));
  }
  if (ask.claim === null) return decideFor(view, ownerWithoutClaim(ask), null, null);
  const name = `${ask.claim.namespace}/${ask.claim.name}`;
  const claim = view.claim();
  if (claim === undefined) return undefined;
  if (claim === null) return refused<C>(null, refuse("CLAIM_ABSENT", { claim: name }));
  if (claim.network !== ask.network) {
    const follows = definition.allowPersistentIPs && view.mayFollow(claim);
    if (follows === undefined) return undefined;
    if (!follows) {
      const claimNetwork = claim.network || '""';
      return refused(claim, refuse("CLAIM_OTHER_NETWORK", { claim: name, claimNetwork, network: ask.network }));
    }
    // What it asks for is about the network that it was made for.
    const ipRequests = claim.network === "" ? claim.ipRequests : [];
    return decideFor(view, ownerOfClaim(claim), { ...claim, ipRequests, followsFrom: claim.network }, null);
  }
  if (!definition.allowPersistentIPs) {
    // A claim keeps its addresses even when the network no longer allows persistent ones.
    const has = view.has(claim);
    if (has === undefined) return undefined;
    if (!has) {
      const refusal = refuse("PERSISTENCE_NOT_ALLOWED", { claim: name, network: ask.network });
      return decideFor(view, ownerWithoutClaim(ask), null, { claim, refusal });
    }
  }
  const whyNot = view.whyNot(claim);
  if (whyNot === undefined) return undefined;
  if (whyNot !== null) return refused(claim, whyNot);
  return decideFor(view, ownerOfClaim(claim), claim, null);
}

/** The part after the owner is known: which attachments the new one replaces, and whether it may. */
function decideFor<A extends KnownAttachment, C extends KnownClaim>(
  view: AttachView<A, C>,
  owner: Owner,
  claim: C | null,
  ignored: IgnoredClaim<C> | null,
): Fact<AttachDecision<A, C>> {
  const { ask, former } = view;
  const replaced: { attachment: A; reason: SupersededReason }[] = [];
  // The runtime uses the container ID for another container.
  if (former !== null) replaced.push({ attachment: former, reason: "used again" });
  const others: A[] = [];
  let isContinued = false;
  for (const attachment of view.attachmentsOf(owner)) {
    if (attachment.id === former?.id) continue;
    if (isOfSamePod(attachment, ask)) {
      if (!isBefore(attachment.stamp, ask.stamp, view.bootId)) {
        const later = `newer sandbox ${attachment.containerId} of the same pod`;
        return refused(claim, supersededBy(ask, later), ignored);
      }
      replaced.push({ attachment, reason: "newer sandbox" });
      isContinued = true;
    } else if (view.isGone(attachment)) replaced.push({ attachment, reason: "namespace gone" });
    else others.push(attachment);
  }
  if (claim?.isClosed && !isContinued) {
    return refused(claim, refuse("CLAIM_TERMINATING", { claim: claimRefOf(ask) }), ignored);
  }
  const warnings = ignored === null ? [] : [{ reason: "ClaimIgnored" as const, message: describeIgnored(ask) }];
  const attacher = { owner, claim, superseded: replaced, warnings };
  return decideHoldings(view, { attacher, ignored }, others);
}

function describeIgnored(ask: AttachAsk): string {
  return `claim ${claimRefOf(ask)} is ignored: network ${ask.network} does not set allowPersistentIPs, so the address will not outlive the pod`;
}

function decideHoldings<A extends KnownAttachment, C extends KnownClaim>(
  view: AttachView<A, C>,
  granted: Granted<A, C>,
  others: readonly A[],
): Fact<AttachDecision<A, C>> {
  const { ignored } = granted;
  let { attacher } = granted;
  const { owner, claim } = attacher;
  const { ask, definition } = view;
  const no = (refusal: Refusal) => refused(claim, refusal, ignored);
  for (const address of ask.bridgeIsGateway ? gatewaysOf(definition) : []) {
    const holder = view.gatewayHolder(address);
    if (holder === undefined) return undefined;
    if (holder !== null) return no(refuse("GATEWAY_HELD", { address, network: ask.network, holder }));
  }
  const holdings = view.holdings(attacher);
  if (holdings === undefined) return undefined;
  const { held, unreadable, unreleased, wishes = [], runs = false } = holdings;
  if (unreadable !== undefined) return no(unreadable);
  if (unreleased !== undefined)
    return no(refuse("PREDECESSOR_HOLDS", { claim: claimRefOf(ask), address: unreleased, network: ask.network }));
  const user = claim === null || claim.isClosed ? null : userInTheWay(view, attacher, claim, others);
  if (user === undefined) return undefined;
  if (user !== null) {
    return no(refuse("CLAIM_IN_USE", { claim: claimRefOf(ask), holder: describeUser(user) }));
  }
  const counts = held.filter(({ state }) => state === "bound");
  // Whoever has addresses keeps them, but for a VM, which gets what is reserved for it at its next start.
  const mayMove = claim !== null && view.mayMove(claim);
  const isFree = counts.length === 0 || mayMove;
  const given = isFree ? withReservation(ask.requested, definition.reservations, ask.mac) : ask.requested;
  const asked = claim === null || counts.length > 0 ? given : requestedWith(claim, given);
  if ("code" in asked) return no(asked);
  let requested = asked;
  let own = held;
  // Beside another container of the same VM its guest goes on running, with what it has.
  const users = claim === null ? others : otherUsers(view, attacher, claim, others);
  if (users === undefined) return undefined;
  const isHeld = ({ address }: RequestedAddress) => counts.some((one) => sameAddress(one.address, address));
  if (mayMove && counts.length > 0 && !requested.every(isHeld)) {
    if (runs) {
      const warning = { reason: "AddressKept" as const, message: describeKept(counts, requested) };
      attacher = { ...attacher, warnings: [...attacher.warnings, warning] };
      requested = [];
    } else own = held.map((one) => ({ ...one, state: "cooling" }));
  }
  const bound = own.filter(({ state }) => state === "bound");
  const wished = counts.length > 0 || claim === null ? [] : wishedFor(definition, claim, { own, requested, wishes });
  requested = [...requested, ...wished];
  const renews = view.mayRenew && bound.length > 0 && users.length === 0;
  const decision = decideAddresses({
    definition,
    // Who keeps what it has asks for none, and the first look at them reads every address of the network.
    pools: bound.length === 0 || (renews && missingSets(definition.rangeSets, bound).length > 0) ? view.pools : [],
    renews,
    held: own,
    requested,
    mac: ask.mac,
    seed: claim === null ? null : owner.uid,
    nowMs: view.nowMs,
    holderOf: (address) => view.holderOf(address),
    // A cooling address is as good as free for a claim that lists it.
    mayReturn: (address, state) =>
      state === "cooling"
        ? wished.some((one) => sameAddress(one.address, address)) || view.mayReturn(address, owner)
        : view.goneUsersOf(address, owner).length > 0,
  });
  if (decision.kind === "refuse") return { ...no(decision.refusal), isByFreeSpace: true, requested };
  const families =
    decision.kind === "reuse"
      ? decision.addresses.map(({ address }) => address.family)
      : definition.rangeSets.map(({ family }) => family);
  const narrow = whyTooNarrow(ask, families);
  if (narrow !== null) return no(narrow);
  const { slots } = decision;
  const gone = slots.length === 0 ? [] : requested.flatMap(({ address }) => view.goneUsersOf(address, owner));
  const more = [...new Map(gone.map((one) => [one.id, one])).values()]
    .filter(({ id }) => !attacher.superseded.some(({ attachment }) => attachment.id === id))
    .map((attachment) => ({ attachment, reason: "namespace gone" as const }));
  const all = { ignored, attacher: { ...attacher, superseded: [...attacher.superseded, ...more] } };
  return decision.kind === "reuse"
    ? { kind: "reuse", addresses: decision.addresses, slots, ...all }
    : { kind: "allocate", slots, requested, instead: own === held ? [] : counts, ...all };
}

/**
 * Of each subnet where the claim has nothing, and nothing else is asked for, the first that lies in it; else the first.
 */
function wishedFor(
  { rangeSets }: NetworkDefinition,
  claim: KnownClaim,
  known: {
    readonly own: readonly HeldAddress[];
    readonly requested: readonly RequestedAddress[];
    readonly wishes: readonly InterfaceAddress[];
  },
): RequestedAddress[] {
  const { own, requested, wishes } = known;
  const taken = new Set([...own, ...requested].flatMap(({ address }) => placeOf(rangeSets, address)?.index ?? []));
  const source = `the list of claim ${claim.namespace}/${claim.name}`;
  const first = firstOfEachSet(rangeSets, wishes, taken);
  const wished = taken.size === 0 && first.length === 0 ? wishes.slice(0, 1) : first;
  return wished.map(({ address }) => ({ address, prefixLength: null, source }));
}

/** For the VM's owner: what it asks for is given at its next start. */
function describeKept(held: readonly HeldAddress[], requested: readonly RequestedAddress[]): string {
  const list = (all: readonly Pick<HeldAddress, "address">[]) =>
    all.map(({ address }) => formatAddress(address)).join(", ");
  const sources = [...new Set(requested.map(({ source }) => source))].join(" and ");
  return `${sources} asks for ${list(requested)}, but the VM runs with ${list(held)} and keeps it; stop and start the VM to give it what it asks for`;
}

/** The claim's request counts only at its first use; the runtime's request must fit what is held. */
function requestedWith(
  claim: KnownClaim,
  requested: readonly RequestedAddress[],
): readonly RequestedAddress[] | Refusal {
  const all = [...requested];
  try {
    for (const text of claim.ipRequests) {
      const one = parseRequestedAddress(text, `claim ${claim.namespace}/${claim.name} spec.ipRequests`);
      if (!requested.some(({ address }) => sameAddress(address, one.address))) all.push(one);
    }
  } catch (error) {
    if (error instanceof RefusalError) return error.refusal;
    throw error;
  }
  return all;
}

function refused<C>(claim: C | null, refusal: Refusal, ignored: IgnoredClaim<C> | null = null): Refused<C> {
  return { kind: "refuse", refusal, claim, ignored, isByFreeSpace: false, requested: [] };
}
