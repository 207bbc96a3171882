import { type ClaimCondition, mergeCondition } from "../../../ipam/claim-conditions.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { changeNetworkObject } from "../../../kube/network-object.ts";
import type { IPNetwork } from "../../../kube/objects.ts";
import { isoTime } from "../../../platform/time.ts";

/** The condition of an IPNetwork: allocations were lost, and new owners get no address until all are restored. */
const RECOVERING = "Recovering";

/** What is said of a network that recovers. */
export function whyRecovering(network: string): string {
  return `network ${network} recovers: its allocations had been taken away, and no new address of it is given meanwhile`;
}

/** A different string for each time that a network was marked; null: it is not recovering. */
export function recoveryMark(object: Pick<IPNetwork, "status"> | null): string | null {
  const condition = object?.status?.conditions?.find(({ type }) => type === RECOVERING);
  return condition?.status === "True" ? condition.message : null;
}

/** Marks a network; `message`: who found what missing, and when. Does nothing without an IPNetwork. Throws ApiAway. */
export async function markRecovering(api: KubeApi, network: string, message: string): Promise<void> {
  const condition = { type: RECOVERING, status: "True", reason: "AllocationsMissing", message } as const;
  await writeCondition(api, network, condition, () => true);
}

/** Ends the recovery for a mark, unless the network has been marked again. Throws ApiAway. */
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
      return { kind: "write", fields: { status: { conditions } }, afterWrite: () => {} };
    },
    failed: `the condition ${RECOVERING} of network ${network} was not written`,
    priority: "add",
  });
}
