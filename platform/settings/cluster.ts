import { IN_CLUSTER } from "./common.ts";
import type { Environment } from "./load.ts";

/** Which cluster a process of a node serves. null: the node stands alone. `kubeconfig` null: as a pod of the cluster. */
export type Cluster = { readonly kubeconfig: string | null } | null;

export function clusterOf(kubeconfig: string | undefined, env: Environment): Cluster {
  if (kubeconfig !== undefined) return { kubeconfig: kubeconfigFile(kubeconfig) };
  // A pod without a token must fail and say so: alone, each node would give out the same addresses.
  return env.KUBERNETES_SERVICE_HOST ? { kubeconfig: null } : null;
}

/** The path that the setting is; null: as a pod of the cluster. */
export function kubeconfigFile(kubeconfig: string): string | null {
  return kubeconfig === IN_CLUSTER ? null : kubeconfig;
}
