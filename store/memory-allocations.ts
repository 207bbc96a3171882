import { type Address, compareAddresses, formatAddress, sameAddress } from "../ipam/address.ts";
import {
  cidrContains,
  formatInterfaceAddress,
  type InterfaceAddress,
  parseInterfaceAddress,
} from "../ipam/cidr.ts";
import { decideAdd } from "../ipam/decide-add.ts";
import type { NetworkDefinition } from "../ipam/network-definition.ts";
import type { Pool } from "../ipam/pool.ts";
import { type Refusal, refuse } from "../ipam/refusals.ts";
import type {
  AllocationFilter,
  Allocations,
  AttachOutcome,
  AttachWant,
  DetachOutcome,
  DetachWant,
  PageRequest,
} from "./allocations.ts";
import type { Clock } from "./clock.ts";
import { NetworkSpace } from "./network-space.ts";
import { describeOwner, type Owner, sameOwner } from "./owner.ts";
import type { AllocationView, AnsweredAddress, Attachment, NamespaceIdentity, Page } from "./records.ts";
import { isBefore, type Stamp } from "./stamp.ts";

interface Held extends InterfaceAddress {
  readonly network: string;
  owner: Owner;
  state: "Bound" | "Cooling";
}

interface MemoryClaim {
  readonly owner: Owner;
  readonly network: string;
  deleted: boolean;
}

/** What the fake needs to know of its node; the same as the real store's. */
export interface MemoryContext {
  readonly clock: Clock;
  readonly node: string;
  readonly bootId: string;
  namespaceGone(netns: NamespaceIdentity): boolean;
}

/**
 * `Allocations` in plain arrays, searched from end to end: the model that the real stores are compared with, and a fake for
 * tests of what lies above. It forgets everything when the process ends.
 */
export class MemoryAllocations implements Allocations {
  readonly #context: MemoryContext;
  readonly #spaces = new Map<string, NetworkSpace>();
  readonly #claims: MemoryClaim[] = [];
  readonly #tombstones: { containerId: string; interface: string; network: string | null; stamp: Stamp }[] =
    [];
  #held: Held[] = [];
  #attachments: Attachment[] = [];
  #lastId = 0;

  constructor(context: MemoryContext) {
    this.#context = context;
  }

  createClaim(namespace: string, name: string, uid: string, network: string): void {
    this.#claims.push({
      owner: { kind: "claim", uid, interface: "", namespace, name },
      network,
      deleted: false,
    });
  }

  deleteClaim(namespace: string, name: string): void {
    const claim = this.#findClaim(namespace, name);
    if (!claim) return;
    claim.deleted = true;
    this.#forgetUnused(claim.owner);
  }

  async attach(want: AttachWant): Promise<AttachOutcome> {
    const space = this.#spaceOf(want);
    const { containerId, interface: interfaceName } = want;
    const later = this.#tombstones.find(
      (one) =>
        isSameInterface(one, want) &&
        (one.network ?? want.network) === want.network &&
        this.#isBefore(want, one),
    );
    if (later)
      return refused(refuse("SUPERSEDED", { containerId, interface: interfaceName, later: "a later DEL" }));
    const former = this.#attachments.find(
      (one) => isSameInterface(one, want) && one.network === want.network,
    );
    const claimRef = want.claim === null ? "" : `${want.claim.namespace}/${want.claim.name}`;
    if (former && former.claimRef === claimRef && former.pod?.uid === want.pod?.uid)
      return this.#repeat(former, want);
    const owner = this.#ownerOf(want);
    if ("code" in owner) return refused(owner);
    const older = this.#attachments.filter(
      (one) => one !== former && one.network === want.network && sameOwner(one.owner, owner),
    );
    for (const one of older) {
      const samePod = want.pod !== null && one.pod?.uid === want.pod.uid && one.interface === interfaceName;
      if (samePod && !this.#isBefore(one, want)) {
        return refused(
          refuse("SUPERSEDED", {
            containerId,
            interface: interfaceName,
            later: `newer sandbox ${one.containerId} of the same pod`,
          }),
        );
      }
      if (!samePod && !this.#context.namespaceGone(one.netns)) {
        const holder = `container ${one.containerId} (${one.interface})`;
        return refused(refuse("CLAIM_IN_USE", { claim: claimRef, holder }));
      }
    }
    const addresses = this.#decide(space, owner, want);
    if ("code" in addresses) return refused(addresses);
    for (const one of [...(former ? [former] : []), ...older]) this.#end(one, owner);
    return this.#record(space, owner, want, claimRef, addresses);
  }

  async detach(want: DetachWant): Promise<DetachOutcome> {
    const { containerId, network, stamp } = want;
    if (stamp.bootId === this.#context.bootId) {
      this.#tombstones.push({ containerId, interface: want.interface, network, stamp });
    }
    const ended = this.#attachments.filter(
      (one) =>
        isSameInterface(one, want) && (network ?? one.network) === one.network && this.#isBefore(one, want),
    );
    for (const one of ended) this.#end(one, null);
    return { ended };
  }

  async list(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
    const after = page.continue === undefined ? 0 : Number(page.continue);
    const { network, address } = filter;
    const all = this.#held
      .filter(
        (one) => (network ?? one.network) === one.network && (!address || sameAddress(one.address, address)),
      )
      .sort((a, b) =>
        a.network === b.network ? compareAddresses(a.address, b.address) : a.network < b.network ? -1 : 1,
      );
    const items = all.slice(after, after + page.limit).map((one) => this.#view(one));
    return after + page.limit < all.length ? { items, continue: String(after + page.limit) } : { items };
  }

  #repeat(former: Attachment, want: AttachWant): AttachOutcome {
    const held = former.ips.map((ip) => parseInterfaceAddress(ip.address).address);
    const other = want.requested.find((one) => !held.some((address) => sameAddress(address, one.address)));
    if (other) {
      return refused(
        refuse("REQUEST_MISMATCH", {
          requested: formatAddress(other.address),
          source: other.source,
          held: held.map(formatAddress).join(", "),
          network: want.network,
        }),
      );
    }
    const attachment = this.#isBefore(former, want)
      ? { ...former, stamp: want.stamp, netns: want.netns }
      : former;
    this.#attachments = this.#attachments.map((one) => (one === former ? attachment : one));
    return { kind: "attached", attachment, definition: want.definition, repeat: true, warnings: [] };
  }

  #ownerOf(want: AttachWant): Owner | Refusal {
    if (want.claim !== null) {
      const claim = this.#findClaim(want.claim.namespace, want.claim.name);
      const name = `${want.claim.namespace}/${want.claim.name}`;
      if (!claim) return refuse("CLAIM_ABSENT", { claim: name });
      if (claim.network !== want.network) {
        return refuse("CLAIM_OTHER_NETWORK", {
          claim: name,
          claimNetwork: claim.network,
          network: want.network,
        });
      }
      const continues = this.#attachments.some(
        (one) => sameOwner(one.owner, claim.owner) && want.pod !== null && one.pod?.uid === want.pod.uid,
      );
      if (claim.deleted && !continues) return refuse("CLAIM_TERMINATING", { claim: name });
      return claim.owner;
    }
    if (want.pod !== null) return { kind: "pod", interface: want.interface, ...want.pod };
    return { kind: "container", uid: want.containerId, interface: want.interface, namespace: "", name: "" };
  }

  #decide(space: NetworkSpace, owner: Owner, want: AttachWant): InterfaceAddress[] | Refusal {
    const nowMs = this.#context.clock.monotonicMs();
    const pools = space.poolsOf(want.definition, nowMs);
    for (const pool of pools) pool.expire(nowMs);
    const decision = decideAdd({
      definition: want.definition,
      pools,
      held: this.#held
        .filter((one) => one.network === want.network && sameOwner(one.owner, owner))
        .map((one) => ({
          ...one,
          state: one.state === "Bound" ? ("bound" as const) : ("cooling" as const),
          adopted: false,
        })),
      requested: want.requested,
      seed: owner.kind === "claim" ? owner.uid : null,
      nowMs,
      holderOf: (address) => {
        const found = this.#held.find(
          (one) => one.network === want.network && sameAddress(one.address, address),
        );
        return found ? describeOwner(found.owner) : null;
      },
    });
    if (decision.kind === "refuse") return decision.refusal;
    if (decision.kind === "reuse") return [...decision.addresses];
    return decision.slots.map(({ rangeSetIndex, candidates }) => {
      const pool = pools[rangeSetIndex] as Pool;
      const [value] = candidates;
      if (value === undefined) throw new Error("a slot without a candidate");
      const address: Address = { family: pool.rangeSet.family, value };
      space.allocate(address, owner.kind !== "claim");
      const held: Held = {
        address,
        prefixLength: pool.subnetOf(value)?.cidr.prefixLength ?? 0,
        network: want.network,
        owner,
        state: "Bound",
      };
      this.#held = [
        ...this.#held.filter((one) => one.network !== want.network || !sameAddress(one.address, address)),
        held,
      ];
      return held;
    });
  }

  #record(
    space: NetworkSpace,
    owner: Owner,
    want: AttachWant,
    claimRef: string,
    addresses: readonly InterfaceAddress[],
  ): AttachOutcome {
    this.#lastId += 1;
    const attachment: Attachment = {
      id: this.#lastId,
      network: space.name,
      containerId: want.containerId,
      interface: want.interface,
      owner,
      claimRef,
      ips: addresses.map((one) => answered(want.definition, one)),
      stamp: want.stamp,
      netns: want.netns,
      pod: want.pod,
      node: this.#context.node,
      sinceMs: this.#context.clock.wallMs(),
    };
    this.#attachments.push(attachment);
    return { kind: "attached", attachment, definition: want.definition, repeat: false, warnings: [] };
  }

  #end(attachment: Attachment, keep: Owner | null): void {
    this.#attachments = this.#attachments.filter((one) => one !== attachment);
    if (keep && sameOwner(keep, attachment.owner)) return;
    this.#forgetUnused(attachment.owner, attachment.network);
  }

  /** Releases what an owner holds once nothing is attached with it; a claim only when it is deleted besides. */
  #forgetUnused(owner: Owner, network?: string): void {
    const attached = this.#attachments.some(
      (one) => sameOwner(one.owner, owner) && (network ?? one.network) === one.network,
    );
    const claim = this.#claims.find((one) => sameOwner(one.owner, owner));
    if (attached || (claim && !claim.deleted)) return;
    if (claim) this.#claims.splice(this.#claims.indexOf(claim), 1);
    for (const held of this.#held.filter(
      (one) => sameOwner(one.owner, owner) && (network ?? one.network) === one.network,
    )) {
      if (held.state === "Cooling") continue;
      const space = this.#spaces.get(held.network) as NetworkSpace;
      const nowMs = this.#context.clock.monotonicMs();
      const seconds = space.definition?.cooldownSeconds ?? 0;
      space.release(held.address, nowMs + seconds * 1_000, nowMs);
      if (seconds === 0) this.#held.splice(this.#held.indexOf(held), 1);
      else held.state = "Cooling";
    }
  }

  #spaceOf(want: AttachWant): NetworkSpace {
    const stored = () =>
      this.#held
        .filter((one) => one.network === want.network)
        .map((one) => ({ address: one.address, cooling: one.state === "Cooling" }));
    const space =
      this.#spaces.get(want.network) ?? new NetworkSpace(this.#spaces.size + 1, want.network, stored);
    space.definition = want.definition;
    this.#spaces.set(want.network, space);
    return space;
  }

  #findClaim(namespace: string, name: string): MemoryClaim | undefined {
    return this.#claims.find(({ owner }) => owner.namespace === namespace && owner.name === name);
  }

  #isBefore(a: { readonly stamp: Stamp }, b: { readonly stamp: Stamp }): boolean {
    return isBefore(a.stamp, b.stamp, this.#context.bootId);
  }

  #view(held: Held): AllocationView {
    const attachments = this.#attachments.filter(
      (one) => one.network === held.network && sameOwner(one.owner, held.owner),
    );
    return {
      network: held.network,
      address: formatInterfaceAddress(held),
      state: held.state,
      owner: held.owner,
      vm: null,
      since: "",
      attachments: attachments.map((one) => ({
        containerID: one.containerId,
        interface: one.interface,
        netns: one.netns.path,
        node: one.node,
        pod: one.pod,
        since: "",
      })),
    };
  }
}

function isSameInterface(
  a: { readonly containerId: string; readonly interface: string },
  b: { readonly containerId: string; readonly interface: string },
): boolean {
  return a.containerId === b.containerId && a.interface === b.interface;
}

function answered(definition: NetworkDefinition, one: InterfaceAddress): AnsweredAddress {
  const address = formatInterfaceAddress(one);
  const subnets = definition.rangeSets
    .filter((set) => set.family === one.address.family)
    .flatMap((set) => set.subnets);
  const gateway = subnets.find((subnet) => cidrContains(subnet.cidr, one.address))?.gateway;
  return gateway ? { address, gateway: formatAddress(gateway) } : { address };
}

function refused(refusal: Refusal): AttachOutcome {
  return { kind: "refused", refusal };
}
