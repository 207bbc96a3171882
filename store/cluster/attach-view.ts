import type { AllocationReading } from "../../allocations/allocation-client.ts";
import { poolOf } from "../../allocations/network-space.ts";
import { describeHolder } from "../../allocations/owners.ts";
import type { AttachView, ClaimUser, Fact, Holdings } from "../../ipam/attach-view.ts";
import { otherUsers } from "../../ipam/claim-users.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { OWNER_KINDS, type Owner, ownerOfClaim } from "../../ipam/owner.ts";
import { type Refusal, RefusalError } from "../../ipam/refusals.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { type AllocationAttachment, attachmentKey, attachmentsIn } from "../../kube/objects.ts";
import type { AttachWant } from "../allocations.ts";
import { attachmentsOf } from "../journal/holdings.ts";
import { JournalAttachment } from "../journal/journal-attachment.ts";
import { isOvertaken } from "../journal/uses.ts";
import { containerOf } from "./agreement/facts.ts";
import type { AttachParts, ClusterAttacher } from "./parts/attach-parts.ts";
import type { ClaimReading, OtherAttachment } from "./parts/claim-access.ts";
import { findClaimed, hasClaimed } from "./parts/find-claimed.ts";
import { findOwn } from "./parts/find-own.ts";

/** This node's journal as it is now, and what one round of an ADD has asked of the API, each object read once. */
export class ClusterView implements AttachView<JournalAttachment, ClaimReading> {
  /** Nobody but the controller changes what a claim lists (deploy/admission). */
  readonly mayRenew = false;
  readonly ask: AttachWant;
  readonly #parts: AttachParts;
  /** An instant of the clock, ms. */
  readonly deadlineMs: number;
  readonly #facts = new Map<string, unknown>();
  readonly #readings = new Map<string, AllocationReading | null>();
  #missing: (() => Promise<void>) | null = null;
  /** null: nobody was admitted yet. */
  #epoch: number | null = null;
  #version = 0;

  constructor(parts: AttachParts, ask: AttachWant, deadlineMs: number) {
    this.ask = ask;
    this.#parts = parts;
    this.deadlineMs = deadlineMs;
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

  /**
   * A container of this node uses its pod's addresses; for any other owner, and for anything new, the API server must
   * have what it had. Returns the epoch in which the owner was admitted first. Throws ApiAway, RefusalError.
   */
  async admit({ superseded }: Pick<ClusterAttacher, "superseded">, isNew = false): Promise<number> {
    const { continuity } = this.#parts;
    if (this.#epoch !== null) return this.#epoch;
    const isKnownHere = superseded.some(({ attachment }) => !attachment.isLost);
    if (isKnownHere && !isNew) return continuity.epoch;
    const refusal = await continuity.admit(this.ask.network, this.deadlineMs);
    if (refusal !== null) throw new RefusalError(refusal);
    this.#epoch = continuity.epoch;
    return this.#epoch;
  }

  /** Whether a claim has addresses: by its list as long as nothing else was read. */
  hasAny({ ips }: ClaimReading): boolean {
    return this.#facts.has("holdings") ? this.#readings.size > 0 : ips.length > 0;
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
    return this.#fact("claim", () => this.#parts.claimAccess.read(claim, this.deadlineMs));
  }

  whyNot(claim: ClaimReading): Fact<Refusal | null> {
    return this.#fact("permission", () => this.#parts.claimAccess.whyNot(claim, this.ask, this.deadlineMs));
  }

  mayFollow(claim: ClaimReading): Fact<boolean> {
    const { pod, interface: interfaceName } = this.ask;
    // Two interfaces of one pod would take the claim from each other.
    const usesItElsewhere = attachmentsOf(this.#ledger, ownerOfClaim(claim))
      .map((row) => new JournalAttachment(row))
      .some((one) => one.pod !== null && one.pod.uid === pod?.uid && one.interface !== interfaceName);
    if (usesItElsewhere) return false;
    return this.#fact("follows", () => this.#parts.claimAccess.mayFollow(claim, this.ask, this.deadlineMs));
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
      const reading = await this.#parts.client.read(network, gateway, this.deadlineMs);
      if (reading?.object.status?.state !== "Bound") return null;
      return describeHolder(reading.object.spec.owner);
    });
  }

  holdings(attacher: ClusterAttacher): Fact<Holdings> {
    const { claim } = attacher;
    return this.#fact("holdings", () =>
      claim === null ? this.#readOwn(attacher) : findClaimed(this.#parts, this, { ...attacher, claim }),
    );
  }

  has(claim: ClaimReading): Fact<boolean> {
    const attacher = { owner: ownerOfClaim(claim), claim, superseded: [], warnings: [] };
    return this.#fact("has", () => hasClaimed(this.#parts, this, attacher));
  }

  /** Of the allocations and of this node's journal: a restored etcd lacks what was attached since. */
  usersOf(others: readonly JournalAttachment[]): ClaimUser[] {
    const users = new Map<string, ClaimUser>();
    for (const one of others) {
      const { containerId, interface: name, pod, isLost } = one;
      const { node } = this.#parts.context;
      if (!isLost) users.set(attachmentKey(containerId, name), { containerId, interface: name, pod, node });
    }
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

  #other(user: ClaimUser, claim: ClaimReading): Fact<OtherAttachment> {
    return this.#fact(`user ${user.containerId} ${user.interface}`, () => this.#readOther(user, claim));
  }

  #readOther(user: ClaimUser, claim: ClaimReading): Promise<OtherAttachment> {
    return this.#parts.claimAccess.other(claim, user, this.ask, this.deadlineMs);
  }

  /** As a decision asks for it, and read at once. */
  async otherOf(user: ClaimUser, claim: ClaimReading): Promise<OtherAttachment> {
    const key = `user ${user.containerId} ${user.interface}`;
    const known = this.#facts.get(key) as OtherAttachment | undefined;
    if (known !== undefined) return known;
    const other = await this.#readOther(user, claim);
    this.#facts.set(key, other);
    return other;
  }

  /** Other users of a claim, as far as its allocations were read. */
  otherUsers({ owner, claim, superseded }: ClusterAttacher & { readonly claim: ClaimReading }): readonly ClaimUser[] {
    return otherUsers(this, { superseded }, claim, this.attachmentsOf(owner)) ?? [];
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

  async #readOwn(attacher: ClusterAttacher): Promise<Holdings> {
    await this.admit(attacher);
    const { held, readings } = await findOwn(this.#parts, this.ask, attacher, this.deadlineMs);
    for (const { address, reading } of readings) this.renew(address, reading);
    return { held };
  }
}

function userOf({ containerID, interface: interfaceName, pod, node }: AllocationAttachment): ClaimUser {
  return { containerId: containerID, interface: interfaceName, pod: pod ?? null, node };
}
