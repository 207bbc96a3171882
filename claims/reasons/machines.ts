import { isPreallocation } from "../../ipam/owner.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { allocationName, nameSameAddress } from "../../kube/object-names.ts";
import type { AllocationOwner, IPAllocation } from "../../kube/objects.ts";
import { isAddressPool } from "../../kube/views/machine-claim-view.ts";
import { parseTime } from "../../platform/time.ts";
import type { AddressClaimFact, Found, MachineAddressFact, MachineFacts, NamespaceFact } from "./facts.ts";
import { type Rules, UNKNOWN_KEPT, type Verdict } from "./verdict.ts";

/*
 * Every relation between a Bound allocation and a machine of Cluster API, and the verdict. The claim is an
 * IPAddressClaim, or the Metal3Data of a machine whose addresses need no claim. "paused" is a Cluster that is paused,
 * or that is gone and was paused when it was last seen: the sign of a move to another management cluster, where its
 * machines live on with their addresses. In every line, whatever is unknown counts as in use.
 *
 *   owner            of the owner                         of its Cluster                     verdict
 *   ───────────────  ───────────────────────────────────  ─────────────────────────────────  ──────────────────────────
 *   claim            there (also being deleted)           any                                keep    claim-exists
 *   IPAddressClaim   there, and its IPAddress has         not paused, or none is named       release claim-does-not-use
 *                    another address, Bound to the claim  paused, or not there               keep    claim-exists
 *   claim            another one has its name             any                                keep    claim-exists
 *                    (it takes over what this one had)
 *   Metal3Data       another one has its name, and its    as where it is gone
 *                    address of the pool by a claim
 *   claim            gone; also where another one has     not paused, or none is named       release claim-gone
 *                    its name and certainly does not      paused                             keep    claim-moved
 *                    take over: its pool is none of       not there, its namespace is gone,  release claim-gone
 *                    ours, or it has another address,     or younger than the allocation
 *                    or another pool, while the           not there                          keep    cluster-gone *
 *                    IPAddress is still this one's
 *   IPAddressClaim,  a pool of the namespace still        any                                keep    preallocated
 *   preallocated     lists claim and address
 *                    none does                            any                                release preallocation-gone
 *
 *   * unless the operator has set how long after both are gone they count as ended: then released, with the same word.
 *
 * A namespace that is gone, or on its way, ends its claims; but a paused Cluster counts more: its claims may have moved
 * before somebody deleted what they left behind. See docs/decisions/0038.
 *
 * One that is Cooling is still told by an IPAddress where two controllers were at work at once, one of which told what
 * the other released: withdraw cooling-still-named, where the claim is gone and an address of it would be released.
 */

/** How far the clocks of the API server and of a controller may differ, ms. */
const CLOCKS_DIFFER_MS_MAX = 60_000;

const CLAIM_EXISTS = { kind: "keep", why: "claim-exists" } as const;

/** Judges a Bound allocation of a machine. `address`: its own, canonical, without mask. */
export function judgeMachines(allocation: IPAllocation, address: string, facts: MachineFacts, rules: Rules): Verdict {
  const { owner, network } = allocation.spec;
  if (isPreallocation(owner)) return judgePreallocation({ owner, network, address }, facts, rules);
  const isData = owner.kind === "Metal3Data";
  const { namespace, name } = owner;
  const held: Held = { owner, network, address, allocation: allocation.metadata.name };
  const claim: Found<{ readonly uid: string }> = isData ? dataOf(owner, facts) : facts.addressClaim(namespace, name);
  if (claim.kind === "unknown") return UNKNOWN_KEPT;
  if (claim.kind === "absent") return judgeGone(allocation, facts, rules);
  if (isData) return CLAIM_EXISTS;
  const found = claim.it as AddressClaimFact;
  if (found.uid === owner.uid) return judgeLiving(held, found, facts, rules);
  const takesOver = isAddressPool(found.pool) && mayTakeOver(held, found, facts);
  if (takesOver === "unknown") return UNKNOWN_KEPT;
  return takesOver ? CLAIM_EXISTS : judgeGone(allocation, facts, rules);
}

/** Another one of the name takes it over, unless an IPAddressClaim has given it one. */
function dataOf(
  { namespace, name, uid, interface: pool }: AllocationOwner,
  facts: MachineFacts,
): Found<{ readonly uid: string }> {
  const data = facts.machineData(namespace, name);
  if (data.kind !== "present" || data.it.uid === uid) return data;
  const claim = `${name}-${pool}`;
  const answer = facts.machineAddress(namespace, claim);
  return answer.kind === "present" && answer.it.claim === claim ? { kind: "absent" } : data;
}

/** Whether the IPAddress of a claim that is gone still tells of an address that was released. */
export function isStillNamed(allocation: IPAllocation, address: string, facts: MachineFacts, rules: Rules): boolean {
  const { owner, network } = allocation.spec;
  if (owner.kind !== "IPAddressClaim" || isPreallocation(owner)) return false;
  const { namespace, name } = owner;
  if (facts.addressClaim(namespace, name).kind !== "absent") return false;
  const answer = facts.machineAddress(namespace, name);
  if (answer.kind !== "present") return false;
  const { claim, pool } = answer.it;
  if (claim !== name || !isAddressPool(pool)) return false;
  if (!tells(answer.it, { owner, network, address, allocation: allocation.metadata.name })) return false;
  return judgeGone(allocation, facts, rules).kind === "release";
}

/** What a machine was told is in its IPAddress: an allocation beside it is one that lost a race. */
function judgeLiving(held: Held, claim: AddressClaimFact, facts: MachineFacts, rules: Rules): Verdict {
  const uses = mayUse(held, claim, facts);
  if (uses === "unknown") return UNKNOWN_KEPT;
  if (uses || claim.paused) return CLAIM_EXISTS;
  const ownsOther = ownsNamed(held, facts);
  if (ownsOther === "unknown") return UNKNOWN_KEPT;
  if (!ownsOther) return CLAIM_EXISTS;
  const { namespace, cluster } = held.owner;
  if (cluster) {
    const found = facts.cluster(namespace, cluster);
    if (found.kind === "unknown") return UNKNOWN_KEPT;
    if (found.kind === "absent" || found.it.paused) return CLAIM_EXISTS;
  }
  return { kind: "release", why: "claim-does-not-use", afterSeconds: rules.graceSeconds };
}

interface Held {
  readonly owner: AllocationOwner;
  /** Canonical, without mask. */
  readonly address: string;
  readonly network: string;
  readonly allocation: string;
}

/** Whether an IPAddress tells of an allocation's address: networks may overlap. */
function tells({ address, allocation }: MachineAddressFact, held: Held): boolean {
  return address === held.address && (allocation === null || !nameSameAddress(allocation, held.allocation));
}

/** Whether the address that a living claim was told is Bound to it: else the one that is held may be its only one. */
function ownsNamed({ owner, network }: Held, facts: MachineFacts): boolean | "unknown" {
  const answer = facts.machineAddress(owner.namespace, owner.name);
  if (answer.kind !== "present") return "unknown";
  const { address, allocation } = answer.it;
  if (address === null) return "unknown";
  const here = allocationName(network, parseAddress(address));
  const noted = allocation !== null && nameSameAddress(allocation, here) ? allocation : here;
  const bound = facts.boundTo(noted);
  if (bound.kind === "unknown") return "unknown";
  return bound.kind === "present" && bound.it === owner.uid;
}

/**
 * Whether a claim has, or may get, what the former one of its name had. One of another pool cannot be answered while
 * the IPAddress of that name tells of the former's address: nothing but the release deletes it.
 */
function mayTakeOver(held: Held, claim: AddressClaimFact, facts: MachineFacts): boolean | "unknown" {
  const { owner } = held;
  const answer = facts.machineAddress(owner.namespace, owner.name);
  if (answer.kind === "present") {
    const { claim: answered, pool } = answer.it;
    const isFormers = answered === owner.name && isAddressPool(pool) && pool.name !== claim.pool.name;
    if (isFormers && tells(answer.it, held)) return false;
  }
  return mayUse(held, claim, facts);
}

/** Whether a claim that exists has this address, or may get it; false: its IPAddress has another one. */
function mayUse(held: Held, claim: AddressClaimFact, facts: MachineFacts): boolean | "unknown" {
  const { owner } = held;
  const answer = facts.machineAddress(owner.namespace, owner.name);
  if (answer.kind === "unknown") return "unknown";
  if (answer.kind === "absent") return true;
  const { claim: answered, pool, address: told } = answer.it;
  const isItsOwn = answered === owner.name && isAddressPool(pool) && pool.name === claim.pool.name;
  return !isItsOwn || told === null || tells(answer.it, held);
}

function judgeGone(allocation: IPAllocation, facts: MachineFacts, rules: Rules): Verdict {
  const { owner, network } = allocation.spec;
  const { namespace, cluster } = owner;
  const release = { kind: "release", why: "claim-gone", afterSeconds: rules.graceSeconds } as const;
  const moved = { kind: "keep", why: "claim-moved" } as const;
  if (!cluster) return release;
  const found = facts.cluster(namespace, cluster);
  if (found.kind === "unknown") return UNKNOWN_KEPT;
  if (found.kind === "present") return found.it.paused ? moved : release;
  const wasPaused = facts.wasPaused(network, `${namespace}/${cluster}`);
  if (wasPaused.kind !== "present") return UNKNOWN_KEPT;
  if (wasPaused.it) return moved;
  const home = facts.namespace(namespace);
  if (home.kind === "unknown") return UNKNOWN_KEPT;
  if (home.kind === "absent" || home.it.isEnding || isYounger(home.it, allocation)) return release;
  if (rules.clusterGoneReleaseSeconds === 0) return { kind: "keep", why: "cluster-gone" };
  const afterSeconds = Math.max(rules.graceSeconds, rules.clusterGoneReleaseSeconds);
  return { kind: "release", why: "cluster-gone", afterSeconds };
}

/**
 * Whether a namespace was created after its machine had the address: the machine's own one is gone. One that was
 * restored from a backup is younger than what it records, and tells nothing.
 */
function isYounger({ creationTimestamp }: NamespaceFact, { metadata, status }: IPAllocation): boolean {
  const createdMs = parseTime(metadata.creationTimestamp ?? "");
  const sinceMs = parseTime(status?.since ?? "");
  if (sinceMs < createdMs - CLOCKS_DIFFER_MS_MAX) return false;
  return parseTime(creationTimestamp) > Math.max(createdMs, sinceMs);
}

/** Any pool counts, not only the one that made it: one that was created again takes it over by its name. */
function judgePreallocation(
  held: { readonly owner: AllocationOwner; readonly network: string; readonly address: string },
  facts: MachineFacts,
  rules: Rules,
): Verdict {
  const { namespace, name } = held.owner;
  const pools = facts.addressPools(namespace);
  if (pools.kind !== "present") return UNKNOWN_KEPT;
  const lists = pools.it.some(
    ({ network, preallocated }) => network === held.network && preallocated(name) === held.address,
  );
  if (lists) return { kind: "keep", why: "preallocated" };
  return { kind: "release", why: "preallocation-gone", afterSeconds: rules.graceSeconds };
}
