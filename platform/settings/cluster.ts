import { IN_CLUSTER } from "./common.ts";
import type { Environment } from "./load.ts";

/** The cluster of a node's process. null: a standalone node. `kubeconfig` null: as a pod of the cluster. */
export type Cluster = { readonly kubeconfig: string | null } | null;

export function clusterOf(kubeconfig: string | undefined, env: Environment): Cluster {
  if (kubeconfig !== undefined) return { kubeconfig: kubeconfigFile(kubeconfig) };
  // A pod without a token must fail: standalone, each node would allocate the same addresses.
  return env.KUBERNETES_SERVICE_HOST ? { kubeconfig: null } : null;
}

/** The path in the setting; null: as a pod of the cluster. */
export function kubeconfigFile(kubeconfig: string): string | null {
  return kubeconfig === IN_CLUSTER ? null : kubeconfig;
}
