/*
 * admin/cluster/doctor/: `holdfast doctor` on a cluster: whether everything is there that Holdfast needs
 *
 *   doctor        the order of what is examined; the API server's version and clock; nodes: a daemon on each, and the
 *                 plugin binary where its runtime looks; DaemonSet and Deployment of Holdfast, Multus, the
 *                 controller that creates claims
 *   definitions   the kinds of objects that it serves, ours and those of others
 *   reading       requests whose refusal is no fault of the cluster
 */

import type { KubeApi } from "../../../kube/kube-api.ts";
import { NODES_PATH, PODS_PATH } from "../../../kube/objects.ts";
import { VMS_PATH } from "../../../kube/views/tenant-objects.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { part } from "../../diagnosis.ts";
import { type Distribution, PLUGIN_DIRECTORIES } from "../../plugin-directories.ts";
import { ifPermitted, listObjects } from "../asking/lists.ts";
import { examineDefinitions } from "./definitions.ts";
import { get, unlessRefused } from "./reading.ts";

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

const DAEMONSETS_PATH = "/apis/apps/v1/daemonsets";
const DEPLOYMENTS_PATH = "/apis/apps/v1/deployments";
const INSTALL = "kubectl apply -f holdfast.yaml (docs/release.md)";
/** Of deployments by upstream's manifest, and by the HyperConverged operator's. */
const CLAIM_CREATOR = "kubevirt-ipam-controller";

interface Workload {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly spec?: { readonly replicas?: number; readonly template?: { readonly spec?: PodSpec } };
  readonly status?: Readonly<Record<string, number | undefined>>;
}

interface PodSpec {
  readonly containers?: readonly { readonly image?: string }[];
  readonly volumes?: readonly { readonly name?: string; readonly hostPath?: { readonly path?: string } }[];
}

/** In any namespace. */
function workloadsOf(api: KubeApi, kind: "daemonsets" | "deployments", component: string): Promise<Workload[]> {
  const path = kind === "daemonsets" ? DAEMONSETS_PATH : DEPLOYMENTS_PATH;
  return listObjects<Workload>(api, path, { query: labelsOf(component) });
}

function labelsOf(component: string): { readonly labelSelector: string } {
  return { labelSelector: `app.kubernetes.io/name=holdfast,app.kubernetes.io/component=${component}` };
}

async function examineDaemons(api: KubeApi): Promise<Diagnosis[]> {
  const { ok, warning, failed } = part("daemons");
  const [daemonSet] = await workloadsOf(api, "daemonsets", "node");
  if (daemonSet === undefined) return failed("there is no DaemonSet of Holdfast", INSTALL);
  const { namespace, name } = daemonSet.metadata;
  const { desiredNumberScheduled: wanted = 0, numberReady: ready = 0 } = daemonSet.status ?? {};
  const { updatedNumberScheduled: updated = 0 } = daemonSet.status ?? {};
  if (ready < wanted)
    return failed(
      `${ready} of ${wanted} are ready`,
      `kubectl -n ${namespace} get pods -o wide, then kubectl -n ${namespace} describe pod of one that is not`,
    );
  const [deployment] = await workloadsOf(api, "deployments", "controller");
  const images = [daemonSet, deployment].map((one) => one?.spec?.template?.spec?.containers?.[0]?.image ?? "");
  const release = (image: string) => image.replace(/-slim(?=@|$)/, "");
  if (deployment !== undefined && release(images[0] as string) !== release(images[1] as string))
    return warning(`daemons run ${images[0]}, the controller ${images[1]}`, "give both the image of one release");
  if (updated < wanted)
    return warning(
      `${updated} of ${wanted} run the present image`,
      `kubectl -n ${namespace} rollout status daemonset/${name}`,
    );
  return ok(`${ready} of ${wanted} are ready, image ${images[0]}`);
}

async function examineController(api: KubeApi): Promise<Diagnosis[]> {
  const { ok, warning, failed } = part("controller");
  const [deployment] = await workloadsOf(api, "deployments", "controller");
  if (deployment === undefined) return failed("there is no Deployment of Holdfast: nothing is ever released", INSTALL);
  const { namespace, name } = deployment.metadata;
  const { readyReplicas: ready = 0 } = deployment.status ?? {};
  const wanted = deployment.spec?.replicas ?? 1;
  if (ready === 0)
    return failed(
      `none of ${wanted} is ready: nothing is released, and no new network is imported`,
      `kubectl -n ${namespace} describe deployment ${name}; kubectl -n ${namespace} logs deployment/${name}`,
    );
  const lease = await get(api, `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/holdfast-controller`);
  const leads = lease.status === 200 ? String(lease.body?.spec?.holderIdentity ?? "") : "";
  const nodes = (await ifPermitted(() => listObjects(api, NODES_PATH, { metadataOnly: true }))).length;
  const scale = `kubectl -n ${namespace} scale deployment ${name} --replicas`;
  if (ready < wanted && nodes > 0 && nodes < wanted)
    return warning(
      `${ready} of ${wanted} are ready: each uses a port of its node, and there is room for ${nodes}`,
      `${scale}=${nodes} (with Helm: --set controller.replicas=${nodes})`,
    );
  if (ready < wanted)
    return warning(
      `${ready} of ${wanted} are ready: nobody takes over when it ends`,
      `kubectl -n ${namespace} describe deployment ${name}`,
    );
  const leader = leads === "" ? "nobody leads now" : `${leads} leads`;
  const alone = wanted === 1 && nodes > 1 ? `; ${scale}=2 adds one that takes over within 18 s` : "";
  return ok(`${ready} of ${wanted} ready; ${leader}${alone}`);
}

async function examineMultus(api: KubeApi): Promise<Diagnosis[]> {
  const { ok, warning, failed } = part("Multus");
  const all = await listObjects<Workload>(api, DAEMONSETS_PATH);
  const multus = all.filter(({ metadata }) => /multus/.test(metadata.name));
  if (multus.length === 0)
    return warning(
      "there is no DaemonSet with multus in its name: pods get no secondary interfaces",
      "install it, unless something else here calls CNI plugins of NetworkAttachmentDefinitions",
    );
  return multus.flatMap(({ metadata, status = {} }) => {
    const { desiredNumberScheduled: wanted = 0, numberReady: ready = 0 } = status;
    const found = `${metadata.namespace}/${metadata.name}: ${ready} of ${wanted} are ready`;
    if (ready >= wanted) return ok(found);
    return failed(found, `kubectl -n ${metadata.namespace} describe daemonset ${metadata.name}`);
  });
}

/** Nothing in a cluster without KubeVirt. */
async function examineClaimCreator(api: KubeApi): Promise<Diagnosis[]> {
  const { ok, warning } = part("claims of VMs");
  const { body } = await get(api, VMS_PATH.replace(/\/[^/]+$/, ""));
  if (body?.resources === undefined) return [];
  const all = await listObjects<Workload>(api, DEPLOYMENTS_PATH);
  const creators = all.filter(({ metadata }) => metadata.name.startsWith(CLAIM_CREATOR));
  const [ready] = creators.filter(({ status = {} }) => (status.readyReplicas ?? 0) > 0);
  if (ready !== undefined) return ok(`${ready.metadata.namespace}/${ready.metadata.name} creates them`);
  return warning(
    creators.length > 0
      ? `${creators[0]?.metadata.namespace}/${creators[0]?.metadata.name} is not ready: new VMs start without claims`
      : `there is no Deployment ${CLAIM_CREATOR}-manager: without claims VMs lose their addresses when they stop`,
    "install https://github.com/kubevirt/ipam-extensions (HyperConverged: its feature gate), unless something else creates IPAMClaims",
  );
}
