import { NetworkSpace } from "../../allocations/network-space.ts";
import type { AllocationView, AnsweredAddress, Attachment } from "../../allocations/records.ts";
import type { HeldAddress } from "../../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { describeOwner, type Owner, sameOwner, succeeds } from "../../ipam/owner.ts";
import { type Address, sameAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress } from "../../ipam/space/cidr.ts";
import { cooldownEndMs } from "../../ipam/space/cooldown.ts";
import { isBefore, type Stamp } from "../../ipam/stamp.ts";
import type { AttachWant } from "../../store/allocations.ts";
import type { NodeContext } from "../../store/node-context.ts";

export interface Held extends InterfaceAddress {
  readonly network: string;
  readonly owner: Owner;
  readonly state: "Bound" | "Cooling";
  /** Its last container was ended by a DEL, or its namespace is gone. */
  readonly ended?: boolean;
}

interface MemoryClaim {
  readonly owner: Owner;
  readonly network: string;
  deleted: boolean;
}

/** What MemoryAllocations remembers: plain arrays, and what ending an attachment does to them. */
export class MemoryState {
  readonly context: NodeContext;
  readonly claims: MemoryClaim[] = [];
  readonly tombstones: { containerId: string; interface: string; network: string | null; stamp: Stamp }[] = [];
  held: Held[] = [];
  attachments: Attachment[] = [];
  readonly #spaces = new Map<string, NetworkSpace>();
  #lastId = 0;

  constructor(context: NodeContext) {
    this.context = context;
  }

  isBefore(a: { readonly stamp: Stamp }, b: { readonly stamp: Stamp }): boolean {
    return isBefore(a.stamp, b.stamp, this.context.bootId);
  }

  findClaim(namespace: string, name: string): MemoryClaim | undefined {
    return this.claims.find(({ owner }) => owner.namespace === namespace && owner.name === name);
  }

  heldBy(owner: Owner, network: string): Held[] {
    return this.held.filter((one) => one.network === network && sameOwner(one.owner, owner));
  }

  /** The prefix length of an address follows its subnet. */
  keep(network: string, { address, prefixLength }: InterfaceAddress): void {
    this.held = this.held.map((one) =>
      one.network === network && sameAddress(one.address, address) ? { ...one, prefixLength } : one,
    );
  }

  /** `heldBy` as a decision sees it, with what passes to the owner. */
  heldAs(owner: Owner, network: string): HeldAddress[] {
    const passing = this.held.filter((one) => one.network === network && succeeds(owner, one.owner));
    return [...this.heldBy(owner, network), ...passing].map((one) => ({
      ...one,
      state: one.state === "Bound" ? "bound" : "cooling",
      adopted: false,
      former: passing.includes(one),
    }));
  }

  /** Whether an address may go to an owner that asks for it by name, although it cools down. */
  mayReturn(network: string, address: Address, owner: Owner): boolean {
    const found = this.held.find((one) => one.network === network && sameAddress(one.address, address));
    return found?.ended === true && found.owner.namespace === owner.namespace;
  }

  /** The attachments of a container or pod that holds an address, when all of them are gone without a DEL. */
  goneUsersOf(network: string, address: Address, owner: Owner): Attachment[] {
    const found = this.held.find((one) => one.network === network && sameAddress(one.address, address));
    if (found?.state !== "Bound" || found.owner.kind === "claim") return [];
    if (found.owner.namespace !== owner.namespace) return [];
    const users = this.attachments.filter((one) => one.network === network && sameOwner(one.owner, found.owner));
    return users.every(({ netns }) => this.context.namespaceGone(netns)) ? users : [];
  }

  /** Whom to name for an address. */
  holderOf(network: string, address: Address): string | null {
    const found = this.held.find((one) => one.network === network && sameAddress(one.address, address));
    return found ? describeOwner(found.owner) : null;
  }

  take(held: Held): Held {
    const others = this.held.filter((one) => one.network !== held.network || !sameAddress(one.address, held.address));
    this.held = [...others, held];
    return held;
  }

  spaceOf(network: string, definition: NetworkDefinition): NetworkSpace {
    const stored = () =>
      this.held
        .filter((one) => one.network === network)
        .map((one) => ({ address: one.address, cooling: one.state === "Cooling" }));
    const space = this.#spaces.get(network) ?? new NetworkSpace(this.#spaces.size + 1, network, { stored });
    space.definition = definition;
    this.#spaces.set(network, space);
    return space;
  }

  record(want: AttachWant, owner: Owner, claimRef: string, ips: readonly AnsweredAddress[]): Attachment {
    this.#lastId += 1;
    const attachment: Attachment = {
      id: this.#lastId,
      network: want.network,
      containerId: want.containerId,
      interface: want.interface,
      owner,
      claimRef,
      ips,
      stamp: want.stamp,
      netns: want.netns,
      pod: want.pod,
      node: this.context.node,
      sinceMs: this.context.clock.wallMs(),
      mac: want.mac ?? null,
    };
    this.attachments.push(attachment);
    return attachment;
  }

  end(attachment: Attachment, keep: Owner | null, ended = true): void {
    this.attachments = this.attachments.filter((one) => one !== attachment);
    if (keep && sameOwner(keep, attachment.owner)) return;
    this.forgetUnused(attachment.owner, attachment.network, ended);
  }

  /** Releases what an owner holds once nothing is attached with it; a claim only when it is deleted besides. */
  forgetUnused(owner: Owner, network: string, ended = true): void {
    if (this.attachments.some((one) => one.network === network && sameOwner(one.owner, owner))) return;
    const claim = this.claims.find((one) => sameOwner(one.owner, owner));
    if (claim && !claim.deleted) return;
    if (claim) this.claims.splice(this.claims.indexOf(claim), 1);
    const bound = this.heldBy(owner, network).filter((one) => one.state === "Bound");
    for (const one of bound) this.release(one, ended);
  }

  release(one: Held, ended = false): void {
    const space = this.#spaces.get(one.network) as NetworkSpace;
    const nowMs = this.context.clock.monotonicMs();
    const endMs = cooldownEndMs(space.definition, nowMs);
    space.release(one.address, endMs, nowMs);
    this.held = this.held.filter((other) => other !== one);
    if (endMs > nowMs) this.held.push({ ...one, state: "Cooling", ended });
  }

  view(held: Held): AllocationView {
    const attachments = this.attachments.filter(
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
