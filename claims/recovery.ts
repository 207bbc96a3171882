import { type ClaimCondition, mergeCondition } from "../ipam/claim-conditions.ts";
import { problemOf } from "../kube/answers.ts";
import { ApiAway, type KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import type { IPNetwork } from "../kube/objects.ts";
import { isoTime } from "../platform/time.ts";
import { readNetworkObject, writeNetworkObject } from "./network-object.ts";

/** The condition of an IPNetwork: allocations were taken away, and nobody new gets an address until all are put back. */
const RECOVERING = "Recovering";
const ATTEMPTS_MAX = 10;
/** For one of them, ms. */
const ATTEMPT_MS_MAX = 10_000;

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

/** Others write counts into the same object: each attempt carries the version just read. */
async function writeCondition(
  api: KubeApi,
  network: string,
  unstamped: Omit<ClaimCondition, "lastTransitionTime">,
  isWanted: (object: IPNetwork) => boolean,
): Promise<void> {
  const objects = new ObjectClient(api, "add");
  const condition = { ...unstamped, lastTransitionTime: isoTime(api.clock.wallMs()) };
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const deadlineMs = api.clock.monotonicMs() + ATTEMPT_MS_MAX;
    const object = await readNetworkObject(api, network, deadlineMs);
    if (object === null || !isWanted(object)) return;
    const conditions = mergeCondition(object.status?.conditions ?? [], condition);
    const written = await writeNetworkObject(
      objects,
      network,
      object,
      { status: { conditions } },
      deadlineMs,
    );
    if (written.kind === "done") return;
    if (written.kind === "refused")
      throw new ApiAway(`IPNetwork ${object.metadata.name}: ${problemOf(written.answer)}`);
  }
  throw new ApiAway(`the condition ${RECOVERING} of network ${network}: others kept writing its IPNetwork`);
}
