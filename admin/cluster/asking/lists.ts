import { type KubeApi, ListRefused, type ListRequest } from "../../../kube/kube-api.ts";
import { ClusterProblem } from "./cluster-problem.ts";

/** Rejects with ClusterProblem and ListRefused. */
export async function listObjects<T>(
  api: KubeApi,
  path: string,
  options: Pick<ListRequest, "metadataOnly" | "query"> = {},
): Promise<T[]> {
  let objects: T[] = [];
  await api.list({
    path,
    ...options,
    each: (object) => objects.push(object),
    restarted: () => {
      objects = [];
    },
  });
  return objects;
}

/** None if they may not be read. */
export async function ifPermitted<T>(read: () => Promise<T[]>): Promise<T[]> {
  try {
    return await read();
  } catch (error) {
    if (isRefusal(error)) return [];
    throw error;
  }
}

/** The server answered, and the user of the kubeconfig may not, or the resource is not there. */
export function isRefusal(error: unknown): error is ListRefused | ClusterProblem {
  return error instanceof ListRefused || (error instanceof ClusterProblem && error.kind === "refused");
}
