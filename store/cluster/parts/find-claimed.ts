import type { AllocationReading } from "../../../allocations/allocation-client.ts";
import { addressOf, sameAllocationOwner } from "../../../allocations/allocation-object.ts";
import { toAllocationOwner } from "../../../allocations/owners.ts";
import type { ClaimUser, Holdings } from "../../../ipam/attach-view.ts";
import { countingOf } from "../../../ipam/counting.ts";
import type { HeldAddress } from "../../../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../../../ipam/definition/network-definition.ts";
import { withReservation } from "../../../ipam/definition/reservations.ts";
import { type Refusal, refuse } from "../../../ipam/refusals.ts";
import { type Address, formatAddress, sameAddress } from "../../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { placeOf } from "../../../ipam/space/range-set.ts";
import { attachmentKey, attachmentsIn } from "../../../kube/objects.ts";
import { CLAIM_LIST_MAX, listedAddresses } from "../../../kube/views/claim-view.ts";
import type { AttachWant } from "../../allocations.ts";
import type { AttachParts, ClusterAttacher } from "./attach-parts.ts";
import type { ClaimReading, OtherAttachment } from "./claim-access.ts";
import { candidatesOf } from "./find-own.ts";

type Claimant = ClusterAttacher & { readonly claim: ClaimReading };

/** One ADD, and what it has read. */
export interface ClaimSearch {
  readonly ask: AttachWant;
  readonly definition: NetworkDefinition;
  /** An instant of the clock, ms. */
  readonly deadlineMs: number;
  /** Throws ApiAway, and RefusalError where the API server may lack what it had. */
  admit(attacher: Claimant): Promise<number>;
  reading(address: Address): AllocationReading | null;
  renew(address: Address, reading: AllocationReading): void;
  /** Other users of a claim, as far as its allocations were read. */
  otherUsers(attacher: Claimant): readonly ClaimUser[];
  otherOf(user: ClaimUser, claim: ClaimReading): Promise<OtherAttachment>;
}

interface Own extends InterfaceAddress {
  readonly reading: AllocationReading;
  readonly isListed: boolean;
}

/**
 * What a claim has on the network, by its UID: an entry of its list that is not, is not (docs/decisions/0093). Found by
 * the list and by what is asked for; by what this node and the controller remember; and, before anything new is
 * reserved for a claim that is not at its first use, by its label. Each is read by name. Throws ApiAway, RefusalError.
 */
export async function findClaimed(parts: AttachParts, view: ClaimSearch, attacher: Claimant): Promise<Holdings> {
  const { client, claimAccess } = parts;
  const { ask, definition } = view;
  const { claim } = attacher;
  const search = new Search(parts, view, attacher);
  const listed = listedAddresses(claim);
  const asked = withReservation(ask.requested, definition.reservations, ask.mac);
  const isFirst = claim.ips.length === 0 && claimAccess.isFirstUse(claim, ask);
  if (!isFirst) await search.read([...listed, ...asked].map(({ address }) => address));
  let users = await search.usersOfVm();
  const isPublished = () => users.size > 0 || search.own.some(({ isListed }) => isListed);
  const begun: HeldAddress[] = [];
  if (!isPublished()) {
    await view.admit(attacher);
    const candidates = candidatesOf(parts, ask, attacher);
    await search.read([...candidates.answered.map(({ address }) => address), ...candidates.others]);
    // A create whose answer was lost may still arrive: the same name again does no harm.
    for (const one of candidates.begun)
      if (search.isFree(one.address)) begun.push({ ...one, state: "cooling", adopted: false });
  }
  const { counts: counting } = search.order(users);
  const asksForOthers = asked.some(({ address }) => !counting.some((one) => sameAddress(one.address, address)));
  const lacksSource = claimAccess.isMigrationTarget(ask) && users.size === 0;
  // Somebody may have taken one of several out of the list.
  const places = new Set(counting.map((one) => placeIn(view, one)?.index));
  const isShort = definition.rangeSets.some((_, index) => !places.has(index));
  const asksByLabel = !isFirst && (!isPublished() || isShort || asksForOthers || lacksSource);
  let retained: HeldAddress[] = [];
  if (asksByLabel || (definition.retainSeconds > 0 && search.own.length === 0)) {
    const all = await client.listOfClaim(claim, view.deadlineMs);
    const here = all.filter(({ spec }) => spec.network === ask.network);
    await search.read(here.filter(({ spec }) => spec.owner.uid === claim.uid).map(addressOf));
    users = await search.usersOfVm();
    // Those of deleted claims of its name. That nothing uses a Bound one any more only the controller finds.
    const former = here.filter(({ spec }) => spec.owner.uid !== claim.uid);
    const bound = former.find(({ status }) => status?.state === "Bound");
    const isFirstHere = search.own.length === 0 && definition.retainSeconds > 0;
    if (isFirstHere && bound !== undefined) return { held: [], unreleased: addressOf(bound) };
    retained = former
      .filter(({ status }) => isFirstHere && status?.state === "Retained")
      .map(({ spec }) => ({ ...parseInterfaceAddress(spec.address), state: "cooling", adopted: false }));
  }
  const unreadable = search.own.length === 0 ? whyUnreadable(claim) : null;
  if (unreadable !== null) return { held: [], unreadable };
  const { counts, besides } = search.order(users);
  // Nobody was answered what an ADD reserved that was cut short: what is missing is chosen with it, all or nothing.
  const mayComplete = !isPublished() && counts.every((one) => placeIn(view, one)?.isUsable === true);
  const held = (all: readonly InterfaceAddress[], state: HeldAddress["state"]) =>
    all.map(({ address, prefixLength }) => ({ address, prefixLength, state, adopted: false }));
  const isOf = claim.network === ask.network || claim.network === "";
  return {
    held: [
      ...held(counts, mayComplete ? "cooling" : "bound"),
      ...held([...besides, ...search.cooling], "cooling"),
      ...begun,
      ...retained,
    ],
    wishes: isOf ? listed.filter(({ address }) => !search.has(address)) : [],
    runs: search.own.some(
      (one) => isUsed(one, users) && !asked.some(({ address }) => sameAddress(address, one.address)),
    ),
  };
}

/** Whether a claim has anything on the network. */
export async function hasClaimed(parts: AttachParts, view: ClaimSearch, attacher: Claimant): Promise<boolean> {
  const { held } = await findClaimed(parts, view, attacher);
  return held.some(({ address }) => view.reading(address)?.object.status?.state === "Bound");
}

class Search {
  readonly #parts: AttachParts;
  readonly #view: ClaimSearch;
  readonly #attacher: Claimant;
  readonly #listed: readonly InterfaceAddress[];
  readonly #read = new Map<string, AllocationReading | null>();
  /** Bound, in no order. */
  own: Own[] = [];
  /** Released, and nobody else's yet. */
  readonly cooling: InterfaceAddress[] = [];

  constructor(parts: AttachParts, view: ClaimSearch, attacher: Claimant) {
    this.#parts = parts;
    this.#view = view;
    this.#attacher = attacher;
    this.#listed = listedAddresses(attacher.claim);
  }

  has(address: Address): boolean {
    return [...this.own, ...this.cooling].some((one) => sameAddress(one.address, address));
  }

  /** Read, and there is no such allocation. */
  isFree(address: Address): boolean {
    return this.#read.get(formatAddress(address)) === null;
  }

  /** Each once, by a quorum read. */
  async read(addresses: readonly Address[]): Promise<void> {
    const { client, picture } = this.#parts;
    const { ask, deadlineMs } = this.#view;
    const { owner } = this.#attacher;
    const unread = new Map(
      addresses.map((one) => [formatAddress(one), one] as const).filter(([text]) => !this.#read.has(text)),
    );
    await Promise.all(
      [...unread].map(async ([text, address]) => {
        const reading = await client.read(ask.network, address, deadlineMs);
        this.#read.set(text, reading);
        if (reading === null) return picture.noteFree(ask.network, address);
        const { spec, status, metadata } = reading.object;
        if (!sameAllocationOwner(spec.owner, toAllocationOwner(owner))) {
          const { resourceVersion } = metadata;
          // A cool-down that is known here may have been found to be over for this ADD (reconsider.ts).
          const isKnown = picture.cooldownSeenMs(ask.network, address, resourceVersion) >= 0;
          if (!isKnown) picture.note(ask.network, address, spec.owner.uid, status?.state, resourceVersion);
          return;
        }
        const { prefixLength } = parseInterfaceAddress(spec.address);
        if (status?.state !== "Bound") return void this.cooling.push({ address, prefixLength });
        this.#view.renew(address, reading);
        const isListed = this.#listed.some((one) => sameAddress(one.address, address));
        this.own.push({ address, prefixLength, reading, isListed });
      }),
    );
  }

  /** Keys of attachments of what the claim has by other containers of its VM that may run. */
  async usersOfVm(): Promise<ReadonlySet<string>> {
    const users = this.#view.otherUsers(this.#attacher);
    const keys = new Set<string>();
    for (const user of users)
      if ((await this.#view.otherOf(user, this.#attacher.claim)) === "same-vm")
        keys.add(attachmentKey(user.containerId, user.interface));
    return keys;
  }

  /** What counts of what the claim has, and the rest. */
  order(users: ReadonlySet<string>) {
    return countingOf(this.#view.definition, this.own, this.#listed, (one) => isUsed(one, users));
  }
}

function isUsed({ reading }: Own, users: ReadonlySet<string>): boolean {
  return attachmentsIn(reading.object).some((one) => users.has(attachmentKey(one.containerID, one.interface)));
}

function placeIn({ definition: { rangeSets, reservations }, ask }: ClaimSearch, { address }: InterfaceAddress) {
  const place = placeOf(rangeSets, address);
  if (place === null) return null;
  const isUsable = place.subnet.usable.contains(address.value) && !reservations?.otherMac(address, ask.mac);
  return { index: place.index, isUsable };
}

/** Why the list of a claim that has nothing cannot be a wish; null: it can. */
function whyUnreadable({ namespace, name, ips }: ClaimReading): Refusal | null {
  for (const text of ips.slice(0, CLAIM_LIST_MAX)) {
    try {
      parseInterfaceAddress(text);
    } catch (error) {
      const remedy = `${(error as Error).message}; correct the claim's status`;
      const values = { key: `status.ips of claim ${namespace}/${name}`, value: String(text), remedy };
      return { ...refuse("REQUEST_INVALID", values), claimReason: "RequestedIPOutsideSubnet" };
    }
  }
  return null;
}
