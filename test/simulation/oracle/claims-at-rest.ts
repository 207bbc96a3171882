import type { PossessionParts } from "./possession.ts";
import { NETWORKS, type PlainStore, PODS } from "./view.ts";
import { violation } from "./violation.ts";

/** What one interface can have, of each subnet and family, with room for ranges that were edited. */
const ADDRESSES_PER_SUBNET = 2;
const SUBNETS_MIN = 2;

/** A claim in use names the pod that uses it, and not one that is gone. A pod that has ended uses nothing any more. */
export function checkOwnerPods({ claims, interfaces, pods }: PossessionParts, etcd: PlainStore): void {
  for (const claim of claims.all()) {
    const named: string | undefined = claim.object.status?.ownerPod?.name;
    if (named === undefined || etcd.get(PODS, `${claim.object.metadata.namespace}/${named}`) !== null)
      continue;
    const users = claim.places
      .flatMap((place) => interfaces.at(place))
      .filter(({ owner }) => owner?.uid === claim.uid);
    const [user] = users;
    const lives = user !== undefined && pods.find(user.one.pod) !== null && !pods.hasEnded(user.one.pod.uid);
    if (lives)
      throw violation(
        "owner-pod",
        `claim ${claim.key} names pod ${named}, which is gone, and pod ${user.one.pod.name} uses it`,
      );
  }
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
