import { RefusalError } from "../../ipam/refusals.ts";
import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { KubeConfigError, type KubeFiles, loadKubeConfig } from "../../kube/http/kube-config.ts";
import { kubeconfigFile } from "../../platform/settings/cluster.ts";
import { systemClock } from "../../platform/time.ts";
import type { Following } from "../following.ts";
import { answerInProcess, type InProcessRequest } from "../in-process.ts";
import { AskingApi } from "./asking/asking-api.ts";
import { ClusterProblem } from "./asking/cluster-problem.ts";
import { ClusterAdmin } from "./cluster-admin.ts";
import { follow } from "./follow.ts";

/** The outcome of a request. Not thrown: this bundle has other error classes than the command line. */
type ClusterAnswer =
  | { readonly kind: "answered"; readonly body: unknown }
  | {
      /** `refused`: by the cluster or by us. `away`: the cluster cannot be reached. */
      readonly kind: "refused" | "away";
      readonly code: string;
      readonly message: string;
      readonly hint: string;
    };

/** Entry of the bundle `cluster`: answers the requests of a daemon's socket API from the objects of a cluster. */
export async function askCluster(
  { kubeconfig, silenceMs }: { readonly kubeconfig: KubeFiles; readonly silenceMs: number },
  request: InProcessRequest,
): Promise<ClusterAnswer> {
  let http: HttpKubeApi | null = null;
  try {
    const connection = connect(kubeconfig);
    http = new HttpKubeApi(connection, systemClock);
    const api = new AskingApi(http, { server: connection.server.origin, silenceMs });
    const body = await answerInProcess(new ClusterAdmin({ api, silenceMs }), request);
    return { kind: "answered", body };
  } catch (error) {
    if (error instanceof ClusterProblem) {
      const { kind, message, hint } = error;
      return { kind, code: "", message, hint };
    }
    if (!(error instanceof RefusalError)) throw error;
    const { code, message, hint } = error.refusal;
    return { kind: "refused", code, message, hint };
  } finally {
    http?.close();
  }
}

/** Reports what a cluster has, then what changes, until the signal aborts. Throws ClusterProblem. */
export async function followCluster(
  { kubeconfig, silenceMs }: { readonly kubeconfig: KubeFiles; readonly silenceMs: number },
  following: Following,
  signal: AbortSignal,
): Promise<void> {
  const connection = connect(kubeconfig);
  const http = new HttpKubeApi(connection, systemClock);
  const admin = new ClusterAdmin({
    api: new AskingApi(http, { server: connection.server.origin, silenceMs }),
    silenceMs,
  });
  try {
    await follow({ api: http, networks: () => admin.networks({ counted: false }) }, following, signal);
  } finally {
    http.close();
  }
}

/** Where the API server is. Throws ClusterProblem. */
export function serverOf(kubeconfig: KubeFiles): string {
  return connect(kubeconfig).server.origin;
}

function connect(kubeconfig: KubeFiles) {
  const [only = "", ...others] = kubeconfig.files;
  try {
    const inPod = others.length === 0 && kubeconfigFile(only) === null;
    return loadKubeConfig(inPod ? null : kubeconfig);
  } catch (error) {
    if (!(error instanceof KubeConfigError)) throw error;
    throw new ClusterProblem("away", error.problem, error.hint);
  }
}
