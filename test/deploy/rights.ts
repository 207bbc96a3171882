import type { ClusterUser, TestCluster } from "../harness/cluster.ts";

/** What the API server is asked about a service account. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  /** With its slash, or empty. */
  readonly subresource: string;
  /** Empty: in all of them. */
  readonly namespace: string;
}

const OURS = "ipam.holdfast.dev";
const CNI = "k8s.cni.cncf.io";
const OVN = "k8s.ovn.org";
const SYSTEM = "holdfast-system";

/** `resource` may be `resource/subresource`. */
function rights(group: string, resource: string, verbs: string, namespace = ""): Right[] {
  const [name, subresource] = resource.split("/") as [string, string?];
  return verbs.split(" ").map((verb) => ({
    verb,
    group,
    resource: name,
    subresource: subresource === undefined ? "" : `/${subresource}`,
    namespace,
  }));
}

const BOTH = [
  ...rights(OURS, "ipallocations", "get list create update"),
  ...rights(OURS, "ipnetworks", "get list create patch"),
  ...rights(CNI, "ipamclaims", "get list"),
  ...rights(CNI, "ipamclaims/status", "patch"),
  ...rights(CNI, "network-attachment-definitions", "get list watch"),
  ...rights("", "pods", "get list watch"),
  ...rights("kubevirt.io", "virtualmachineinstances", "get"),
  ...rights("", "events", "create"),
];
const NEITHER = [
  ...rights("", "events", "get list update patch delete"),
  ...rights(OURS, "ipnetworks", "update"),
  ...rights(CNI, "ipamclaims/status", "get update"),
  ...rights("", "secrets", "get list watch create", SYSTEM),
  ...rights("", "secrets", "get list"),
  ...rights(CNI, "ipamclaims", "create update delete"),
  ...rights(CNI, "network-attachment-definitions", "update delete"),
  ...rights("", "pods", "create update patch delete"),
  ...rights("", "pods/exec", "create"),
  ...rights("", "nodes", "update patch delete"),
  ...rights("kubevirt.io", "virtualmachines", "list watch create update patch delete"),
  ...rights("rbac.authorization.k8s.io", "clusterroles", "update bind escalate"),
  ...rights("", "serviceaccounts/token", "create", SYSTEM),
  ...rights("coordination.k8s.io", "leases", "update", "kube-system"),
];

export const MAY = {
  "holdfast-node": [...BOTH, ...rights("", "nodes", "get")],
  "holdfast-controller": [
    ...BOTH,
    ...rights(OURS, "ipallocations", "watch patch delete"),
    ...rights(OURS, "ipnetworks", "watch delete"),
    ...rights(CNI, "ipamclaims", "watch patch"),
    ...rights("kubevirt.io", "virtualmachines", "get"),
    ...rights("", "nodes", "get list watch"),
    ...rights("coordination.k8s.io", "leases", "get create update", SYSTEM),
    ...rights(OVN, "userdefinednetworks", "get list watch"),
    ...rights(OVN, "clusteruserdefinednetworks", "get list watch"),
    ...rights(OVN, "userdefinednetworks/status", "patch"),
    ...rights(OVN, "clusteruserdefinednetworks/status", "patch"),
    ...rights("", "services", "list watch"),
  ],
  "holdfast-metadata": [
    ...rights("", "namespaces", "get list watch"),
    ...rights("kubevirt.io", "virtualmachines", "get"),
    ...rights("kubevirt.io", "virtualmachineinstances", "get list watch"),
    ...rights("", "nodes", "get"),
    ...rights("", "events", "create"),
    ...rights(OVN, "userdefinednetworks", "list watch"),
    ...rights(OVN, "clusteruserdefinednetworks", "list watch"),
    ...rights(CNI, "network-attachment-definitions", "list watch"),
    ...rights(CNI, "ipamclaims", "list watch"),
    ...rights("", "services", "list watch"),
    ...rights("discovery.k8s.io", "endpointslices", "list watch"),
    ...rights("", "pods", "get list watch"),
  ],
} as const;

export const MAY_NOT = {
  "holdfast-node": [
    ...NEITHER,
    ...rights(OURS, "ipallocations", "watch patch delete deletecollection"),
    ...rights(OURS, "ipnetworks", "watch delete deletecollection"),
    ...rights(CNI, "ipamclaims", "watch patch"),
    ...rights("kubevirt.io", "virtualmachines", "get"),
    ...rights("", "nodes", "list"),
    ...rights("coordination.k8s.io", "leases", "get create update", SYSTEM),
  ],
  "holdfast-controller": [
    ...NEITHER,
    ...rights(OURS, "ipallocations", "deletecollection"),
    ...rights(OVN, "userdefinednetworks", "create update patch delete"),
    ...rights("", "services", "create update patch delete"),
  ],
  "holdfast-metadata": [
    ...rights("", "secrets", "get list watch create"),
    ...rights("", "secrets", "get list watch", SYSTEM),
    ...rights("", "configmaps", "get list watch create update patch delete"),
    ...rights("", "namespaces", "create update patch delete"),
    ...rights("", "pods", "create update patch delete"),
    ...rights("", "pods/exec", "create"),
    ...rights("", "nodes", "list update patch delete"),
    ...rights("", "services", "create update patch delete"),
    ...rights("kubevirt.io", "virtualmachines", "create update patch delete"),
    ...rights("kubevirt.io", "virtualmachineinstances", "create update patch delete"),
    ...rights(OURS, "ipallocations", "get list create update patch delete"),
    ...rights(CNI, "ipamclaims", "create update patch delete"),
    ...rights(OVN, "userdefinednetworks/status", "update patch"),
    ...rights("rbac.authorization.k8s.io", "clusterroles", "update bind escalate"),
    ...rights("", "serviceaccounts/token", "create", SYSTEM),
  ],
} as const;

const INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io";
const DATA_KINDS = ["metal3datatemplates", "metal3dataclaims", "metal3datas"];

/** What deploy/machines adds to the controller's rights. */
export const OWN_MODE_MAY = [
  ...DATA_KINDS.flatMap((kind) => [
    ...rights(INFRASTRUCTURE, kind, kind === "metal3datatemplates" ? "list watch" : "get list watch create delete"),
    ...rights(INFRASTRUCTURE, `${kind}/status`, "patch"),
    ...rights(INFRASTRUCTURE, `${kind}/finalizers`, "update"),
  ]),
  ...rights(INFRASTRUCTURE, "metal3machines", "get list watch"),
  ...rights(INFRASTRUCTURE, "metal3machines/status", "patch"),
  ...rights("cluster.x-k8s.io", "machines", "list watch"),
  ...rights("metal3.io", "baremetalhosts", "get list watch patch"),
  ...rights("ipam.cluster.x-k8s.io", "ipaddressclaims", "create"),
  ...rights("kubevirt.io", "virtualmachines", "get list watch"),
  ...rights("kubevirt.io", "virtualmachineinstances", "get list watch"),
  ...rights("", "secrets", "create"),
];

export const OWN_MODE_MAY_NOT = [
  ...rights(INFRASTRUCTURE, "metal3datatemplates", "get create delete"),
  ...rights("", "secrets", "get list watch update patch delete"),
  ...DATA_KINDS.flatMap((kind) => rights(INFRASTRUCTURE, kind, "update patch deletecollection")),
  ...rights(INFRASTRUCTURE, "metal3machines", "create update patch delete"),
  ...rights("cluster.x-k8s.io", "machines", "create update patch delete"),
  ...rights("metal3.io", "baremetalhosts", "create update delete"),
  ...rights("ipam.cluster.x-k8s.io", "ipaddressclaims", "update patch delete"),
  ...rights("kubevirt.io", "virtualmachines", "create update patch delete"),
  ...rights("kubevirt.io", "virtualmachineinstances", "create update patch delete"),
  ...rights("apiextensions.k8s.io", "customresourcedefinitions", "list watch update patch delete"),
];

/** What deploy/machines adds to the metadata service's rights. */
export const TEMPLATES_MAY = [
  ...DATA_KINDS.flatMap((kind) => rights(INFRASTRUCTURE, kind, "get")),
  ...rights(OURS, "addresspools", "get"),
];

export const TEMPLATES_MAY_NOT = [
  ...DATA_KINDS.flatMap((kind) => rights(INFRASTRUCTURE, kind, "list watch create update patch delete")),
  ...rights(OURS, "addresspools", "list watch create update patch delete"),
];

/** Whether a user has a right, by the API server's own answer. */
export async function isAllowed(cluster: TestCluster, user: ClusterUser, right: Right): Promise<boolean> {
  const api = cluster.apiAs(user);
  const { subresource, ...attributes } = right;
  const review = await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: { resourceAttributes: { ...attributes, subresource: subresource.slice(1) } },
  });
  api.close();
  return review.status.allowed;
}
