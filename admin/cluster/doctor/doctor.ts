/*
 * admin/cluster/doctor/: `holdfast doctor` on a cluster: whether everything is there that Holdfast needs
 *
 *   doctor        the order of what is examined; the API server's version and clock; nodes: a daemon on each, and the
 *                 plugin binary where its runtime looks
 *   definitions   the kinds of objects that it serves, ours and those of others
 *   workloads     DaemonSet and Deployment of Holdfast, Multus, the controller that creates claims
 *   reading       requests whose refusal is no fault of the cluster
 */

import type { KubeApi } from "../../../kube/kube-api.ts";
import { NODES_PATH, PODS_PATH } from "../../../kube/objects.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { part } from "../../diagnosis.ts";
import { type Distribution, PLUGIN_DIRECTORIES } from "../../plugin-directories.ts";
import { listObjects } from "../asking/lists.ts";
import { examineDefinitions } from "./definitions.ts";
import { get, unlessRefused } from "./reading.ts";
import {
  examineClaimCreator,
  examineController,
  examineDaemons,
  examineMultus,
  labelsOf,
  workloadsOf,
} from "./workloads.ts";

/** Reads only. Rejects with ClusterProblem when the cluster does not answer. */
export async function examineCluster(api: KubeApi): Promise<Diagnosis[]> {
  const parts: readonly (readonly [part: string, examine: (api: KubeApi) => Promise<Diagnosis[]>])[] = [
    ["API server", examineServer],
    ["definitions", examineDefinitions],
    ["daemons", examineDaemons],
    ["nodes", examineNodes],
    ["controller", examineController],
    ["Multus", examineMultus],
    ["claims of VMs", examineClaimCreator],
  ];
  const found: Diagnosis[] = [];
  for (const [part, examine] of parts) found.push(...(await unlessRefused(part, () => examine(api))));
  return found;
}

/** The oldest that the tests run against. */
const MINOR_MIN = 20;
/** From it on admission policies exist (deploy/admission). */
const MINOR_WITH_POLICIES = 30;
/** A difference of clocks beyond it makes ages and times misleading, s. */
const SKEW_SECONDS_MAX = 5;

async function examineServer(api: KubeApi): Promise<Diagnosis[]> {
  const { body, serverMs } = await get(api, "/version");
  return [...versionOf(String(body?.gitVersion ?? "unknown")), ...skewOf(api, serverMs)];
}

function versionOf(version: string): Diagnosis[] {
  const { ok, warning } = part("API server");
  const [, minor] = /^v1\.(\d+)/.exec(version) ?? [];
  if (minor === undefined || Number(minor) < MINOR_MIN)
    return warning(`Kubernetes ${version}`, `Holdfast is tested with 1.${MINOR_MIN} and later`);
  const policies = Number(minor) < MINOR_WITH_POLICIES ? `; admission policies need 1.${MINOR_WITH_POLICIES}` : "";
  return ok(`Kubernetes ${version}${policies}`);
}

function skewOf(api: KubeApi, serverMs: number | null): Diagnosis[] {
  const { ok, warning, unknown } = part("clocks");
  if (serverMs === null) return unknown("the API server sends no time");
  // The server's Date header has whole seconds.
  const seconds = Math.round((api.clock.wallMs() - serverMs) / 1_000);
  if (Math.abs(seconds) <= SKEW_SECONDS_MAX) return ok("this machine's and the API server's agree");
  return warning(
    `this machine's is ${Math.abs(seconds)} s ${seconds > 0 ? "ahead of" : "behind"} the API server's: ages are shown wrong; addresses are not affected`,
    "synchronise both by NTP",
  );
}

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

async function examineNodes(api: KubeApi): Promise<Diagnosis[]> {
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
