import type { Etcd } from "./etcd.ts";
import type { KubeObject } from "./objects.ts";
import type { Access } from "./requests.ts";
import { RBAC_STORAGES } from "./resources.ts";

interface Grant {
  /** null: in every namespace, and cluster-scoped. */
  readonly namespace: string | null;
  readonly rules: readonly KubeObject[];
}

/** RBAC as the roles and bindings in etcd say it. Of groups only system:masters is known, which has every right. */
export class Rights {
  readonly #etcd: Etcd;
  #has: ((access: Access) => boolean) | null = null;

  constructor(etcd: Etcd) {
    this.#etcd = etcd;
    etcd.listen(({ storage }) => {
      if (RBAC_STORAGES.includes(storage)) this.#has = null;
    });
  }

  /** For `authorize` of a server over the same etcd. */
  has(access: Access): boolean {
    if (access.user.groups?.includes("system:masters")) return true;
    this.#has ??= rightsOf(
      RBAC_STORAGES.flatMap((storage) => this.#etcd.range(storage, "").map(({ object }) => object)),
    );
    return this.#has(access);
  }
}

/** Whether a user has a right by these objects. */
function rightsOf(objects: readonly KubeObject[]): (access: Access) => boolean {
  const grants = new Map<string, Grant[]>();
  for (const binding of objects.filter(({ kind }) => kind === "ClusterRoleBinding" || kind === "RoleBinding")) {
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
        (namespace === null || namespace === access.namespace) && rules.some((rule) => grantsIt(rule, access)),
    );
}

function nameOf({ kind, namespace, name }: KubeObject): string {
  return kind === "ServiceAccount" ? `system:serviceaccount:${namespace}:${name}` : name;
}

function grantsIt({ apiGroups = [], resources = [], verbs, resourceNames }: KubeObject, access: Access): boolean {
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
