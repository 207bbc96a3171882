import { type ClaimCondition, mergeCondition } from "../ipam/claim-conditions.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { IPNetwork } from "../kube/objects.ts";
import { isoTime } from "../platform/time.ts";
import { changeNetworkObject } from "./network-object.ts";

/** The condition of an IPNetwork: allocations were taken away, and nobody new gets an address until all are put back. */
const RECOVERING = "Recovering";

/** A text of its own for each time that a network was marked; null: it does not recover. */
export function recoveryMark(object: Pick<IPNetwork, "status"> | null): string | null {
  const condition = object?.status?.conditions?.find(({ type }) => type === RECOVERING);
  return condition?.status === "True" ? condition.message : null;
}

/** Marks a network; `message` says who found what missing, and when. Does nothing where it has no IPNetwork. Throws ApiAway. */
export async function markRecovering(api: KubeApi, network: string, message: string): Promise<void> {
  const condition = { type: RECOVERING, status: "True", reason: "AllocationsMissing", message } as const;
  await writeCondition(api, network, condition, () => true);
}

/** Ends the recovery that a mark stands for, unless somebody has marked the network again. Throws ApiAway. */
export async function endRecovery(api: KubeApi, network: string, mark: string): Promise<void> {
  const message = "every node that answered has put back what its containers use";
  const condition = { type: RECOVERING, status: "False", reason: "Recovered", message } as const;
  const isSame = (object: IPNetwork) => recoveryMark(object) === mark;
  await writeCondition(api, network, condition, isSame);
}

async function writeCondition(
  api: KubeApi,
  network: string,
  unstamped: Omit<ClaimCondition, "lastTransitionTime">,
  isWanted: (object: IPNetwork) => boolean,
): Promise<void> {
  const condition = { ...unstamped, lastTransitionTime: isoTime(api.clock.wallMs()) };
  await changeNetworkObject<void>(api, network, {
    decide: (object) => {
      if (object === null || !isWanted(object)) return { kind: "leave", result: undefined };
      const conditions = mergeCondition(object.status?.conditions ?? [], condition);
      return { kind: "write", fields: { status: { conditions } }, written: () => {} };
    },
    failed: `the condition ${RECOVERING} of network ${network} was not written`,
    priority: "add",
  });
}
