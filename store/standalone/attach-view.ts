import type { NetworkSpace } from "../../allocations/network-space.ts";
import type { AttachAsk, Attacher, AttachView, ClaimUser, Holdings, KnownClaim } from "../../ipam/attach-view.ts";
import type { HeldAddress } from "../../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { describeOwner, OWNER_KINDS, type Owner, sameOwner } from "../../ipam/owner.ts";
import { type Address, addressBytes } from "../../ipam/space/address.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { CERTAIN_ENDS } from "../allocations.ts";
import type { Transaction } from "../journal/group-commit.ts";
import { allocationsOf, attachmentsOf } from "../journal/holdings.ts";
import { JournalAttachment } from "../journal/journal-attachment.ts";
import type { Ledger } from "../journal/ledger.ts";
import { type AllocationRow, type ClaimRow, describeHolding, interfaceAddressOf, ownerOf } from "../journal/rows.ts";
import { isOvertaken } from "../journal/uses.ts";

export class StoredClaim implements KnownClaim {
  readonly row: ClaimRow;
  readonly ips: readonly string[];

  constructor(row: ClaimRow) {
    this.row = row;
    this.ips = JSON.parse(row.ips) as string[];
  }

  get namespace(): string {
    return this.row.namespace;
  }

  get name(): string {
    return this.row.name;
  }

  get uid(): string {
    return this.row.uid;
  }

  get network(): string {
    return this.row.network;
  }

  get isClosed(): boolean {
    return this.row.deleted_ms !== null;
  }

  get ipRequests(): readonly string[] {
    const { spec } = JSON.parse(this.row.manifest) as { spec: { ipRequests?: string[] } };
    return spec.ipRequests ?? [];
  }
}

/** The view of an ADD inside one transaction: every fact is available, and nothing else happens meanwhile. */
export class StandaloneView implements AttachView<JournalAttachment, StoredClaim> {
  readonly mayRenew = true;
  readonly ask: AttachAsk;
  readonly definition: NetworkDefinition;
  readonly nowMs: number;
  readonly former: JournalAttachment | null;
  readonly #ledger: Ledger;
  readonly #transaction: Transaction;
  readonly #space: NetworkSpace;

  constructor(
    ledger: Ledger,
    transaction: Transaction,
    asked: { readonly ask: AttachAsk; readonly definition: NetworkDefinition; readonly space: NetworkSpace },
  ) {
    this.ask = asked.ask;
    this.definition = asked.definition;
    this.nowMs = ledger.context.clock.monotonicMs();
    this.#ledger = ledger;
    this.#transaction = transaction;
    this.#space = asked.space;
    const { containerId, interface: interfaceName } = asked.ask;
    const former = ledger.sql.attachment.get(containerId, interfaceName, asked.space.id);
    this.former = former === undefined ? null : new JournalAttachment(former);
  }

  get bootId(): string {
    return this.#ledger.context.bootId;
  }

  get hasLaterDel(): boolean {
    return isOvertaken(this.#ledger, this.ask);
  }

  get pools(): readonly Pool[] {
    const pools = this.#ledger.poolsOf(this.#space, this.definition, this.#transaction);
    for (const pool of pools) pool.expire(this.nowMs);
    return pools;
  }

  claim(): StoredClaim | null {
    if (this.ask.claim === null) return null;
    const row = this.#ledger.sql.claim.get(this.ask.claim.namespace, this.ask.claim.name);
    return row === undefined ? null : new StoredClaim(row);
  }

  /** Any container of this node may use any claim of this node. */
  whyNot(): null {
    return null;
  }

  /** Nothing here runs VMs; a claim is moved by whoever applies it (docs/decisions/0093). */
  mayFollow(): boolean {
    return false;
  }

  /** Nor does anything here ask for a VM's addresses: a claim keeps what it has (docs/decisions/0093). */
  mayMove(): boolean {
    return false;
  }

  has(claim: StoredClaim): boolean {
    return claim.ips.length > 0;
  }

  attachmentsOf(owner: Owner): JournalAttachment[] {
    // A container holds only what its former attachment has.
    if (OWNER_KINDS[owner.kind].isContainer) return [];
    return attachmentsOf(this.#ledger, owner)
      .filter((row) => row.network_id === this.#space.id)
      .map((row) => new JournalAttachment(row));
  }

  isGone({ netns }: JournalAttachment): boolean {
    return this.#ledger.context.namespaceGone(netns);
  }

  gatewayHolder(gateway: Address): string | null {
    const row = this.#allocation(gateway);
    return row?.state === "Bound" ? describeOwner(ownerOf(row)) : null;
  }

  /** A pod or container holds what the replaced attachments were answered, and its cooling addresses. */
  holdings({ owner, superseded }: Attacher<JournalAttachment, StoredClaim>): Holdings {
    const { sql } = this.#ledger;
    const rows =
      owner.kind === "claim"
        ? [
            ...sql.allocationsOfClaim.all(owner.uid, this.#space.id),
            ...sql.retainedOfName.all(owner.namespace, owner.name, this.#space.id),
          ]
        : [
            ...superseded.flatMap(({ attachment: { row } }) =>
              sameOwner(ownerOf(row), owner) ? allocationsOf(this.#ledger, row) : [],
            ),
            ...sql.coolingOfOwner.all(owner.uid, owner.interface, this.#space.id, owner.kind),
          ];
    return { held: rows.map(heldOf) };
  }

  usersOf(others: readonly JournalAttachment[]): ClaimUser[] {
    return others.map(({ containerId, interface: interfaceName, pod }) => ({
      containerId,
      interface: interfaceName,
      pod,
      node: null,
    }));
  }

  /** Attachments that are gone have been replaced already. */
  isUserGone(): false {
    return false;
  }

  /** Without Kubernetes it is not known that two pods belong to one VM. */
  mayShare(): false {
    return false;
  }

  holderOf(address: Address): string | null {
    const row = this.#allocation(address);
    return row === undefined ? null : describeHolding(row);
  }

  /** The history tells how the last holder ended. */
  mayReturn(address: Address, owner: Owner): boolean {
    const row = this.#allocation(address);
    if (row?.state !== "Cooling" || row.owner_namespace !== owner.namespace) return false;
    const reason = this.#ledger.sql.lastEnd.get(addressBytes(address), this.#space.id)?.ended_by;
    return reason !== undefined && CERTAIN_ENDS.has(reason);
  }

  goneUsersOf(address: Address, owner: Owner): JournalAttachment[] {
    const row = this.#allocation(address);
    if (row?.state !== "Bound" || row.owner_namespace !== owner.namespace) return [];
    const holder = ownerOf(row);
    if (OWNER_KINDS[holder.kind].outlivesAttachments) return [];
    const users = attachmentsOf(this.#ledger, holder)
      .filter((one) => one.network_id === this.#space.id)
      .map((one) => new JournalAttachment(one));
    return users.every((one) => this.isGone(one)) ? users : [];
  }

  #allocation(address: Address): AllocationRow | undefined {
    return this.#ledger.sql.allocation.get(this.#space.id, addressBytes(address));
  }
}

export function heldOf(row: AllocationRow): HeldAddress {
  const state = row.state === "Bound" ? "bound" : "cooling";
  return { ...interfaceAddressOf(row), state, adopted: row.adopted === 1 };
}
