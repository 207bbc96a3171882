import { CLUSTER_NAME_LABEL } from "../../kube/cluster-api.ts";
import { DATA_API_VERSION, INDEX_MAX, INDEXES_OF_ANNOTATION, SECRET_TYPE } from "../../kube/metal3.ts";
import type { OwnerReference } from "../../kube/objects.ts";
import type { DataClaimView, DataTemplateView, MachineDataView } from "../../kube/views/machine-data-view.ts";
import type { NamedView } from "../../kube/views/metal3-machine-view.ts";

const KUBEVIRT_GROUP = "kubevirt.io/";

interface Identity {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
}

/** The parts of a template, which each become a Secret. */
export const PARTS = ["metaData", "networkData"] as const;
export type Part = (typeof PARTS)[number];

/** `group/version` of a collection's path. */
export function apiVersionAt(path: string): string {
  return path.split("/").slice(2, 4).join("/");
}

/** The Metal3Machine that a claim is for; undefined: nobody owns it. */
export function machineOwnerOf({ owners }: Pick<DataClaimView, "owners">): OwnerReference | undefined {
  return owners.find(({ kind, apiVersion }) => kind === "Metal3Machine" && /^infrastructure\./.test(apiVersion));
}

/** The VM that a claim is for; undefined: it is for none. */
export function vmOwnerOf({ owners }: Pick<DataClaimView, "owners">): OwnerReference | undefined {
  return owners.find(({ apiVersion }) => apiVersion.startsWith(KUBEVIRT_GROUP));
}

/** The claim that owns a data object; undefined: none does, or the garbage collector saw that it is gone. */
export function claimOwnerOf({ owners }: Pick<MachineDataView, "owners">): OwnerReference | undefined {
  return owners.find(({ kind }) => kind === "Metal3DataClaim");
}

/** The name of a data object's claim: that of its owner, because `spec.claim` can be edited. */
export function claimNameOf(data: MachineDataView): string {
  return claimOwnerOf(data)?.name ?? data.claim.name;
}

/**
 * Whether a data object is a claim's: by the UID of its owner, by the claim's name where it has none of that kind. A
 * claim that was deleted and made again for the same Metal3Machine gets back what the former one had.
 */
export function isDataOf(data: MachineDataView, claim: Pick<DataClaimView, "name" | "uid" | "owners">): boolean {
  const owner = claimOwnerOf(data);
  if (owner?.uid === claim.uid) return true;
  if (claimNameOf(data) !== claim.name) return false;
  const machine = machineOwnerOf(data);
  return owner === undefined || (machine !== undefined && machine.uid === machineOwnerOf(claim)?.uid);
}

/** `series`: the template that data objects are named after. */
export function dataName(series: string, index: number): string {
  return `${series}-${index}`;
}

/** What the name of a data object says; null: no data object is named so, or no definition accepts its index. */
export function readDataName(name: string): { readonly series: string; readonly index: number } | null {
  const [, series = "", digits] = /^(.+)-(0|[1-9]\d{0,9})$/.exec(name) ?? [];
  return series !== "" && Number(digits) <= INDEX_MAX ? { series, index: Number(digits) } : null;
}

export function secretName(machine: string, part: Part): string {
  return `${machine}-${part.toLowerCase()}`;
}

export function claimBody(machine: NamedView, template: string, machineApiVersion: string): object {
  const { name, namespace, labels } = machine;
  return {
    apiVersion: DATA_API_VERSION,
    kind: "Metal3DataClaim",
    metadata: {
      name,
      namespace,
      labels,
      ownerReferences: [ownerReference(machine, machineApiVersion, "Metal3Machine", { controller: true })],
    },
    spec: { template: { name: template, namespace } },
  };
}

/** The claim of a VM. Without labels: that of a cluster is about the cluster that the VM is a node of. */
export function vmClaimBody(namespace: string, vm: OwnerReference, template: string): object {
  const { apiVersion, kind, name } = vm;
  const ownerReferences = [ownerReference(vm, apiVersion, kind, { controller: true })];
  return {
    apiVersion: DATA_API_VERSION,
    kind: "Metal3DataClaim",
    metadata: { name, namespace, ownerReferences },
    spec: { template: { name: template, namespace } },
  };
}

/** The data object of a claim under an index, with the names of the Secrets that it will have: a VM's has none. */
export function dataBody(claim: DataClaimView, template: DataTemplateView, index: number): object {
  const { namespace, labels } = claim;
  const machine = machineOwnerOf(claim);
  const machineName = machine?.name ?? claim.name;
  const parts = vmOwnerOf(claim) === undefined ? PARTS.filter((part) => template.spec[part] != null) : [];
  const secrets = parts.map((part) => [part, { name: secretName(machineName, part), namespace }]);
  const owner = ownerReference(claim, DATA_API_VERSION, "Metal3DataClaim", { controller: true });
  const { apiVersion = "", kind = "", name = "", uid = "" } = machine ?? {};
  return {
    apiVersion: DATA_API_VERSION,
    kind: "Metal3Data",
    metadata: {
      name: dataName(template.series, index),
      namespace,
      labels,
      ...(template.series === template.name ? {} : { annotations: { [INDEXES_OF_ANNOTATION]: template.series } }),
      ownerReferences: machine === undefined ? [owner] : [owner, { apiVersion, kind, name, uid }],
    },
    spec: {
      index,
      claim: { name: claim.name, namespace },
      template: { name: template.name, namespace },
      ...Object.fromEntries(secrets),
    },
  };
}

export function secretBody(data: MachineDataView, name: string, part: Part, text: string): object {
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name,
      namespace: data.namespace,
      labels: clusterLabel(data),
      ownerReferences: [dataOwner(data)],
    },
    type: SECRET_TYPE,
    data: { [part]: Buffer.from(text).toString("base64") },
  };
}

/** The claim of an address for a data object. `apiVersion`: the one that is served. */
export function addressClaimBody(
  data: MachineDataView,
  name: string,
  pool: { readonly apiGroup: string; readonly kind: string; readonly name: string },
  apiVersion: string,
): object {
  return {
    apiVersion,
    kind: "IPAddressClaim",
    metadata: {
      name,
      namespace: data.namespace,
      labels: clusterLabel(data),
      ownerReferences: [dataOwner(data)],
    },
    spec: { poolRef: { apiGroup: pool.apiGroup, kind: pool.kind, name: pool.name } },
  };
}

export function eventObject(kind: string, { namespace, name, uid }: Identity) {
  return { apiVersion: DATA_API_VERSION, kind, namespace, name, uid };
}

function clusterLabel({ labels }: MachineDataView): Record<string, string> {
  const cluster = labels[CLUSTER_NAME_LABEL];
  return cluster === undefined ? {} : { [CLUSTER_NAME_LABEL]: cluster };
}

function dataOwner(data: MachineDataView): object {
  return ownerReference(data, DATA_API_VERSION, "Metal3Data", { controller: true });
}

function ownerReference(
  { name, uid }: Pick<Identity, "name" | "uid">,
  apiVersion: string,
  kind: string,
  more: { readonly controller: boolean },
): object {
  return { apiVersion, kind, name, uid, ...more };
}
