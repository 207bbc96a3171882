import { describeHolder } from "../../allocations/owners.ts";
import type { Finding } from "../../ipam/finding.ts";
import { recoveryMark } from "../../store/cluster/contact/recovery.ts";
import type { Grace } from "./grace.ts";
import type { ClusterSnapshot } from "./snapshot.ts";

/** After a restore: networks where no new owner gets an address, and claims in use that list nothing. */
export function checkRecovery(snapshot: ClusterSnapshot, grace: Grace): Finding[] {
  return [...recoveringNetworks(snapshot), ...emptyClaims(snapshot, grace)];
}

function recoveringNetworks({ networks }: ClusterSnapshot): Finding[] {
  return [...networks.values()].flatMap((object) => {
    const mark = recoveryMark(object);
    if (mark === null) return [];
    const message = `network ${object.spec?.network} recovers, and no new address of it is given meanwhile: ${mark}`;
    const hint =
      "allocations were taken away (a restored etcd, or IPAllocations deleted by force); it ends by itself once no node has anything more to put back; see the daemons' logs when it stays";
    return [{ invariant: "recovery", message, hint }];
  });
}

function emptyClaims({ allocations, claims }: ClusterSnapshot, grace: Grace): Finding[] {
  const empty = new Map([...claims.items.values()].map((claim) => [claim.uid, claim]));
  for (const [uid, { ips }] of empty) if (ips.length > 0) empty.delete(uid);
  return [...allocations.values()].flatMap(({ object: { spec, status } }) => {
    const claim = spec?.owner?.kind === "IPAMClaim" ? empty.get(spec.owner.uid) : undefined;
    const users = Object.values(status?.attachments ?? {});
    if (claim === undefined || status?.state !== "Bound" || users.length === 0) return [];
    if (!grace.isOver(status.since)) return [];
    const [user] = users;
    const message = `${spec.address} of network ${spec.network} is in use by ${describeHolder(spec.owner)}, which lists no address`;
    const hint = `the daemon of node ${user?.node} publishes the list again when it compares what it holds with the API: at its start, after each loss of contact, and when holdfast check on that node finds this`;
    return [{ invariant: "I2", message, hint }];
  });
}
