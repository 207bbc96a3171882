import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Address, addressBytes, formatAddress } from "../../ipam/space/address.ts";
import type { InterfaceAddress } from "../../ipam/space/cidr.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import { type AllocationAttachment, attachmentKey, type IPAllocation } from "../../kube/objects.ts";
import { isoTime } from "../../platform/time.ts";
import type { Lease } from "../host-local/lease-files.ts";
import {
  isHeldBy,
  type LeaseStore,
  type LeaseVerdict,
  leaseHolderOf,
  type RecordedLease,
  unknownHolder,
} from "../host-local/lease-store.ts";
import {
  addressesOfRow,
  isInUse,
  isTakenOver,
  knownLease,
  ownerOfLease,
  placed,
  putLease,
  recordLeases,
  sortLeases,
} from "../journal/host-local.ts";
import { endRow } from "../journal/intents.ts";
import type { StateFolder } from "../journal/state-folder.ts";
import type { NodeContext } from "../node-context.ts";
import type { AllocationClient } from "./allocations/allocation-client.ts";
import type { Hint } from "./allocations/hint.ts";
import { hold, tooManyWriters } from "./allocations/hold.ts";
import { fromAllocationOwner, toAllocationOwner } from "./allocations/owners.ts";
import type { ClusterDefinitions } from "./allocations/views.ts";
import { isOnlyOwed } from "./outbox.ts";

/** Time for the reads and writes of one lease, ms. */
const ONE_MS_MAX = 10_000;

interface Parts {
  readonly folder: StateFolder;
  readonly client: AllocationClient;
  readonly hint: Hint;
  readonly context: NodeContext;
  readonly definitions: ClusterDefinitions;
  /** Releases are waiting to be sent to the API server. */
  owed(): void;
}

interface OwnVerdict {
  readonly verdict: LeaseVerdict;
  /** Recorded for the very container that the file names. */
  readonly own: boolean;
}

/**
 * host-local's leases of this node as IPAllocation objects. The journal is written first: every comparison creates in
 * the API what is missing there, so that a crash in between loses no container's address.
 */
export class KubernetesLeaseStore implements LeaseStore {
  readonly #parts: Parts;
  /** Leases whose objects this process has seen or created. */
  readonly #made = new Set<string>();
  /** Leases whose address another owner has, as last read: usually a pod. */
  readonly #others = new Map<string, LeaseVerdict>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  definitions(): readonly NetworkDefinition[] {
    const { definitions } = this.#parts;
    return definitions.networks().flatMap((network) => definitions.definitionOf(network)?.definition ?? []);
  }

  folders(): { network: string; folder: string }[] {
    return this.#parts.folder.ledger.leases.folders();
  }

  hasForgotten(network: string): boolean {
    const { ledger } = this.#parts.folder;
    const space = ledger.networks.get(network);
    if (space === undefined || this.folders().some((one) => one.network === network)) return false;
    return ledger.leases.hasTakenOver(space.id);
  }

  /** As far as this node knows: an address that a pod has may be released by the controller, which does not tell us. */
  mayBeFree(definition: NetworkDefinition, { address }: Lease): boolean {
    const space = this.#parts.hint.space(definition.name);
    const pools = space.poolsOf(definition, this.#parts.context.clock.monotonicMs());
    const pool = pools.find((one) => one.rangeSet.family === address.family && one.subnetOf(address.value));
    return pool !== undefined && pool.stateOf(address.value) !== "allocated";
  }

  isInUse(network: string, folder: string): boolean {
    return isInUse(this.#parts.folder.ledger, network, folder);
  }

  async remember(network: string, folder: string): Promise<void> {
    if (this.folders().some((one) => one.network === network && one.folder === folder)) return;
    await this.#parts.folder.write((ledger, transaction) =>
      ledger.leases.remember(ledger.networkOf(network, transaction).id, folder),
    );
  }

  async judge(definition: NetworkDefinition, lease: Lease): Promise<LeaseVerdict> {
    return (await this.#judge(definition, lease)).verdict;
  }

  async take(
    definition: NetworkDefinition,
    holder: LeaseHolder,
    leases: readonly Lease[],
  ): Promise<LeaseVerdict[]> {
    const verdicts = new Map<Lease, OwnVerdict>();
    for (const lease of leases) verdicts.set(lease, await this.#judge(definition, lease));
    const free = leases.filter((lease) => verdicts.get(lease)?.verdict.kind === "free");
    // Journaled by a process that ended before it created the object, or restored with the journal: tried once per
    // process.
    const own = leases.filter(
      (lease) => verdicts.get(lease)?.own && !this.#made.has(keyOf(definition, lease)),
    );
    const lost = new Map<Lease, LeaseVerdict>();
    if (free.length + own.length > 0) {
      const { ledger } = this.#parts.folder;
      const space = ledger.networks.get(definition.name);
      const former = space && ledger.sql.attachment.get(holder.containerId, holder.interface, space.id);
      if (former !== undefined && !isTakenOver(former)) {
        // The container has other addresses of ours: they win over the file.
        for (const lease of free)
          await this.#takeAll(definition, unknownHolder(lease.address), [lease], lost);
      } else await this.#takeAll(definition, holder, [...own, ...free], lost);
    }
    if (free.length > 0) this.#parts.owed();
    return leases.map((lease) => {
      const { verdict } = verdicts.get(lease) as OwnVerdict;
      return lost.get(lease) ?? (verdict.kind === "free" ? { kind: "taken" } : verdict);
    });
  }

  async settle(
    network: string,
    folder: string,
    present: ReadonlyMap<string, Lease>,
  ): Promise<RecordedLease[]> {
    const { ended, passesOver } = await this.#parts.folder.write((ledger) => {
      const space = ledger.networks.get(network);
      if (space === undefined) return { ended: [], passesOver: false };
      const sorted = sortLeases(ledger, space, folder, present);
      for (const row of sorted.gone) endRow(ledger, row, "DEL by host-local");
      for (const row of sorted.stale) ledger.leases.delete(row);
      return { ended: sorted.ended, passesOver: sorted.stale.some(({ path }) => present.has(path)) };
    });
    // The file names another container now: one write passes the address over (take), unless it is released before.
    if (!passesOver) this.#parts.owed();
    return ended;
  }

  async #judge(definition: NetworkDefinition, lease: Lease): Promise<OwnVerdict> {
    const { folder, client, context } = this.#parts;
    if (placeOf(definition.rangeSets, lease.address) === null) return foreign({ kind: "outside" });
    const holder = leaseHolderOf(lease);
    const known = knownLease(folder.ledger, definition.name, lease);
    if (known !== null) {
      const space = folder.ledger.networks.get(definition.name);
      const row = space && folder.ledger.leases.get(space.id, addressBytes(lease.address));
      return { verdict: known, own: known.kind === "recorded" && row?.container_id === holder.containerId };
    }
    const other = this.#others.get(keyOf(definition, lease));
    if (other !== undefined && !this.mayBeFree(definition, lease)) return foreign(other);
    const deadlineMs = context.clock.monotonicMs() + ONE_MS_MAX;
    const reading = await client.read(definition.name, lease.address, deadlineMs);
    if (reading?.object.status?.state !== "Bound") return foreign({ kind: "free" });
    return this.#relate(definition, lease, holder, reading.object);
  }

  /** The verdict about an address for a holder, given the object that binds it. */
  #relate(
    definition: NetworkDefinition,
    lease: Lease,
    holder: LeaseHolder,
    object: IPAllocation,
  ): OwnVerdict {
    const { hint } = this.#parts;
    const owner = fromAllocationOwner(object.spec.owner);
    hint.note(definition.name, lease.address, owner.uid, false, object.metadata.resourceVersion);
    if (this.#isOf(object, holder, lease)) return { verdict: { kind: "recorded" }, own: true };
    const attachments = attachmentsOf(object.status);
    const used = attachments.some(({ containerID }) => containerID === holder.containerId);
    if (used && !isUnknown(holder, lease)) return foreign({ kind: "recorded" });
    // At first the file named nobody: one write passes the address over, so that it is never free in between.
    if (attachments.length > 0 && this.#isOf(object, unknownHolder(lease.address), lease))
      return { verdict: { kind: "recorded" }, own: true };
    if (isOnlyOwed(this.#parts.folder.ledger, object, lease.address)) return foreign({ kind: "free" });
    const unattached = owner.kind === "pod" && attachments.length === 0;
    const byItsPod = unattached && (holder.interface === "" || holder.interface === owner.interface);
    const other = { kind: "other", holder: owner, ...(byItsPod ? { byItsPod } : {}) } as const;
    this.#others.set(keyOf(definition, lease), other);
    return foreign(other);
  }

  /** A file without a container stands for a container of this node; on another node it stands for another one. */
  #isOf({ spec, status }: IPAllocation, holder: LeaseHolder, lease: Lease): boolean {
    if (!isHeldBy(fromAllocationOwner(spec.owner), holder)) return false;
    return (
      !isUnknown(holder, lease) ||
      attachmentsOf(status).every(({ node }) => node === this.#parts.context.node)
    );
  }

  /**
   * Journal, then objects. An owner that was faster keeps the address: the journal drops it, and `lost` gets the
   * verdict.
   */
  async #takeAll(
    definition: NetworkDefinition,
    holder: LeaseHolder,
    leases: readonly Lease[],
    lost: Map<Lease, LeaseVerdict>,
  ): Promise<void> {
    const { context } = this.#parts;
    await this.#journal(definition, holder, leases);
    context.killPoint?.("after-intent");
    for (const lease of leases) {
      const verdict = await this.#create(definition, holder, lease);
      if (verdict === null) this.#made.add(keyOf(definition, lease));
      else lost.set(lease, verdict);
    }
    const others = leases.filter((lease) => lost.has(lease));
    if (others.length > 0) await this.#forget(definition, holder, others);
    context.killPoint?.("after-reserve");
  }

  async #journal(
    definition: NetworkDefinition,
    holder: LeaseHolder,
    leases: readonly Lease[],
  ): Promise<void> {
    await this.#parts.folder.write((ledger, transaction) => {
      const space = ledger.networkOf(definition.name, transaction);
      const former = ledger.sql.attachment.get(holder.containerId, holder.interface, space.id);
      const before = addressesOfRow(former);
      const addresses = new Map<string, InterfaceAddress>();
      for (const one of [...before, ...leases.map((lease) => placed(definition, lease))])
        addresses.set(formatAddress(one.address), one);
      for (const lease of leases) {
        const unnamed = unknownHolder(lease.address).containerId;
        const row =
          unnamed === holder.containerId ? undefined : ledger.sql.attachment.get(unnamed, "", space.id);
        if (row !== undefined) endRow(ledger, row, "used again", textsOf([lease]));
        putLease(ledger, space, holder, lease);
      }
      if (former !== undefined && before.length === addresses.size) return;
      if (former !== undefined) endRow(ledger, former, "used again", textsOf(before));
      recordLeases(ledger, space, definition, holder, [...addresses.values()]);
    });
  }

  /**
   * Drops leases whose addresses could not be had. Their rows go as well: a row without an attachment means that its
   * container has ended, and the file would be removed. Nothing is released, because nothing was ours.
   */
  async #forget(definition: NetworkDefinition, holder: LeaseHolder, lost: readonly Lease[]): Promise<void> {
    await this.#parts.folder.write((ledger, transaction) => {
      const space = ledger.networkOf(definition.name, transaction);
      for (const { address, path, fileId } of lost) {
        const row = ledger.leases.get(space.id, addressBytes(address));
        if (row?.path === path && row.file_id === fileId) ledger.leases.delete(row);
      }
      const former = ledger.sql.attachment.get(holder.containerId, holder.interface, space.id);
      // A DEL or an ADD of the container may have come meanwhile.
      if (former === undefined || !isTakenOver(former)) return;
      const before = addressesOfRow(former);
      const without = textsOf(lost);
      const kept = before.filter(({ address }) => !without.has(formatAddress(address)));
      if (kept.length === before.length) return;
      endRow(ledger, former, "used again", textsOf(before));
      if (kept.length > 0) recordLeases(ledger, space, definition, holder, kept);
    });
  }

  /** null: the address is the container's now; else the verdict. Throws ApiAway and RefusalError. */
  async #create(
    definition: NetworkDefinition,
    holder: LeaseHolder,
    lease: Lease,
  ): Promise<LeaseVerdict | null> {
    const { client, context, hint } = this.#parts;
    const one = placed(definition, lease);
    const { containerId, interface: interfaceName } = holder;
    const { node, clock } = context;
    const since = isoTime(clock.wallMs());
    const attachment = { containerID: containerId, interface: interfaceName, node, since };
    const outcome = await hold<LeaseVerdict | "made">(client, {
      network: definition.name,
      one,
      holder: { owner: toAllocationOwner(ownerOfLease(holder)), attachment },
      deadlineMs: clock.monotonicMs() + ONE_MS_MAX,
      whyNot: (reading) => {
        const object = reading?.object;
        if (object?.status?.state !== "Bound") return null;
        const { verdict, own } = this.#relate(definition, lease, holder, object);
        if (!own && verdict.kind !== "free") return verdict;
        const isMade = attachmentKey(containerId, interfaceName) in (object.status.attachments ?? {});
        return own && isMade ? "made" : null;
      },
      relationOf: (object) => (this.#isOf(object, holder, lease) ? "own" : "passes-over"),
    });
    if (outcome.kind === "left") return outcome.why === "made" ? null : outcome.why;
    if (outcome.kind !== "held") throw tooManyWriters(definition.name, one.address);
    hint.note(definition.name, one.address, containerId, false, outcome.object.metadata.resourceVersion);
    return null;
  }
}

function isUnknown(holder: LeaseHolder, { address }: Lease): boolean {
  return holder.containerId === unknownHolder(address).containerId;
}

function attachmentsOf(status: IPAllocation["status"]): AllocationAttachment[] {
  return Object.values(status?.attachments ?? {});
}

/** A verdict with nothing to record on this node. */
function foreign(verdict: LeaseVerdict): OwnVerdict {
  return { verdict, own: false };
}

function textsOf(some: readonly { readonly address: Address }[]): Set<string> {
  return new Set(some.map(({ address }) => formatAddress(address)));
}

function keyOf({ name }: NetworkDefinition, { path, fileId }: Lease): string {
  return `${name} ${path} ${fileId}`;
}
