import { type Address, type Family, formatAddress, parseAddress } from "../ipam/space/address.ts";
import { IntervalSet } from "../ipam/space/interval-set.ts";
import { RunIndex } from "../ipam/space/run-index.ts";
import type { UsedSpace } from "../ipam/space/used-space.ts";
import type { AllocationOwner, IPAllocation } from "../kube/objects.ts";

type Sets = Readonly<Record<Family, RunIndex>>;

interface Holding {
  readonly address: Address;
  readonly owner: AllocationOwner;
  readonly isCooling: boolean;
}

interface Space {
  readonly used: Sets;
  readonly retained: Sets;
  /** By name of the object; `version` of the write that began its cool-down. */
  readonly cooling: Map<string, { readonly address: Address; readonly version: number }>;
  /** Names of allocations of claims that nothing is attached to: of stopped VMs. */
  readonly idle: Set<string>;
  /** By name of the object: what claims have that did not list it when it was seen, and what cools down of claims. */
  readonly ofClaims: Map<string, Holding>;
  revision: number;
}

/** Whether a claim lists an address. */
export type ClaimList = "listed" | "unlisted" | "gone" | "unknown";

/** Which addresses of each network are taken, kept up to date with every allocation that is followed. */
export class UsedSpaces {
  readonly #spaces = new Map<string, Space>();
  readonly #listOf: (claim: AllocationOwner, address: Address) => ClaimList;
  #newest = 0n;

  constructor(listOf: (claim: AllocationOwner, address: Address) => ClaimList = () => "listed") {
    this.#listOf = listOf;
  }

  /** The newest version of an allocation that is taken into account. */
  get version(): bigint {
    return this.#newest;
  }

  /** The watch has come to a version. */
  noteVersion(resourceVersion: string): void {
    if (!/^\d+$/.test(resourceVersion)) return;
    const version = BigInt(resourceVersion);
    if (version > this.#newest) this.#newest = version;
  }

  /** An allocation was added or changed; `address` as soundAddress says. */
  upsert(object: IPAllocation, address: string | null): void {
    this.noteVersion(object.metadata.resourceVersion);
    if (address === null) return;
    this.#put(object, parseAddress(address), object.status?.state);
  }

  gone(object: IPAllocation, address: string | null): void {
    if (address !== null) this.#put(object, parseAddress(address), undefined);
  }

  /** Changes with every change of the network's allocations; 0: there have been none. */
  revisionOf(network: string): number {
    return this.#spaces.get(network)?.revision ?? 0;
  }

  /** Allocated addresses of claims without attachments. */
  idleCount(network: string): number {
    return this.#spaces.get(network)?.idle.size ?? 0;
  }

  of(network: string): UsedSpace {
    const space = this.#spaces.get(network);
    const cooling = [...(space?.cooling.values() ?? [])].sort((a, b) => a.version - b.version);
    return {
      used: setsOf(space?.used),
      retained: setsOf(space?.retained),
      cooling: cooling.map(({ address }) => address),
    };
  }

  /**
   * UIDs of claims by addresses that they have and do not list: an ADD that was cut short reserved it, or is about to
   * publish it, their list was written over, or they have left the network and may come back.
   */
  unlisted(network: string): Map<string, string> {
    const found = new Map<string, string>();
    const { ofClaims } = this.#spaces.get(network) ?? {};
    for (const [name, { address, owner, isCooling }] of ofClaims ?? []) {
      const list = this.#listOf(owner, address);
      if (list === "unlisted") found.set(formatAddress(address), owner.uid);
      else if (list === "gone" || (list === "listed" && !isCooling)) ofClaims?.delete(name);
    }
    return found;
  }

  #put(object: IPAllocation, address: Address, state: string | undefined): void {
    const { metadata, spec, status } = object;
    const space = this.#spaceOf(spec.network);
    const { family, value } = address;
    space.revision += 1;
    const isHeld = state !== undefined && state !== "Cooling";
    if (isHeld) space.used[family].give(value);
    else space.used[family].take(value);
    if (state === "Retained") space.retained[family].give(value);
    else space.retained[family].take(value);
    if (state === "Cooling") space.cooling.set(metadata.name, { address, version: Number(metadata.resourceVersion) });
    else space.cooling.delete(metadata.name);
    const ofClaim = spec.owner.kind === "IPAMClaim";
    const isUsed = Object.keys(status?.attachments ?? {}).length > 0;
    if (ofClaim && state === "Bound" && !isUsed) space.idle.add(metadata.name);
    else space.idle.delete(metadata.name);
    const isCooling = state === "Cooling";
    if (ofClaim && (isCooling || (state === "Bound" && this.#listOf(spec.owner, address) !== "listed")))
      space.ofClaims.set(metadata.name, { address, owner: spec.owner, isCooling });
    else space.ofClaims.delete(metadata.name);
  }

  #spaceOf(network: string): Space {
    const known = this.#spaces.get(network);
    if (known !== undefined) return known;
    const empty = () => ({ 4: new RunIndex(IntervalSet.EMPTY), 6: new RunIndex(IntervalSet.EMPTY) });
    const space: Space = {
      used: empty(),
      retained: empty(),
      cooling: new Map(),
      idle: new Set(),
      ofClaims: new Map(),
      revision: 0,
    };
    this.#spaces.set(network, space);
    return space;
  }
}

function setsOf(sets: Sets | undefined): UsedSpace["used"] {
  const setOf = (family: Family) =>
    sets === undefined ? IntervalSet.EMPTY : IntervalSet.from(sets[family].intervals());
  return { 4: setOf(4), 6: setOf(6) };
}
