import type { MacUser } from "../ipam/duplicate-macs.ts";
import type { IPAllocation } from "../kube/objects.ts";
import { TurnBudget } from "../kube/turn-budget.ts";
import type { ObjectName } from "../kube/views/claim-reference.ts";
import type { PodView } from "../kube/views/pod-view.ts";
import type { Clock } from "../platform/time.ts";
import { isSound } from "./allocation-object.ts";
import { describeHolder } from "./owners.ts";
import type { PodIdentity } from "./records.ts";

type AllocationWithPods = MacUser & { readonly pods: readonly PodIdentity[] };

/**
 * Allocations with a MAC that containers are attached to, but for those of pods that have ended: their DEL is still to
 * come. Where a VM has no claim, source and target of its migration are two owners of one machine.
 */
export async function usersOfMacs(
  allocations: Iterable<{ readonly object: IPAllocation; readonly hasMac: boolean }>,
  clock: Clock,
  podOf: (pod: ObjectName) => Pick<PodView, "uid" | "terminal" | "vmi"> | undefined,
): Promise<AllocationWithPods[]> {
  const users: AllocationWithPods[] = [];
  const budget = new TurnBudget(clock);
  for (const one of [...allocations]) {
    if (budget.isSpent) await budget.nextTurn();
    if (!one.hasMac) continue;
    const { object } = one;
    const attachments = Object.values(object.status?.attachments ?? {}).filter(({ pod }) => {
      const known = pod && podOf(pod);
      return known === undefined || !known.terminal || known.uid !== pod?.uid;
    });
    if (object.spec.mac === undefined || attachments.length === 0 || !isSound(object)) continue;
    const { network, mac, owner } = object.spec;
    const vmi = owner.kind === "Pod" ? podOf(owner)?.vmi?.uid : null;
    users.push({
      network,
      mac,
      owner: `${vmi ?? owner.uid} ${owner.interface}`,
      who: describeHolder(owner),
      pods: attachments.flatMap(({ pod }) => (pod === undefined ? [] : [pod])),
    });
  }
  return users;
}
