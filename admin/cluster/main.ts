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

interface AskedOptions {
  readonly kubeconfig: KubeFiles;
  readonly silenceMs: number;
}

/** Entry of the bundle `cluster`: answers the requests of a daemon's socket API from the objects of a cluster. */
export class AskedCluster {
  readonly #options: AskedOptions;
  /** Of a list that has more pages: the next one comes over the same connections, by the same credentials. */
  #kept: { readonly token: string; readonly opened: OpenedCluster } | null = null;

  constructor(options: AskedOptions) {
    this.#options = options;
  }

  async ask(request: InProcessRequest): Promise<ClusterAnswer> {
    let opened: OpenedCluster | null = null;
    try {
      opened = this.#takeKept(request.query.continue) ?? open(this.#options);
      const body = await answerInProcess(opened.admin, request);
      const { continue: token } = body as { readonly continue?: string };
      if (token !== undefined) {
        this.#kept?.opened.http.close();
        this.#kept = { token, opened };
        opened = null;
      }
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
      opened?.http.close();
    }
  }

  #takeKept(token: string | undefined): OpenedCluster | null {
    if (this.#kept === null || this.#kept.token !== token) return null;
    const { opened } = this.#kept;
    this.#kept = null;
    return opened;
  }
}

/** Reports what a cluster has, then what changes, until the signal aborts. Throws ClusterProblem. */
export async function followCluster(options: AskedOptions, following: Following, signal: AbortSignal): Promise<void> {
  const { http, admin } = open(options);
  try {
    await follow({ api: http, networks: () => admin.networks({ counted: false }) }, following, signal);
  } finally {
    http.close();
  }
}

interface OpenedCluster {
  readonly http: HttpKubeApi;
  readonly admin: ClusterAdmin;
}

/** With connections of its own. Throws ClusterProblem. */
function open({ kubeconfig, silenceMs }: AskedOptions): OpenedCluster {
  const connection = connect(kubeconfig);
  const http = new HttpKubeApi(connection, systemClock);
  const api = new AskingApi(http, { server: connection.server.origin, silenceMs });
  return { http, admin: new ClusterAdmin({ api, silenceMs }) };
}

/** Throws ClusterProblem. */
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
