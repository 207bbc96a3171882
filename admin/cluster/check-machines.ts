import { describeHolder } from "../../allocations/owners.ts";
import { isAnswer } from "../../claims/pools/pool-ledger.ts";
import type { Finding } from "../../ipam/finding.ts";
import { type Address, formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { ANNOTATION_ALLOCATION, type IPAllocation } from "../../kube/objects.ts";
import { isAddressPool, type MachineAddressView } from "../../kube/views/machine-claim-view.ts";
import type { Grace } from "./grace.ts";
import { allocationAt, type ClusterSnapshot } from "./snapshot.ts";

/** I2: what a machine was told is recorded as its claim's. I3: what is left of a claim that is gone. */
export function checkMachines(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  const { machines } = snapshot;
  if (machines === null || !machines.claims.known || !machines.addresses.known) return [];
  const held = addressesByClaim(snapshot);
  return [...machines.addresses.items.values()].flatMap((sent) => {
    const claim = machines.claims.items.get(`${sent.namespace}/${sent.claim}`);
    const pool = machines.pools.items.get(`${sent.namespace}/${sent.pool.name}`);
    if (!isAddressPool(sent.pool) || sent.deletionTimestamp !== null) return [];
    if (!grace.isOver(sent.creationTimestamp)) return [];
    if (claim === undefined) return leftBehind(snapshot, sent);
    // A claim of another pool has the name of a former one, and cannot be answered while this is there.
    if (claim.pool.name !== sent.pool.name)
      return sent.owners.some(({ uid }) => uid === claim.uid) ? [] : leftBehind(snapshot, sent);
    if (pool === undefined) return isAnswer(sent, claim) ? withoutPool(snapshot, sent, claim.uid) : [];
    if (!isAnswer(sent, claim)) return answersNobody(sent, pool.network);
    const address = read(sent.address);
    const problem =
      address === null ? "cannot be read" : problemOf(allocationAt(snapshot, pool.network, address), claim.uid);
    if (problem === null || (address !== null && held.get(claim.uid)?.has(formatAddress(address)))) return [];
    const message = `${sent.address} of network ${pool.network}, which IPAddress ${sent.key} names for a machine, ${problem}`;
    const hint = `the controller records it, or says in the claim why not: kubectl get ipaddressclaim -n ${sent.namespace} ${sent.claim} -o yaml`;
    return [{ invariant: "I2", message, hint }];
  });
}

/**
 * What claims have, by their UID, on whatever network: a pool may be of another one by now, and another provider's
 * IPAddress does not say which IPAllocation is its own.
 */
function addressesByClaim({ allocations }: ClusterSnapshot): ReadonlyMap<string, ReadonlySet<string>> {
  const held = new Map<string, Set<string>>();
  for (const { object, address } of allocations.values()) {
    const { uid } = object.spec.owner;
    if (address === null || problemOf(object, uid) !== null) continue;
    held.set(uid, (held.get(uid) ?? new Set()).add(address));
  }
  return held;
}

/** Its pool is gone, and only the IPAddress itself tells which IPAllocation was its own: nothing records it again. */
function withoutPool(
  { allocations }: ClusterSnapshot,
  { key, namespace, annotations, pool, address }: MachineAddressView,
  claimUid: string,
): Finding[] {
  const allocation = annotations.get(ANNOTATION_ALLOCATION);
  if (allocation === undefined) return [];
  const problem = problemOf(allocations.get(allocation)?.object, claimUid);
  if (problem === null) return [];
  const message = `${address}, which IPAddress ${key} names for a machine, ${problem}, and its AddressPool ${pool.name} is gone`;
  const hint = `create AddressPool ${pool.name} in namespace ${namespace} again: then the controller records the address, or says in the claim why not`;
  return [{ invariant: "I2", message, hint }];
}

/** Holdfast has not made it, and will not record it. */
function answersNobody({ key, namespace, name, claim, address }: MachineAddressView, network: string): Finding[] {
  const message = `${address} of network ${network} is in IPAddress ${key}, which does not answer claim ${namespace}/${claim} though it names it: pods may get the address`;
  const hint = `when no machine uses the address: kubectl delete ipaddresses.ipam.cluster.x-k8s.io -n ${namespace} ${name}`;
  return [{ invariant: "I2", message, hint }];
}

/**
 * Nobody else deletes an IPAddress whose allocation was taken away by hand while its claim ended: the controller
 * deletes it before it frees the allocation.
 */
function leftBehind(snapshot: ClusterSnapshot, { key, namespace, name, annotations }: MachineAddressView): Finding[] {
  const allocation = annotations.get(ANNOTATION_ALLOCATION);
  if (allocation === undefined || snapshot.allocations.has(allocation)) return [];
  const message = `IPAddress ${key} is left, though its IPAddressClaim and its IPAllocation ${allocation} are gone`;
  const hint = `when no machine uses its address any more: kubectl delete ipaddresses.ipam.cluster.x-k8s.io -n ${namespace} ${name}`;
  return [{ invariant: "I3", message, hint }];
}

function problemOf(object: IPAllocation | undefined, uid: string): string | null {
  if (object === undefined) return "has no IPAllocation";
  if (object.status?.state !== "Bound") return "is not Bound";
  const { owner } = object.spec;
  if (owner.kind === "IPAddressClaim" && owner.uid === uid) return null;
  return `belongs to ${describeHolder(owner)}`;
}

function read(text: string): Address | null {
  try {
    return parseAddress(text);
  } catch {
    return null;
  }
}
