import { type ClaimCondition, mergeCondition } from "../../../ipam/claim-conditions.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { changeNetworkObject } from "../../../kube/network-object.ts";
import type { IPNetwork } from "../../../kube/objects.ts";
import { isoTime } from "../../../platform/time.ts";

/** The condition of an IPNetwork: allocations were lost, and new owners get no address until all are restored. */
const RECOVERING = "Recovering";

export function whyRecovering(network: string): string {
  return `network ${network} recovers: its allocations had been taken away, and no new address of it is given meanwhile`;
}

export interface RecoveryMark {
  /** Another one for each time; the message where the installed definition drops the field. */
  readonly id: string;
  /** For how long it is in force, s, from when it is first seen; null: it does not say. */
  readonly seconds: number | null;
  /** Who found what missing, and when. */
  readonly message: string;
}

/** null: it is not recovering. */
export function recoveryMark(object: Pick<IPNetwork, "status"> | null): RecoveryMark | null {
  const condition = object?.status?.conditions?.find(({ type }) => type === RECOVERING);
  if (condition?.status !== "True") return null;
  const { message } = condition;
  const { id = message, seconds = null } = object?.status?.recovery ?? {};
  return { id, seconds, message };
}

/** Does nothing without an IPNetwork. Throws ApiAway. */
export async function markRecovering(api: KubeApi, network: string, mark: RecoveryMark): Promise<void> {
  const { id, seconds, message } = mark;
  const condition = { type: RECOVERING, status: "True", reason: "AllocationsMissing", message } as const;
  await writeCondition(api, network, condition, { isWanted: () => true, recovery: { id, seconds } });
}

/** Ends the recovery for a mark, unless the network has been marked again. Throws ApiAway. */
export async function endRecovery(api: KubeApi, network: string, { id }: RecoveryMark): Promise<void> {
  const message = "every node that answered has put back what its containers use";
  const condition = { type: RECOVERING, status: "False", reason: "Recovered", message } as const;
  const isWanted = (object: IPNetwork) => recoveryMark(object)?.id === id;
  await writeCondition(api, network, condition, { isWanted, recovery: null });
}

async function writeCondition(
  api: KubeApi,
  network: string,
  unstamped: Omit<ClaimCondition, "lastTransitionTime">,
  { isWanted, recovery }: { isWanted(object: IPNetwork): boolean; readonly recovery: object | null },
): Promise<void> {
  const condition = { ...unstamped, lastTransitionTime: isoTime(api.clock.wallMs()) };
  await changeNetworkObject<void>(api, network, {
    decide: (object) => {
      if (object === null || !isWanted(object)) return { kind: "leave", result: undefined };
      const conditions = mergeCondition(object.status?.conditions ?? [], condition);
      return { kind: "write", fields: { status: { conditions, recovery } }, afterWrite: () => {} };
    },
    failed: `the condition ${RECOVERING} of network ${network} was not written`,
    priority: "add",
  });
}
