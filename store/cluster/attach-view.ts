import type { AllocationReading } from "../../allocations/allocation-client.ts";
import { sameAllocationOwner } from "../../allocations/allocation-object.ts";
import { poolOf } from "../../allocations/network-space.ts";
import { describeHolder, describeHolding, isReservedFor, toAllocationOwner } from "../../allocations/owners.ts";
import type { AttachView, ClaimUser, Fact, Holdings } from "../../ipam/attach-view.ts";
import type { HeldAddress } from "../../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { withReservation } from "../../ipam/definition/reservations.ts";
import { presentPrefixLength } from "../../ipam/former-state.ts";
import { OWNER_KINDS, type Owner, ownerOfClaim } from "../../ipam/owner.ts";
import { type Refusal, RefusalError, refuse } from "../../ipam/refusals.ts";
import { type Address, formatAddress, sameAddress } from "../../ipam/space/address.ts";
import { type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { type AllocationAttachment, type AllocationOwner, attachmentKey, attachmentsIn } from "../../kube/objects.ts";
import type { AttachWant } from "../allocations.ts";
import { attachmentsOf } from "../journal/holdings.ts";
import { JournalAttachment } from "../journal/journal-attachment.ts";
import { isOvertaken } from "../journal/uses.ts";
import { containerOf } from "./agreement/facts.ts";
import type { AttachParts, ClusterAttacher } from "./parts/attach-parts.ts";
import type { ClaimReading, OtherAttachment } from "./parts/claim-access.ts";
import { findOwn } from "./parts/find-own.ts";
import { findRetained } from "./parts/find-retained.ts";

/** This node's journal as it is now, and what one round of an ADD has asked of the API, each object read once. */
export class ClusterView implements AttachView<JournalAttachment, ClaimReading> {
  /** Nobody but the controller changes what a claim lists (deploy/admission). */
  readonly mayRenew = false;
  readonly ask: AttachWant;
  readonly #parts: AttachParts;
  readonly #deadlineMs: number;
  readonly #facts = new Map<string, unknown>();
  readonly #readings = new Map<string, AllocationReading | null>();
  /** Keys of attachments with addresses that are asked for, and are the claim's though it does not list them. */
  readonly #atAskedFor = new Set<string>();
  #missing: (() => Promise<void>) | null = null;
  #epoch: number;
  #version = 0;

  constructor(parts: AttachParts, ask: AttachWant, deadlineMs: number) {
    this.ask = ask;
    this.#parts = parts;
    this.#deadlineMs = deadlineMs;
    this.#epoch = parts.continuity.epoch;
  }

  /** Decides from what is read, and reads what is missing until that suffices. Throws ApiAway and RefusalError. */
  async settle<T>(decide: () => Fact<T>): Promise<T> {
    for (;;) {
      const decision = decide();
      if (decision !== undefined) return decision;
      const missing = this.#missing;
      if (missing === null) throw new Error("a decision lacks something, and nothing is to be read");
      this.#missing = null;
      await missing();
    }
  }

  /** The epoch in which the owner was admitted, for writes that follow from these reads. */
  get epoch(): number {
    return this.#epoch;
  }

  /** The newest version of what this ADD has written; 0: nothing. */
  get version(): number {
    return this.#version;
  }

  wrote(resourceVersion: string): void {
    const version = Number(resourceVersion);
    if (version > this.#version) this.#version = version;
  }

  /** The allocation of an address that the owner holds, as last read. */
  reading(address: Address): AllocationReading | null {
    return this.#readings.get(formatAddress(address)) ?? null;
  }

  renew(address: Address, reading: AllocationReading | null): void {
    this.#readings.set(formatAddress(address), reading);
  }

  get definition(): NetworkDefinition {
    return this.ask.definition;
  }

  get bootId(): string {
    return this.#parts.context.bootId;
  }

  get nowMs(): number {
    return this.#parts.context.clock.monotonicMs();
  }

  get hasLaterDel(): boolean {
    return isOvertaken(this.#ledger, this.ask);
  }

  get former(): JournalAttachment | null {
    const { containerId, interface: interfaceName } = this.ask;
    const space = this.#ledger.networks.get(this.ask.network);
    const row = space && this.#ledger.sql.attachment.get(containerId, interfaceName, space.id);
    return row === undefined ? null : new JournalAttachment(row);
  }

  get pools(): readonly Pool[] {
    const space = this.#parts.picture.space(this.ask.network);
    space.definition = this.definition;
    const pools = space.poolsOf(this.definition, this.nowMs);
    for (const pool of pools) pool.expire(this.nowMs);
    return pools;
  }

  claim(): Fact<ClaimReading | null> {
    const { claim } = this.ask;
    if (claim === null) return null;
    return this.#fact("claim", () => this.#parts.claimAccess.read(claim, this.#deadlineMs));
  }

  whyNot(claim: ClaimReading): Fact<Refusal | null> {
    return this.#fact("permission", () => this.#parts.claimAccess.whyNot(claim, this.ask, this.#deadlineMs));
  }

  mayFollow(claim: ClaimReading): Fact<boolean> {
    const { pod, interface: interfaceName } = this.ask;
    // Two interfaces of one pod would take the claim from each other.
    const usesItElsewhere = attachmentsOf(this.#ledger, ownerOfClaim(claim))
      .map((row) => new JournalAttachment(row))
      .some((one) => one.pod !== null && one.pod.uid === pod?.uid && one.interface !== interfaceName);
    if (usesItElsewhere) return false;
    return this.#fact("follows", () => this.#parts.claimAccess.mayFollow(claim, this.ask, this.#deadlineMs));
  }

  mayMove({ vm }: ClaimReading): boolean {
    return vm !== null && vm.uid !== "";
  }

  attachmentsOf(owner: Owner): JournalAttachment[] {
    const space = this.#ledger.networks.get(this.ask.network);
    // A container holds only what its former attachment has.
    if (OWNER_KINDS[owner.kind].isContainer || space === undefined) return [];
    return attachmentsOf(this.#ledger, owner)
      .filter((row) => row.network_id === space.id)
      .map((row) => new JournalAttachment(row));
  }

  isGone(attachment: JournalAttachment): boolean {
    return containerOf(this.#parts.context, attachment) === "ended";
  }

  /** The picture nearly always shows that the gateway's address is free, so that this costs no request. */
  gatewayHolder(gateway: Address): Fact<string | null> {
    const { network, definition, definitionLacksGateway } = this.ask;
    const key = `gateway ${formatAddress(gateway)}`;
    const pools = this.#parts.picture.space(network).poolsOf(definition, this.nowMs);
    const believedHeld = poolOf(pools, gateway)?.stateOf(gateway.value) === "allocated";
    if (!this.#facts.has(key) && !believedHeld && !definitionLacksGateway) return null;
    return this.#fact(key, async () => {
      const reading = await this.#parts.client.read(network, gateway, this.#deadlineMs);
      if (reading?.object.status?.state !== "Bound") return null;
      return describeHolder(reading.object.spec.owner);
    });
  }

  holdings(attacher: ClusterAttacher): Fact<Holdings> {
    return this.#fact("holdings", () =>
      attacher.claim !== null && attacher.claim.ips.length > 0
        ? this.#readPublished(attacher, attacher.claim)
        : this.#readOwn(attacher),
    );
  }

  /** Of the allocations and of this node's journal: a restored etcd lacks what was attached since. */
  usersOf(claim: ClaimReading, others: readonly JournalAttachment[]): ClaimUser[] {
    const users = new Map<string, ClaimUser>();
    for (const one of others) {
      const { containerId, interface: name, pod, isLost } = one;
      const { node } = this.#parts.context;
      if (!isLost) users.set(attachmentKey(containerId, name), { containerId, interface: name, pod, node });
    }
    if (claim.ips.length === 0) return [...users.values()];
    for (const reading of this.#readings.values()) {
      for (const one of reading === null ? [] : attachmentsIn(reading.object))
        users.set(attachmentKey(one.containerID, one.interface), userOf(one));
    }
    return [...users.values()];
  }

  isUserGone({ containerId, interface: interfaceName }: ClaimUser, claim: ClaimReading): boolean {
    const row = this.#ledger.sql.attachmentsOfContainer
      .all(containerId, interfaceName)
      .find((one) => one.owner_uid === claim.uid);
    return row !== undefined && this.isGone(new JournalAttachment(row));
  }

  mayShare(user: ClaimUser, claim: ClaimReading): Fact<boolean> {
    const other = this.#other(user, claim);
    return other && other !== "in-use";
  }

  mayRunWithListed(user: ClaimUser, claim: ClaimReading): Fact<boolean> {
    if (this.#atAskedFor.has(attachmentKey(user.containerId, user.interface))) return false;
    const other = this.#other(user, claim);
    return other && other !== "gone";
  }

  #other(user: ClaimUser, claim: ClaimReading): Fact<OtherAttachment> {
    return this.#fact(`user ${user.containerId} ${user.interface}`, () =>
      this.#parts.claimAccess.other(claim, user, this.ask, this.#deadlineMs),
    );
  }

  /** Read when the free space has refused: see reconsider. */
  holderOf(): null {
    return null;
  }

  /** Read when the free space has refused: see reconsider. */
  mayReturn(): false {
    return false;
  }

  /** The witness ends them. */
  goneUsersOf(): [] {
    return [];
  }

  get #ledger() {
    return this.#parts.directory.ledger;
  }

  /** The fact with this name; if it is unknown, `settle` reads it next. */
  #fact<T>(name: string, read: () => Promise<T>): Fact<T> {
    if (this.#facts.has(name)) return this.#facts.get(name) as T;
    this.#missing = async () => {
      this.#facts.set(name, await read());
    };
    return undefined;
  }

  /** The addresses that the claim lists are its own, unless another owner already has them. */
  async #readPublished({ owner }: ClusterAttacher, claim: ClaimReading): Promise<Holdings> {
    const addresses = publishedBy(claim);
    if ("code" in addresses) return { held: [], taken: null, unreadable: addresses };
    const readings = await Promise.all(
      addresses.map(({ address }) => this.#parts.client.read(this.ask.network, address, this.#deadlineMs)),
    );
    const held: HeldAddress[] = [];
    const holder = toAllocationOwner(owner);
    for (const [index, one] of addresses.entries()) {
      const reading = readings[index] ?? null;
      this.renew(one.address, reading);
      const object = reading?.object;
      if (object && !sameAllocationOwner(object.spec.owner, holder) && !isReservedFor(object, holder))
        return { held: [], taken: { address: one.address, holder: describeHolding(object) } };
      // A listed address without an allocation was filled in from outside, as one marked as adopted was.
      const adopted = object === undefined || object.spec.adopted === true;
      // What was answered last; where the claim has no allocation of its own, what the network has now.
      const isOwn = object !== undefined && sameAllocationOwner(object.spec.owner, holder);
      const prefixLength = isOwn
        ? parseInterfaceAddress(object.spec.address).prefixLength
        : presentPrefixLength(this.definition, one);
      held.push({ ...one, prefixLength, state: "bound", adopted });
    }
    return { held: [...held, ...(await this.#readAskedFor(addresses, holder))], taken: null };
  }

  /** What is the claim's already: an ADD that would move the claim was cut short, or it moves back. */
  async #readAskedFor(listed: readonly InterfaceAddress[], holder: AllocationOwner): Promise<readonly HeldAddress[]> {
    const { requested, mac } = this.ask;
    const others = withReservation(requested, this.definition.reservations, mac).filter(
      (one) => !listed.some(({ address }) => sameAddress(address, one.address)),
    );
    const own = await Promise.all(
      others.map(async ({ address }): Promise<HeldAddress[]> => {
        const reading = await this.#parts.client.read(this.ask.network, address, this.#deadlineMs);
        if (reading === null || !sameAllocationOwner(reading.object.spec.owner, holder)) return [];
        this.renew(address, reading);
        for (const key of Object.keys(reading.object.status?.attachments ?? {})) this.#atAskedFor.add(key);
        const { prefixLength } = parseInterfaceAddress(reading.object.spec.address);
        return [{ address, prefixLength, state: "cooling", adopted: false }];
      }),
    );
    return own.flat();
  }

  async #readOwn(attacher: ClusterAttacher): Promise<Holdings> {
    const { continuity } = this.#parts;
    // A container of this node uses its pod's addresses; for any other owner the API server must have what it had.
    if (!isKnownHere(attacher)) {
      const refusal = await continuity.admit(this.ask.network, this.#deadlineMs);
      if (refusal !== null) throw new RefusalError(refusal);
    }
    this.#epoch = continuity.epoch;
    const { held, readings } = await findOwn(this.#parts, this.ask, attacher, this.#deadlineMs);
    for (const { address, reading } of readings) this.renew(address, reading);
    const retained = await findRetained(this.#parts, this.ask, attacher, this.#deadlineMs);
    return { held: [...held, ...retained.held], taken: null, unreleased: retained.unreleased };
  }
}

/** Whether the owner has an attachment on this node that has lost no address. */
export function isKnownHere({ superseded }: Pick<ClusterAttacher, "superseded">): boolean {
  return superseded.some(({ attachment }) => !attachment.isLost);
}

function userOf({ containerID, interface: interfaceName, pod, node }: AllocationAttachment): ClaimUser {
  return { containerId: containerID, interface: interfaceName, pod: pod ?? null, node };
}

function publishedBy({ namespace, name, ips }: ClaimReading): readonly InterfaceAddress[] | Refusal {
  const addresses: InterfaceAddress[] = [];
  for (const text of ips) {
    try {
      addresses.push(parseInterfaceAddress(text));
    } catch (error) {
      const remedy = `${(error as Error).message}; correct the claim's status`;
      const values = { key: `status.ips of claim ${namespace}/${name}`, value: String(text), remedy };
      return { ...refuse("REQUEST_INVALID", values), claimReason: "RequestedIPOutsideSubnet" };
    }
  }
  return addresses;
}
