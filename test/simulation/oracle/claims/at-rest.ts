import { inOneSubnet } from "../address.ts";
import type { Held } from "../allocations.ts";
import { claimsNamedBy } from "../pods.ts";
import type { PossessionParts } from "../possession.ts";
import { NADS, NETWORKS, type PlainObject, type PlainStore, PODS } from "../view.ts";
import { violation } from "../violation.ts";
import { type Claim, LIST_MAX } from "./claims.ts";
import type { Wanted, Wants } from "./wants.ts";

/** What one interface can have, of each subnet and family, with room for ranges that were edited. */
const ADDRESSES_PER_SUBNET = 2;
const SUBNETS_MIN = 2;

/** A claim in use names the pod that uses it, and not one that is gone. A pod that has ended uses nothing any more. */
export function checkOwnerPods({ claims, interfaces, pods, allocations }: PossessionParts, etcd: PlainStore): void {
  for (const claim of claims.all()) {
    const named: string | undefined = claim.object.status?.ownerPod?.name;
    if (named === undefined || etcd.get(PODS, `${claim.object.metadata.namespace}/${named}`) !== null) continue;
    const users = allocations.ofClaim(claim.uid).flatMap(({ place }) => interfaces.at(place));
    const [user] = users;
    const lives = user !== undefined && pods.find(user.one.pod) !== null && !pods.hasEnded(user.one.pod.uid);
    if (lives)
      throw violation(
        "owner-pod",
        `claim ${claim.key} names pod ${named}, which is gone, and pod ${user.one.pod.name} uses it`,
      );
  }
}

/** List and network of a claim say what it has, wherever it is known where its VM is to be. */
export function checkProjections(parts: PossessionParts, etcd: PlainStore, wants: Wants): void {
  const { claims, allocations } = parts;
  for (const claim of claims.all()) {
    const had = allocations.ofClaim(claim.uid);
    const wanted = wants.now(claim);
    const isDeleting = claim.object.metadata.deletionTimestamp !== undefined;
    if (had.length === 0 || had.length > LIST_MAX || isDeleting || wanted === null) continue;
    if (!had.every(({ network }) => isDefined(network, etcd))) continue;
    const on = (network: string | null) => had.filter((one) => one.network === network);
    const where = [wanted.network, claim.network].find((network) => on(network).length > 0);
    const has = had.map(({ address, network }) => `${address} of ${network}`).join(", ");
    if (claim.network !== (where ?? claim.network) || on(claim.network).length === 0)
      throw violation("claim-astray", `claim ${claim.key} is on network ${claim.network}, and has ${has}`);
    const says = claim.ips.join(", ") || "nothing";
    const needed = had.filter(
      (one) => parts.interfaces.at(one.place).length > 0 || isNeeded(one, claim, parts, etcd, wants),
    );
    const isListed = sameTexts(claim.ips, [...new Set(needed.map(({ address }) => address))]);
    if (!isListed || !on(claim.network).some(({ address }) => address === claim.ips[0]))
      throw violation(
        "claim-says-otherwise",
        `claim ${claim.key} lists ${says} on network ${claim.network}, and has ${has}`,
      );
  }
}

/**
 * Why a claim that exists needs an address that no container uses; false: there is no reason. Where its VM is to be
 * is unknown, or the address counts there, or the VM has nothing where it is to be; or it asks for it.
 */
export function isNeeded(held: Held, claim: Claim, parts: PossessionParts, etcd: PlainStore, wants: Wants): boolean {
  const wanted = wants.now(claim);
  if (claim.object.metadata.deletionTimestamp !== undefined || !isDefined(held.network, etcd)) return true;
  // Its next sandbox takes over what a living pod had.
  if (wanted === null || isAttached(held, parts)) return true;
  if (held.network === wanted.network && wanted.asks.includes(held.address.split("/")[0] ?? "")) return true;
  const had = parts.allocations.ofClaim(claim.uid);
  if (isOutdone(held, had, claim, parts)) return false;
  if (wanted.network === held.network) return true;
  if (wanted.network !== null) return !had.some(({ network }) => network === wanted.network);
  return !runsWithoutClaim(claim, wanted, parts, etcd);
}

function isAttached({ object }: Held, { pods }: PossessionParts): boolean {
  const users = Object.values<PlainObject>(object.status?.attachments ?? {});
  return users.some(({ pod }) => pod !== undefined && pods.find(pod) !== null && !pods.hasEnded(pod.uid));
}

/** Of its subnet another one counts: one that is in use, else the first that is listed. */
function isOutdone(held: Held, had: readonly Held[], claim: Claim, { interfaces }: PossessionParts): boolean {
  // One whose subnet was edited since counts beside the others.
  const lengthOf = ({ address }: Held) => address.split("/")[1];
  const beside = had.filter(
    (one) =>
      one !== held &&
      one.network === held.network &&
      lengthOf(one) === lengthOf(held) &&
      inOneSubnet(one.address, held.address),
  );
  if (beside.some((one) => interfaces.at(one.place).length > 0)) return true;
  const positionOf = ({ address }: Held) => (claim.ips.includes(address) ? claim.ips.indexOf(address) : LIST_MAX);
  return beside.some((one) => positionOf(one) < positionOf(held));
}

/** Its VM runs where no claim follows it, and no living pod names the claim. */
function runsWithoutClaim({ object }: Claim, { vmi }: Wanted, { pods }: PossessionParts, etcd: PlainStore): boolean {
  const { namespace, name } = object.metadata;
  const living = etcd
    .range(PODS, `${namespace}/`)
    .flatMap(({ object: pod }) => (pods.isOver(pod.metadata.uid) ? [] : [pod]));
  return (
    living.some(({ metadata }) => (metadata.ownerReferences ?? []).some(({ uid }: { uid: string }) => uid === vmi)) &&
    !living.some((pod) => claimsNamedBy(pod).includes(name))
  );
}

/** Some definition names it: without one nobody can say what lies where. */
function isDefined(network: string, etcd: PlainStore): boolean {
  return etcd.range(NADS, "").some(({ object }) => String(object.spec?.config).includes(`"name":"${network}"`));
}

function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  return a.toSorted().join() === b.toSorted().join();
}

/** No pod holds a network for itself. */
export function checkNeeds({ allocations }: PossessionParts, etcd: PlainStore): void {
  const counts = new Map<string, number>();
  const subnetsOf = new Map<string, number>();
  for (const { object } of etcd.range(NETWORKS, ""))
    subnetsOf.set(object.spec?.network, String(object.status?.subnets ?? "").split(",").length);
  for (const { network, owner, isBound } of allocations.all()) {
    if (!isBound || owner.kind !== "Pod") continue;
    const key = `${network} ${owner.namespace}/${owner.name} ${owner.uid} ${owner.interface}`;
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    if (count > Math.max(SUBNETS_MIN, subnetsOf.get(network) ?? 0) * ADDRESSES_PER_SUBNET)
      throw violation(
        "held-beyond-need",
        `interface ${owner.interface} of pod ${owner.namespace}/${owner.name} holds ${count} addresses of network ${network}`,
      );
  }
}
