import { formatAddress } from "../../ipam/address.ts";
import type { InterfaceAddress } from "../../ipam/cidr.ts";
import type { LeaseHolder } from "../../ipam/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/network-definition.ts";
import { placeOf } from "../../ipam/range-set.ts";
import {
  isHeldBy,
  type LeaseBook,
  type LeaseVerdict,
  type RecordedLease,
  unknownHolder,
} from "../host-local/lease-book.ts";
import type { Lease } from "../host-local/lease-files.ts";
import { killPoint } from "../kill-point.ts";
import type { NodeContext } from "../node-context.ts";
import type { Owner } from "../owner.ts";
import {
  addressesOfRow,
  isInUse,
  isTakenOver,
  knownLease,
  placed,
  putLease,
  recordLeases,
  sortLeases,
} from "../sqlite/host-local.ts";
import { timeText } from "../sqlite/rows.ts";
import type { StateFolder } from "../sqlite/state-folder.ts";
import type { AllocationClient } from "./allocation-client.ts";
import { newAllocation, takenOver, withAttachment } from "./allocation-object.ts";
import type { Hint } from "./hint.ts";
import { endRow } from "./journal.ts";
import { ApiAway } from "./kube-api.ts";
import { attachmentKey } from "./objects.ts";
import { fromAllocationOwner, toAllocationOwner } from "./owners.ts";
import type { ClusterDefinitions } from "./views.ts";

/** One lease's reads and writes, ms. */
const ONE_MS_MAX = 10_000;
/** Others that write the same objects at once: the daemons of nodes that gave the same address before, so few. */
const ATTEMPTS_MAX = 10;

interface Parts {
  readonly folder: StateFolder;
  readonly client: AllocationClient;
  readonly hint: Hint;
  readonly context: NodeContext;
  readonly definitions: ClusterDefinitions;
  /** Something is owed to the API server. */
  owed(): void;
}

/**
 * host-local's leases of this node as IPAllocation objects. The journal comes first: what it has and the API server has not
 * is made good by every comparison of the two, so that a crash in between loses no container's address.
 */
export class KubernetesLeaseBook implements LeaseBook {
  readonly #parts: Parts;
  /** Leases whose objects this process has seen or made. */
  readonly #made = new Set<string>();
  /** Who has the address of a lease instead, as it was last read: a pod, as a rule. */
  readonly #others = new Map<string, Owner>();

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

  /** As far as this node knows: who has the address as a pod loses it by the controller, of which nobody tells us. */
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
    const { folder, client, hint } = this.#parts;
    if (placeOf(definition.rangeSets, lease.address) === null) return { kind: "outside" };
    const known = knownLease(folder.ledger, definition.name, lease);
    if (known !== null) return known;
    const key = keyOf(definition, lease);
    const other = this.#others.get(key);
    if (other !== undefined && !this.mayBeFree(definition, lease)) return { kind: "other", holder: other };
    const deadlineMs = performance.now() + ONE_MS_MAX;
    const reading = await client.read(definition.name, lease.address, deadlineMs);
    if (reading?.object.status?.state !== "Bound") return { kind: "free" };
    const { object } = reading;
    const owner = fromAllocationOwner(object.spec.owner);
    hint.note(definition.name, lease.address, owner.uid, false, object.metadata.resourceVersion);
    const holder = lease.holder ?? unknownHolder(lease.address);
    const attachments = Object.values(object.status?.attachments ?? {});
    const used = attachments.some(({ containerID }) => containerID === holder.containerId);
    const own = isHeldBy(owner, holder) || isHeldBy(owner, unknownHolder(lease.address));
    if (own || used) return { kind: "recorded" };
    this.#others.set(key, owner);
    return { kind: "other", holder: owner };
  }

  async take(
    definition: NetworkDefinition,
    holder: LeaseHolder,
    leases: readonly Lease[],
  ): Promise<LeaseVerdict[]> {
    const verdicts: LeaseVerdict[] = [];
    for (const lease of leases) verdicts.push(await this.judge(definition, lease));
    const free = leases.filter((_, at) => verdicts[at]?.kind === "free");
    // Journaled by a process that was killed before it made the object: looked at once by each process.
    const own = leases.filter(
      (lease, at) => verdicts[at]?.kind === "recorded" && !this.#made.has(keyOf(definition, lease)),
    );
    if (free.length + own.length === 0) return verdicts;
    const { ledger } = this.#parts.folder;
    const space = ledger.networks.get(definition.name);
    const former = space && ledger.sql.attachment.get(holder.containerId, holder.interface, space.id);
    const strangers = former !== undefined && !isTakenOver(former);
    if (strangers) {
      // The container has other addresses of ours: whoever has this one, the file knows more than we.
      for (const lease of free) await this.#takeAll(definition, unknownHolder(lease.address), [lease]);
    } else await this.#takeAll(definition, holder, [...own, ...free]);
    return verdicts.map((verdict) => (verdict.kind === "free" ? { kind: "taken" } : verdict));
  }

  async settle(
    network: string,
    folder: string,
    present: ReadonlyMap<string, string>,
  ): Promise<RecordedLease[]> {
    const ended = await this.#parts.folder.write((ledger) => {
      const space = ledger.networks.get(network);
      if (space === undefined) return [];
      const sorted = sortLeases(ledger, space, folder, present);
      for (const row of sorted.gone) endRow(ledger, row, "DEL by host-local");
      for (const row of sorted.stale) ledger.leases.delete(row);
      return sorted.ended;
    });
    this.#parts.owed();
    return ended;
  }

  /** Journal, then objects. Somebody who was faster keeps the address, and the journal forgets it. */
  async #takeAll(
    definition: NetworkDefinition,
    holder: LeaseHolder,
    leases: readonly Lease[],
  ): Promise<void> {
    await this.#journal(definition, holder, leases);
    killPoint("after-intent");
    for (const lease of leases) {
      if (await this.#create(definition, holder, lease)) {
        this.#made.add(keyOf(definition, lease));
        continue;
      }
      await this.#journal(
        definition,
        holder,
        leases.filter((one) => one !== lease),
        [lease],
      );
    }
    killPoint("after-reserve");
  }

  async #journal(
    definition: NetworkDefinition,
    holder: LeaseHolder,
    leases: readonly Lease[],
    lost: readonly Lease[] = [],
  ): Promise<void> {
    await this.#parts.folder.write((ledger, transaction) => {
      const space = ledger.networkOf(definition.name, transaction);
      const former = ledger.sql.attachment.get(holder.containerId, holder.interface, space.id);
      const without = new Set(lost.map(({ address }) => formatAddress(address)));
      const addresses = new Map<string, InterfaceAddress>();
      for (const one of [...addressesOfRow(former), ...leases.map((lease) => placed(definition, lease))]) {
        const text = formatAddress(one.address);
        if (!without.has(text)) addresses.set(text, one);
      }
      for (const lease of leases) putLease(ledger, space, holder, lease);
      if (former !== undefined && without.size === 0 && addressesOfRow(former).length === addresses.size)
        return;
      if (former !== undefined) {
        const kept = new Set(addressesOfRow(former).map(({ address }) => formatAddress(address)));
        endRow(ledger, former, "used again", kept);
      }
      if (addresses.size > 0) recordLeases(ledger, space, definition, holder, [...addresses.values()]);
    });
  }

  /** Whether the address is the container's now. Throws ApiAway and RefusalError. */
  async #create(definition: NetworkDefinition, holder: LeaseHolder, lease: Lease): Promise<boolean> {
    const { client, context, hint } = this.#parts;
    const one = placed(definition, lease);
    const { containerId, interface: interfaceName } = holder;
    const deadlineMs = performance.now() + ONE_MS_MAX;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const time = timeText(context.clock.wallMs());
      const owner = {
        kind: "container",
        uid: containerId,
        interface: interfaceName,
        namespace: "",
        name: "",
      } as const;
      const attachment = {
        containerID: containerId,
        interface: interfaceName,
        node: context.node,
        since: time,
      };
      const wanted = { owner: toAllocationOwner(owner), attachment };
      const reading = await client.read(definition.name, one.address, deadlineMs);
      const object = reading?.object;
      if (object?.status?.state === "Bound") {
        if (!isHeldBy(fromAllocationOwner(object.spec.owner), holder)) return false;
        if (attachmentKey(containerId, interfaceName) in (object.status.attachments ?? {})) return true;
      }
      const written =
        object === undefined
          ? await client.create(newAllocation(definition.name, one, wanted, time), deadlineMs)
          : await client.replace(
              object.status?.state === "Bound"
                ? withAttachment(object, attachment)
                : takenOver(object, one, wanted, time),
              deadlineMs,
            );
      if (written.kind === "changed") continue;
      const { resourceVersion } = written.object.metadata;
      hint.note(definition.name, one.address, containerId, false, resourceVersion);
      return true;
    }
    throw new ApiAway(`others kept writing ${formatAddress(one.address)} of network ${definition.name}`);
  }
}

function keyOf({ name }: NetworkDefinition, { path, fileId }: Lease): string {
  return `${name} ${path} ${fileId}`;
}
