import type { Claim } from "./claims.ts";
import type { PossessionParts } from "./possession.ts";
import { NADS, NETWORKS, type PlainObject, type PlainStore, PODS, VMIS } from "./view.ts";
import { violation } from "./violation.ts";

/** What one interface can have, of each subnet and family, with room for ranges that were edited. */
const ADDRESSES_PER_SUBNET = 2;
const SUBNETS_MIN = 2;

/** A claim in use names the pod that uses it, and not one that is gone. A pod that has ended uses nothing any more. */
export function checkOwnerPods({ claims, interfaces, pods }: PossessionParts, etcd: PlainStore): void {
  for (const claim of claims.all()) {
    const named: string | undefined = claim.object.status?.ownerPod?.name;
    if (named === undefined || etcd.get(PODS, `${claim.object.metadata.namespace}/${named}`) !== null) continue;
    const users = claim.places.flatMap((place) => interfaces.at(place)).filter(({ owner }) => owner?.uid === claim.uid);
    const [user] = users;
    const lives = user !== undefined && pods.find(user.one.pod) !== null && !pods.hasEnded(user.one.pod.uid);
    if (lives)
      throw violation(
        "owner-pod",
        `claim ${claim.key} names pod ${named}, which is gone, and pod ${user.one.pod.name} uses it`,
      );
  }
}

/** A claim whose VM runs where it is to be is on that network, and not on another one. */
export function checkNetworks({ claims, interfaces, pods }: PossessionParts, etcd: PlainStore): void {
  for (const { one, owner } of interfaces.all()) {
    if (owner?.kind !== "IPAMClaim" || pods.hasEnded(one.pod.uid)) continue;
    const claim = claims.get(`${owner.namespace}/${owner.name}`);
    if (claim === null || claim.uid !== owner.uid || claim.network === one.network) continue;
    if (claim.object.metadata.deletionTimestamp !== undefined) continue;
    const pod = pods.find(one.pod);
    const vmi = (pod?.metadata.ownerReferences ?? []).find(
      ({ kind }: PlainObject) => kind === "VirtualMachineInstance",
    );
    if (vmi === undefined || networkWanted(claim, vmi, etcd) !== one.network) continue;
    throw violation(
      "claim-astray",
      `pod ${one.pod.name} runs VM of claim ${claim.key} on network ${one.network}, where it is to be, and the claim is on ${claim.network}`,
    );
  }
}

/** Whether the VM of a claim wants its interface elsewhere, where there are no persistent addresses. */
export function hasLeft(claim: Claim, etcd: PlainStore): boolean {
  return (claim.object.metadata.ownerReferences ?? []).some((owner: PlainObject) => {
    const vmi = etcd.get(VMIS, `${claim.object.metadata.namespace}/${owner.name}`);
    return vmi !== null && networkWanted(claim, vmi.metadata, etcd) === null;
  });
}

/** The network with persistent addresses on which a VMI wants the interface of a claim; null: none is known. */
function networkWanted(
  { object: { metadata } }: Claim,
  { name, uid }: { readonly name: string; readonly uid: string },
  etcd: PlainStore,
): string | null {
  const vmi = etcd.get(VMIS, `${metadata.namespace}/${name}`);
  if (vmi?.metadata.uid !== uid) return null;
  const wanted = vmi.spec?.networks?.find((one: PlainObject) => claimOf(name, one.name) === metadata.name);
  const nad: string | undefined = wanted?.multus?.networkName;
  if (nad === undefined) return null;
  const object = etcd.get(NADS, nad.includes("/") ? nad : `${metadata.namespace}/${nad}`);
  try {
    const config = JSON.parse(object?.spec.config ?? "{}");
    return config.allowPersistentIPs === true ? config.name : null;
  } catch {
    return null;
  }
}

/** As KubeVirt's IPAM controller names it. */
function claimOf(vmi: string, network: string): string {
  return `${vmi}.${network}`
    .toLowerCase()
    .split(/[^a-z0-9-]+/)
    .join(".");
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
