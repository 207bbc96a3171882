import { randomUUID } from "node:crypto";
import type { Cluster } from "./cluster.ts";

const ACCOUNT = "holdfast-controller";
const RBAC = "rbac.authorization.k8s.io";

/** A namespace with a lease that no other controller uses: two of them work beside each other. */
export async function ownLease(cluster: Cluster): Promise<string> {
  const namespace = `lease-${randomUUID().slice(0, 8)}`;
  const metadata = { name: ACCOUNT, namespace };
  const verbs = ["get", "create", "update"];
  const rules = [{ apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs }];
  const roleRef = { apiGroup: RBAC, kind: "Role", name: ACCOUNT };
  const subjects = [{ kind: "ServiceAccount", name: ACCOUNT, namespace: "holdfast-system" }];
  const apiVersion = `${RBAC}/v1`;
  await cluster.apply([
    { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } },
    { apiVersion, kind: "Role", metadata, rules },
    { apiVersion, kind: "RoleBinding", metadata, roleRef, subjects },
  ]);
  return namespace;
}
