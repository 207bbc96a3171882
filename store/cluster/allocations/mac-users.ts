import type { MacUser } from "../../../ipam/duplicate-macs.ts";
import type { IPAllocation } from "../../../kube/objects.ts";
import { TurnBudget } from "../../../kube/turn-budget.ts";
import type { Clock } from "../../../platform/time.ts";
import type { PodIdentity } from "../../records.ts";
import { isSound } from "./allocation-object.ts";
import { describeHolder } from "./owners.ts";

type AllocationWithPods = MacUser & { readonly pods: readonly PodIdentity[] };

/**
 * Allocations with a MAC that containers are attached to. `vmiOf`: the UID of the VMI that a pod runs; null: none. Where a VM has
 * no claim, source and target of its migration are two owners of one machine.
 */
export async function usersOfMacs(
  allocations: Iterable<{ readonly object: IPAllocation }>,
  clock: Clock,
  vmiOf: (pod: { readonly namespace: string; readonly name: string }) => string | null,
): Promise<AllocationWithPods[]> {
  const users: AllocationWithPods[] = [];
  const budget = new TurnBudget(clock);
  for (const { object } of [...allocations]) {
    if (budget.isSpent) await budget.nextTurn();
    const attachments = Object.values(object.status?.attachments ?? {});
    if (object.spec?.mac === undefined || attachments.length === 0 || !isSound(object)) continue;
    const { network, mac, owner } = object.spec;
    const vmi = owner.kind === "Pod" ? vmiOf(owner) : null;
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
