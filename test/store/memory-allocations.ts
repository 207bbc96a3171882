import type { AllocationFilter, PageRequest } from "../../allocations/filter.ts";
import type { AllocationView, AnsweredAddress, Attachment, Page } from "../../allocations/records.ts";
import { decideAddresses, inRangeSetOrder } from "../../ipam/decide-addresses.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Owner, sameOwner } from "../../ipam/owner.ts";
import { type Refusal, refuse } from "../../ipam/refusals.ts";
import { type Address, compareAddresses, formatAddress, sameAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, type InterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { Pool } from "../../ipam/space/pool.ts";
import { placeOf } from "../../ipam/space/range-set.ts";
import type { Allocations, AttachOutcome, AttachWant, DetachOutcome, DetachWant } from "../../store/allocations.ts";
import type { NodeContext } from "../../store/node-context.ts";
import { MemoryReservations } from "./memory-reservations.ts";
import { type Held, MemoryState } from "./memory-state.ts";

/**
 * `Allocations` in plain arrays, searched from end to end: the model that the real stores are compared with, and a fake
 * for tests of what lies above. It forgets everything when the process ends.
 */
export class MemoryAllocations implements Allocations {
  readonly reservations: MemoryReservations;
  readonly #state: MemoryState;

  constructor(context: NodeContext) {
    this.#state = new MemoryState(context);
    this.reservations = new MemoryReservations(this.#state);
  }

  /** A name that is taken, also by a claim that waits for its last attachment, stays its holder's. */
  createClaim(namespace: string, name: string, uid: string, network: string): void {
    if (this.#state.findClaim(namespace, name)) return;
    const owner: Owner = { kind: "claim", uid, interface: "", namespace, name };
    this.#state.claims.push({ owner, network, deleted: false });
  }

  deleteClaim(namespace: string, name: string): void {
    const claim = this.#state.findClaim(namespace, name);
    if (!claim) return;
    claim.deleted = true;
    this.#state.forgetUnused(claim.owner, claim.network);
  }

  async attach(want: AttachWant): Promise<AttachOutcome> {
    const { attachments, tombstones } = this.#state;
    const later = tombstones.find(
      (one) =>
        isSameInterface(one, want) && (one.network ?? want.network) === want.network && this.#state.isBefore(want, one),
    );
    if (later) return superseded(want, "a later DEL");
    const former = attachments.find((one) => isSameInterface(one, want) && one.network === want.network);
    const claimRef = want.claim === null ? "" : `${want.claim.namespace}/${want.claim.name}`;
    if (former && former.claimRef === claimRef && former.pod?.uid === want.pod?.uid) {
      return this.#repeat(former, want);
    }
    const owner = this.#ownerOf(want);
    if ("code" in owner) return refused(owner);
    const older = attachments.filter(
      (one) => one !== former && one.network === want.network && sameOwner(one.owner, owner),
    );
    const obstacle = this.#whatStands(older, want, claimRef);
    if (obstacle) return obstacle;
    const addresses = this.#decide(owner, want);
    if ("code" in addresses) return refused(addresses);
    for (const one of [...(former ? [former] : []), ...older]) this.#state.end(one, owner);
    const ips = addresses.map((one) => answered(want.definition, one));
    const attachment = this.#state.record(want, owner, claimRef, ips);
    return { kind: "attached", attachment, definition: want.definition, repeat: false, warnings: [] };
  }

  async detach(want: DetachWant): Promise<DetachOutcome> {
    const { containerId, network, stamp } = want;
    if (stamp.bootId === this.#state.context.bootId) {
      this.#state.tombstones.push({ containerId, interface: want.interface, network, stamp });
    }
    const ended = this.#state.attachments.filter(
      (one) =>
        isSameInterface(one, want) && (network ?? one.network) === one.network && this.#state.isBefore(one, want),
    );
    for (const one of ended) this.#state.end(one, null);
    return { ended };
  }

  async list(filter: AllocationFilter, page: PageRequest): Promise<Page<AllocationView>> {
    const after = Number(page.continue ?? 0);
    const { network, address } = filter;
    const all = this.#state.held
      .filter((one) => (network ?? one.network) === one.network)
      .filter((one) => !address || sameAddress(one.address, address))
      .sort(byNetworkAndAddress);
    const items = all.slice(after, after + page.limit).map((one) => this.#state.view(one));
    return after + page.limit < all.length ? { items, continue: String(after + page.limit) } : { items };
  }

  #repeat(former: Attachment, want: AttachWant): AttachOutcome {
    const held = former.ips.map((ip) => parseInterfaceAddress(ip.address).address);
    const other = want.requested.find((one) => !held.some((address) => sameAddress(address, one.address)));
    if (other) {
      return refused(
        refuse("REQUEST_MISMATCH", {
          requested: other.address,
          source: other.source,
          held: held.map(formatAddress).join(", "),
          network: want.network,
        }),
      );
    }
    const moved = this.#state.isBefore(former, want);
    const attachment = moved ? { ...former, stamp: want.stamp, netns: want.netns } : former;
    this.#state.attachments = this.#state.attachments.map((one) => (one === former ? attachment : one));
    return { kind: "attached", attachment, definition: want.definition, repeat: true, warnings: [] };
  }

  #ownerOf(want: AttachWant): Owner | Refusal {
    const { containerId, interface: interfaceName, pod, network } = want;
    if (want.claim === null) {
      if (pod !== null) return { kind: "pod", interface: interfaceName, ...pod };
      return { kind: "container", uid: containerId, interface: interfaceName, namespace: "", name: "" };
    }
    const name = `${want.claim.namespace}/${want.claim.name}`;
    const claim = this.#state.findClaim(want.claim.namespace, want.claim.name);
    if (!claim) return refuse("CLAIM_ABSENT", { claim: name });
    if (claim.network !== network) {
      return refuse("CLAIM_OTHER_NETWORK", { claim: name, claimNetwork: claim.network, network });
    }
    const continues = this.#state.attachments.some(
      (one) => sameOwner(one.owner, claim.owner) && pod !== null && one.pod?.uid === pod.uid,
    );
    return claim.deleted && !continues ? refuse("CLAIM_TERMINATING", { claim: name }) : claim.owner;
  }

  /** An attachment of the same owner that is neither replaced by this one nor certainly gone. */
  #whatStands(older: readonly Attachment[], want: AttachWant, claimRef: string): AttachOutcome | null {
    for (const one of older) {
      const samePod = want.pod !== null && one.pod?.uid === want.pod.uid && one.interface === want.interface;
      if (samePod && !this.#state.isBefore(one, want)) {
        return superseded(want, `newer sandbox ${one.containerId} of the same pod`);
      }
      if (!samePod && !this.#state.context.namespaceGone(one.netns)) {
        const holder = `container ${one.containerId} (${one.interface})`;
        return refused(refuse("CLAIM_IN_USE", { claim: claimRef, holder }));
      }
    }
    return null;
  }

  #decide(owner: Owner, want: AttachWant): readonly InterfaceAddress[] | Refusal {
    const nowMs = this.#state.context.clock.monotonicMs();
    const space = this.#state.spaceOf(want.network, want.definition);
    const pools = space.poolsOf(want.definition, nowMs);
    for (const pool of pools) pool.expire(nowMs);
    const decision = decideAddresses({
      definition: want.definition,
      pools,
      held: this.#state.heldAs(owner, want.network),
      requested: want.requested,
      seed: owner.kind === "claim" ? owner.uid : null,
      nowMs,
      // Whoever else uses a claim is in the way.
      renews: true,
      holderOf: (address) => this.#state.holderOf(want.network, address),
      mayReturn: (address, state) =>
        state === "cooling"
          ? this.#state.mayReturn(want.network, address, owner)
          : this.#state.goneUsersOf(want.network, address, owner).length > 0,
    });
    if (decision.kind === "refuse") return decision.refusal;
    if (decision.kind === "allocate")
      for (const { address } of want.requested)
        for (const one of this.#state.goneUsersOf(want.network, address, owner)) this.#state.end(one, owner);
    const kept = decision.kind === "reuse" ? decision.addresses : [];
    for (const one of kept) this.#state.keep(want.network, one);
    const added = decision.slots.map(({ rangeSetIndex, candidates, moveCursor }) => {
      const pool = pools[rangeSetIndex] as Pool;
      const [value] = candidates;
      if (value === undefined) throw new Error("a slot without a candidate");
      const address: Address = { family: pool.rangeSet.family, value };
      space.allocate(address, moveCursor);
      return this.#state.take({
        address,
        prefixLength: pool.subnetOf(value)?.cidr.prefixLength ?? 0,
        network: want.network,
        owner,
        state: "Bound",
      });
    });
    return kept.length === 0 ? added : inRangeSetOrder(want.definition, [...kept, ...added]);
  }
}

function isSameInterface(
  a: { readonly containerId: string; readonly interface: string },
  b: { readonly containerId: string; readonly interface: string },
): boolean {
  return a.containerId === b.containerId && a.interface === b.interface;
}

function byNetworkAndAddress(a: Held, b: Held): number {
  if (a.network !== b.network) return a.network < b.network ? -1 : 1;
  return compareAddresses(a.address, b.address);
}

function answered(definition: NetworkDefinition, one: InterfaceAddress): AnsweredAddress {
  const address = formatInterfaceAddress(one);
  const gateway = placeOf(definition.rangeSets, one.address)?.subnet.gateway;
  return gateway ? { address, gateway: formatAddress(gateway) } : { address };
}

function superseded(want: AttachWant, later: string): AttachOutcome {
  const { containerId, interface: interfaceName } = want;
  return refused(refuse("SUPERSEDED", { containerId, interface: interfaceName, later }));
}

function refused(refusal: Refusal): AttachOutcome {
  return { kind: "refused", refusal };
}
