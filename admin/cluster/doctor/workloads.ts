import type { KubeApi } from "../../../kube/kube-api.ts";
import { NODES_PATH } from "../../../kube/objects.ts";
import { VMS_PATH } from "../../../kube/views/tenant-objects.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { part } from "../../diagnosis.ts";
import { ifPermitted, listObjects } from "../asking/lists.ts";
import { get } from "./reading.ts";

const DAEMONSETS_PATH = "/apis/apps/v1/daemonsets";
const DEPLOYMENTS_PATH = "/apis/apps/v1/deployments";
const INSTALL = "kubectl apply -f holdfast.yaml (docs/release.md)";
/** Of deployments by upstream's manifest, and by the HyperConverged operator's. */
const CLAIM_CREATOR = "kubevirt-ipam-controller";

export interface Workload {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly spec?: { readonly replicas?: number; readonly template?: { readonly spec?: PodSpec } };
  readonly status?: Readonly<Record<string, number | undefined>>;
}

interface PodSpec {
  readonly containers?: readonly { readonly image?: string }[];
  readonly volumes?: readonly { readonly name?: string; readonly hostPath?: { readonly path?: string } }[];
}

/** In any namespace. */
export function workloadsOf(api: KubeApi, kind: "daemonsets" | "deployments", component: string): Promise<Workload[]> {
  const path = kind === "daemonsets" ? DAEMONSETS_PATH : DEPLOYMENTS_PATH;
  return listObjects<Workload>(api, path, { query: labelsOf(component) });
}

export function labelsOf(component: string): { readonly labelSelector: string } {
  return { labelSelector: `app.kubernetes.io/name=holdfast,app.kubernetes.io/component=${component}` };
}

export async function examineDaemons(api: KubeApi): Promise<Diagnosis[]> {
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

export async function examineController(api: KubeApi): Promise<Diagnosis[]> {
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

export async function examineMultus(api: KubeApi): Promise<Diagnosis[]> {
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
export async function examineClaimCreator(api: KubeApi): Promise<Diagnosis[]> {
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
