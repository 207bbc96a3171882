import { fromAllocationOwner } from "../../allocations/owners.ts";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { isMachine, isPreallocation } from "../../ipam/owner.ts";
import { CAPI_IPAM_GROUP } from "../../kube/cluster-api.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import type { AllocationOwner, OwnerReference } from "../../kube/objects.ts";
import { MalformedObjectError, readOwners } from "../../kube/views/object-metadata.ts";
import type { OwnerChain, OwnerLink, OwnersQuestion } from "../admin-api.ts";
import { ClusterProblem } from "./asking/cluster-problem.ts";
import { allocationsAt } from "./snapshot.ts";

/** Longer than any chain from a claim to its cluster; ends one that goes in a circle. */
const LINKS_MAX = 10;
const INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io";
const CAPI = "cluster.x-k8s.io";
/** The kinds on the way from a claim to its cluster, of which the role holdfast-viewer may read objects. */
const KINDS: Readonly<Record<string, { readonly group: string; readonly plural: string }>> = {
  IPAddressClaim: { group: CAPI_IPAM_GROUP, plural: "ipaddressclaims" },
  Metal3Data: { group: INFRASTRUCTURE, plural: "metal3datas" },
  Metal3DataClaim: { group: INFRASTRUCTURE, plural: "metal3dataclaims" },
  Metal3Machine: { group: INFRASTRUCTURE, plural: "metal3machines" },
  VSphereVM: { group: INFRASTRUCTURE, plural: "vspherevms" },
  VSphereMachine: { group: INFRASTRUCTURE, plural: "vspheremachines" },
  Machine: { group: CAPI, plural: "machines" },
  MachineSet: { group: CAPI, plural: "machinesets" },
  MachineDeployment: { group: CAPI, plural: "machinedeployments" },
  KubeadmControlPlane: { group: "controlplane.cluster.x-k8s.io", plural: "kubeadmcontrolplanes" },
};
/** Tried where the reference does not tell the version, or tells one that is not served any more. */
const VERSIONS = ["v1beta2", "v1beta1", "v1alpha1"];

/** Who has the addresses of machines, each with its owners up to its cluster, as they are now. */
export async function ownerChains(
  api: KubeApi,
  { address, network }: OwnersQuestion,
  deadlineMs: number,
): Promise<OwnerChain[]> {
  const found = (await allocationsAt(api, address, network)).filter(
    ({ spec, status }) => status?.state === "Bound" && isMachine(fromAllocationOwner(spec.owner).kind),
  );
  const chains: OwnerChain[] = [];
  for (const { spec } of found) {
    const { network: of, address: text, owner } = spec;
    const cluster = owner.cluster ? `${owner.namespace}/${owner.cluster}` : null;
    chains.push({ network: of, address: text, cluster, owners: await linksOf(api, owner, deadlineMs) });
  }
  return chains;
}

async function linksOf(api: KubeApi, owner: AllocationOwner, deadlineMs: number): Promise<OwnerLink[]> {
  const { kind, namespace, name, uid } = owner;
  if (isPreallocation(owner)) return [{ kind, namespace, name, state: "to-come" }];
  const links: OwnerLink[] = [];
  let next: Pick<OwnerReference, "kind" | "name" | "uid" | "apiVersion"> | null = {
    ...{ kind, name, uid },
    apiVersion: "",
  };
  while (next !== null && links.length < LINKS_MAX) {
    const link = { kind: next.kind, namespace, name: next.name };
    const object: unknown = await read(api, next, namespace, deadlineMs);
    const isGone: boolean = object === "gone" || (isObject(object) && uidOf(object) !== next.uid);
    links.push({ ...link, state: isGone ? "gone" : object === "not-read" ? "not-read" : "there" });
    next = isGone || object === "not-read" ? null : ownerOf(object);
  }
  return links;
}

/** Only of the kinds above: whoever writes owner references must not choose what is read. */
async function read(
  api: KubeApi,
  { kind, name, apiVersion }: Pick<OwnerReference, "kind" | "name" | "apiVersion">,
  namespace: string,
  deadlineMs: number,
): Promise<unknown> {
  const known = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  const [group, version = ""] = apiVersion.split("/");
  if (known === undefined || (apiVersion !== "" && group !== known.group)) return "not-read";
  const versions = VERSIONS.includes(version) ? [version, ...VERSIONS] : VERSIONS;
  for (const one of new Set(versions)) {
    const collection = `/apis/${known.group}/${one}/namespaces/${encodeURIComponent(namespace)}/${known.plural}`;
    try {
      const reading = await new ObjectClient(api).get(`${collection}/${encodeURIComponent(name)}`, deadlineMs);
      if (reading.kind === "not-served") continue;
      if (reading.kind === "present") return reading.object;
      return reading.kind === "absent" ? "gone" : "not-read";
    } catch (error) {
      if (error instanceof ClusterProblem && error.kind === "refused") return "not-read";
      throw error;
    }
  }
  return "not-read";
}

/** The one that controls it, else the first one. */
function ownerOf(object: unknown): OwnerReference | null {
  try {
    const owners = readOwners(object, "owner");
    return owners.find(({ controller }) => controller === true) ?? owners[0] ?? null;
  } catch (error) {
    if (error instanceof MalformedObjectError) return null;
    throw error;
  }
}

function uidOf(object: { readonly metadata?: unknown }): unknown {
  return isObject(object.metadata) ? object.metadata.uid : undefined;
}
