import type { KubeApi } from "../../../kube/kube-api.ts";
import { NODES_PATH, PODS_PATH } from "../../../kube/objects.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { part } from "../../diagnosis.ts";
import { type Distribution, PLUGIN_DIRECTORIES } from "../../plugin-directories.ts";
import { listObjects } from "../asking/lists.ts";
import { labelsOf, workloadsOf } from "./workloads.ts";

/** Names in one line; more would hide the remedy. */
const NAMES_MAX = 5;

interface Node {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly status?: {
    readonly nodeInfo?: Readonly<Record<"kubeletVersion" | "osImage" | "operatingSystem", string>>;
  };
}

interface DaemonPod {
  readonly spec?: { readonly nodeName?: string };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

export async function examineNodes(api: KubeApi): Promise<Diagnosis[]> {
  const [daemonSet] = await workloadsOf(api, "daemonsets", "node");
  if (daemonSet === undefined) return [];
  const nodes = (await listObjects<Node>(api, NODES_PATH)).filter(
    ({ status }) => (status?.nodeInfo?.operatingSystem ?? "linux") === "linux",
  );
  const pods = await listObjects<DaemonPod>(api, PODS_PATH, { query: labelsOf("node") });
  const volumes = daemonSet.spec?.template?.spec?.volumes ?? [];
  const directory = volumes.find(({ name }) => name === "plugins")?.hostPath?.path ?? "";
  return [...served(nodes, pods), ...directories(nodes, directory)];
}

function served(nodes: readonly Node[], pods: readonly DaemonPod[]): Diagnosis[] {
  const { ok, warning } = part("nodes");
  const isReady = ({ status }: DaemonPod) =>
    status?.conditions?.some(({ type, status: state }) => type === "Ready" && state === "True");
  const ready = new Set(pods.filter(isReady).map(({ spec }) => spec?.nodeName));
  const without = nodes.map(({ metadata }) => metadata.name).filter((name) => !ready.has(name));
  if (without.length === 0) return ok(`each of ${nodes.length} has a daemon that is ready`);
  return warning(
    `no daemon is ready on ${listed(without)}: pods there get no address of Holdfast`,
    "a nodeSelector or an affinity of the DaemonSet may leave them out; kubectl get pods -A -o wide -l app.kubernetes.io/component=node shows the others",
  );
}

function directories(nodes: readonly Node[], directory: string): Diagnosis[] {
  const { ok, failed } = part("plugin directory");
  const elsewhere = new Map<string, string[]>();
  for (const node of nodes) {
    const distribution = distributionOf(node);
    if (distribution === null) continue;
    const expected: readonly string[] = PLUGIN_DIRECTORIES[distribution];
    if (expected.includes(directory)) continue;
    const key = `${distribution} looks for plugins in ${expected[0]}`;
    elsewhere.set(key, [...(elsewhere.get(key) ?? []), node.metadata.name]);
  }
  if (elsewhere.size === 0) return ok(directory);
  return [...elsewhere].flatMap(([why, names]) =>
    failed(
      `the DaemonSet installs into ${directory}, but on ${listed(names)} ${why}`,
      "set the hostPath of the DaemonSet's volume plugins (docs/kubernetes.md, Distributions)",
    ),
  );
}

/** By what a kubelet says of itself. null: elsewhere the directory is whatever its administrator has chosen. */
function distributionOf({ metadata, status }: Node): Distribution | null {
  const { kubeletVersion = "", osImage = "" } = status?.nodeInfo ?? {};
  const labels = Object.keys(metadata.labels ?? {});
  if (kubeletVersion.includes("+k3s")) return "k3s";
  if (kubeletVersion.includes("+rke2")) return "RKE2";
  if (kubeletVersion.includes("-gke.")) return "GKE";
  if (/CoreOS/.test(osImage) && labels.some((key) => key.includes("openshift"))) return "OpenShift";
  return labels.includes("microk8s.io/cluster") ? "microk8s" : null;
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_MAX).join(", ");
  return names.length > NAMES_MAX ? `${shown} and ${names.length - NAMES_MAX} more` : shown;
}
