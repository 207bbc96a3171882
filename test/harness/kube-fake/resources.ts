import { type FieldProblem, forbiddenField, type Qualified } from "./failure.ts";
import { isEqual, type KubeObject } from "./objects.ts";
import type { Schema } from "./schema.ts";
import type { SelectableFields } from "./selectors.ts";

/** A resource that is served, and how the server treats its objects. */
export interface Resource extends Qualified {
  readonly version: string;
  readonly namespaced: boolean;
  /** Where its objects lie in etcd; the same for every version of a resource. */
  readonly storage: string;
  /**
   * From a CustomResourceDefinition: objects of lists say their kind, PUT needs a resourceVersion, and nobody knows its
   * schema but it.
   */
  readonly custom: boolean;
  readonly schema?: Schema;
  /** Whether `status` is written through `/status` only. */
  readonly hasStatus: boolean;
  /** Whether a POST may bring a status. */
  readonly keepsStatusOnCreate?: boolean;
  readonly counts: "generation" | "nothing";
  /** Whether a PUT without a resourceVersion overwrites whatever is there. */
  readonly overwrites: boolean;
  /** Whether a PUT creates what is not there. */
  readonly createsOnPut: boolean;
  /** Whether a deletion first gives the object time. */
  readonly graceful?: boolean;
  /** Whether `/binding` gives one its node. */
  readonly binds?: boolean;
  /** Whether a DELETE is answered with the object that is gone, instead of a Status. */
  readonly returnsDeleted?: boolean;
  /** Beside metadata.name and metadata.namespace. */
  readonly fields?: SelectableFields;
  /** Rewrites what may be written in another form than it is kept in. */
  readonly rewrite?: (object: KubeObject) => void;
  /** Fills in what the server adds to a new object. */
  readonly complete?: (object: KubeObject) => void;
  /** What must not be written over an object. */
  readonly problemsOfUpdate?: (next: KubeObject, old: KubeObject) => FieldProblem[];
}

/** How the objects of a resource are called in a path: `/apis/group/version`. */
export const groupPath = ({ group, version }: Pick<Resource, "group" | "version">): string =>
  group === "" ? `/api/${version}` : `/apis/${group}/${version}`;

/** `ipam.holdfast.dev/v1alpha1`, or `v1`. */
export const apiVersionOf = ({ group, version }: Pick<Resource, "group" | "version">): string =>
  group === "" ? version : `${group}/${version}`;

type Row = Pick<Resource, "group" | "version" | "plural" | "kind"> & Partial<Resource>;

function resource(row: Row): Resource {
  return {
    namespaced: true,
    storage: `${row.group}/${row.plural}`,
    custom: false,
    hasStatus: false,
    counts: "nothing",
    overwrites: true,
    createsOnPut: false,
    ...row,
  };
}

const core = { group: "", version: "v1" };
const rbac = { group: "rbac.authorization.k8s.io", version: "v1" };
const RBAC = [
  ["roles", "Role", true],
  ["rolebindings", "RoleBinding", true],
  ["clusterroles", "ClusterRole", false],
  ["clusterrolebindings", "ClusterRoleBinding", false],
] as const;
/** Where roles and their bindings lie in etcd. */
export const RBAC_STORAGES: readonly string[] = RBAC.map(([plural]) => `${rbac.group}/${plural}`);

/**
 * Kubernetes' own resources, as far as Holdfast meets them. Their objects are kept as they are sent: nobody fills in
 * defaults or checks their schema, beyond what is said here. `minor`: of the server's version.
 */
export function builtIns(minor: number): Resource[] {
  const discovery = { group: "discovery.k8s.io", plural: "endpointslices", kind: "EndpointSlice" };
  const slices = [...(minor < 25 ? ["v1beta1"] : []), ...(minor >= 21 ? ["v1"] : [])];
  return [
    resource({
      ...core,
      plural: "namespaces",
      kind: "Namespace",
      namespaced: false,
      hasStatus: true,
      complete: (namespace) => {
        namespace.spec = { finalizers: ["kubernetes"] };
        namespace.status = { phase: "Active" };
      },
    }),
    resource({
      ...core,
      plural: "nodes",
      kind: "Node",
      namespaced: false,
      hasStatus: true,
      keepsStatusOnCreate: true,
    }),
    resource({
      ...core,
      plural: "pods",
      kind: "Pod",
      hasStatus: true,
      graceful: true,
      binds: true,
      returnsDeleted: true,
      fields: {
        "spec.nodeName": (pod) => pod.spec?.nodeName ?? "",
        "spec.restartPolicy": (pod) => pod.spec?.restartPolicy ?? "Always",
        "spec.serviceAccountName": (pod) => pod.spec?.serviceAccountName ?? "",
        "status.phase": (pod) => pod.status?.phase ?? "",
        "status.podIP": (pod) => pod.status?.podIP ?? "",
        "status.nominatedNodeName": (pod) => pod.status?.nominatedNodeName ?? "",
      },
      complete: (pod) => {
        pod.spec = { terminationGracePeriodSeconds: 30, ...pod.spec };
        pod.status = { phase: "Pending" };
      },
      problemsOfUpdate: (next, old) =>
        isEqual(fixedOf(next.spec), fixedOf(old.spec))
          ? []
          : [
              forbiddenField(
                "spec",
                "pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, `spec.activeDeadlineSeconds` or `spec.tolerations` (only additions to existing tolerations)",
              ),
            ],
    }),
    resource({
      ...core,
      plural: "services",
      kind: "Service",
      hasStatus: true,
      createsOnPut: true,
      returnsDeleted: false,
    }),
    resource({ ...core, plural: "endpoints", kind: "Endpoints", createsOnPut: true }),
    resource({ ...core, plural: "configmaps", kind: "ConfigMap" }),
    resource({
      ...core,
      plural: "secrets",
      kind: "Secret",
      fields: { type: (it) => it.type ?? "Opaque" },
      rewrite: encodeStringData,
      complete: (secret) => {
        secret.type ??= "Opaque";
      },
    }),
    resource({ ...core, plural: "serviceaccounts", kind: "ServiceAccount", returnsDeleted: true }),
    resource({
      ...core,
      plural: "events",
      kind: "Event",
      createsOnPut: true,
      fields: {
        "involvedObject.kind": (event) => event.involvedObject?.kind ?? "",
        "involvedObject.name": (event) => event.involvedObject?.name ?? "",
        "involvedObject.namespace": (event) => event.involvedObject?.namespace ?? "",
        "involvedObject.uid": (event) => event.involvedObject?.uid ?? "",
        reason: (event) => event.reason ?? "",
        type: (event) => event.type ?? "",
      },
    }),
    resource({
      group: "coordination.k8s.io",
      version: "v1",
      plural: "leases",
      kind: "Lease",
      overwrites: false,
      createsOnPut: true,
    }),
    ...slices.map((version) => resource({ ...discovery, version, counts: "generation" })),
    ...RBAC.map(([plural, kind, namespaced]) => resource({ ...rbac, plural, kind, namespaced, createsOnPut: true })),
    resource({
      ...DEFINITIONS,
      namespaced: false,
      hasStatus: true,
      counts: "generation",
      overwrites: false,
    }),
  ];
}

export const DEFINITIONS = {
  group: "apiextensions.k8s.io",
  version: "v1",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
} as const;

/** What a Secret is given as text is kept as bytes. */
function encodeStringData(secret: KubeObject): void {
  const { stringData = {}, data } = secret;
  delete secret.stringData;
  const encoded = Object.entries<string>(stringData).map(([key, text]) => [key, Buffer.from(text).toString("base64")]);
  if (encoded.length > 0) secret.data = { ...data, ...Object.fromEntries(encoded) };
}

/** The part of a pod's spec that nobody may change. */
function fixedOf(spec: KubeObject): unknown {
  const { activeDeadlineSeconds: _, tolerations: __, containers, initContainers, ...rest } = spec ?? {};
  const withoutImage = (list: KubeObject[] | undefined) => list?.map(({ image: ___, ...one }) => one);
  return { ...rest, containers: withoutImage(containers), initContainers: withoutImage(initContainers) };
}

/** The resources that a CustomResourceDefinition brings, one for each version that it serves. */
export function resourcesOf(definition: KubeObject): Resource[] {
  const { group, names, scope, versions } = definition.spec;
  return versions
    .filter(({ served }: KubeObject) => served)
    .map(({ name, schema, subresources }: KubeObject) =>
      resource({
        group,
        version: name,
        plural: names.plural,
        kind: names.kind,
        namespaced: scope === "Namespaced",
        custom: true,
        schema: schema?.openAPIV3Schema,
        hasStatus: subresources?.status !== undefined,
        keepsStatusOnCreate: subresources?.status === undefined,
        counts: "generation",
        overwrites: false,
      }),
    );
}
