import type { KubeAnswer, KubeApi } from "../../../kube/kube-api.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { part } from "../../diagnosis.ts";
import { ClusterProblem } from "../asking/cluster-problem.ts";
import { isRefusal } from "../asking/lists.ts";

/** For one request, ms. */
const REQUEST_MS = 10_000;

export function get(api: KubeApi, path: string): Promise<KubeAnswer> {
  const deadlineMs = api.clock.monotonicMs() + REQUEST_MS;
  return api.send({ method: "GET", path, priority: "housekeeping", deadlineMs });
}

/** What the user of the kubeconfig may not see is unknown, and no fault. */
export async function unlessRefused(name: string, examine: () => Promise<Diagnosis[]>): Promise<Diagnosis[]> {
  try {
    return await examine();
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const fix = error instanceof ClusterProblem ? error.hint : "give the user of the kubeconfig this right";
    return part(name).unknown(error.message, fix);
  }
}
