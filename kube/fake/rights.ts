import type { KubeObject } from "./objects.ts";
import type { Access } from "./requests.ts";

interface Grant {
  /** null: in every namespace, and cluster-scoped. */
  readonly namespace: string | null;
  readonly rules: readonly KubeObject[];
}

/** RBAC as roles and bindings say it: whether a user has a right. Groups are not looked at. */
export function rightsOf(objects: readonly KubeObject[]): (access: Access) => boolean {
  const grants = new Map<string, Grant[]>();
  for (const binding of objects.filter(
    ({ kind }) => kind === "ClusterRoleBinding" || kind === "RoleBinding",
  )) {
    const { roleRef, subjects = [], metadata } = binding;
    const namespace = binding.kind === "RoleBinding" ? metadata.namespace : null;
    const role = objects.find(
      (one) =>
        one.kind === roleRef.kind &&
        one.metadata.name === roleRef.name &&
        (roleRef.kind === "ClusterRole" || one.metadata.namespace === namespace),
    );
    for (const subject of subjects) {
      const user = nameOf(subject);
      grants.set(user, [...(grants.get(user) ?? []), { namespace, rules: role?.rules ?? [] }]);
    }
  }
  return (access) =>
    (grants.get(access.user.username) ?? []).some(
      ({ namespace, rules }) =>
        (namespace === null || namespace === access.namespace) &&
        rules.some((rule) => grantsIt(rule, access)),
    );
}

function nameOf({ kind, namespace, name }: KubeObject): string {
  return kind === "ServiceAccount" ? `system:serviceaccount:${namespace}:${name}` : name;
}

function grantsIt(
  { apiGroups = [], resources = [], verbs, resourceNames }: KubeObject,
  access: Access,
): boolean {
  const { verb, group, resource, subresource, name } = access;
  const what = subresource === "" ? resource : `${resource}/${subresource}`;
  return (
    has(apiGroups, group) &&
    has(resources, what) &&
    has(verbs, verb) &&
    (resourceNames === undefined || (name !== null && resourceNames.includes(name)))
  );
}

const has = (list: readonly string[], wanted: string) => list.includes("*") || list.includes(wanted);
