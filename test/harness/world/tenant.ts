import type { KubeApi, KubeObject } from "../kube-api.ts";
import { KubePods, pathOf } from "../kube-pods.ts";
import type { Cluster } from "./cluster.ts";

const RBAC = "rbac.authorization.k8s.io/v1";
const NADS = "k8s.cni.cncf.io/v1";

/**
 * An account with the rights of a tenant: network attachment definitions and pods of its own namespace, and nothing
 * else.
 */
export class Tenant {
  readonly namespace: string;
  readonly api: KubeApi;
  readonly pods: KubePods;

  private constructor(namespace: string, api: KubeApi) {
    this.namespace = namespace;
    this.api = api;
    this.pods = new KubePods(api);
  }

  /** Makes the namespace where it does not exist. Close it. */
  static async create(cluster: Cluster, namespace: string): Promise<Tenant> {
    const { api } = cluster;
    if ((await api.find(`/api/v1/namespaces/${namespace}`)) === null)
      await new KubePods(api).createNamespace(namespace);
    const metadata = { name: "tenant", namespace };
    await api.create(pathOf(namespace, "serviceaccounts"), {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata,
    });
    await api.create(pathOf(namespace, "roles", "", RBAC), {
      apiVersion: RBAC,
      kind: "Role",
      metadata,
      rules: [
        { apiGroups: ["k8s.cni.cncf.io"], resources: ["network-attachment-definitions"], verbs: ["*"] },
        { apiGroups: [""], resources: ["pods", "pods/status"], verbs: ["*"] },
      ],
    });
    await api.create(pathOf(namespace, "rolebindings", "", RBAC), {
      apiVersion: RBAC,
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "tenant" },
      subjects: [{ kind: "ServiceAccount", name: "tenant", namespace }],
    });
    const { status } = await api.create(`${pathOf(namespace, "serviceaccounts")}/tenant/token`, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: 3600 },
    });
    return new Tenant(namespace, cluster.apiWith(status.token));
  }

  close(): void {
    this.api.close();
  }

  nad(name: string, config: object | string, annotations: object = {}): Promise<KubeObject> {
    const text = typeof config === "string" ? config : JSON.stringify(config);
    return this.api.create(pathOf(this.namespace, "network-attachment-definitions", "", NADS), {
      apiVersion: NADS,
      kind: "NetworkAttachmentDefinition",
      metadata: { name, namespace: this.namespace, annotations },
      spec: { config: text },
    });
  }

  editNad(name: string, change: object): Promise<KubeObject> {
    return this.api.patch(pathOf(this.namespace, "network-attachment-definitions", name, NADS), change);
  }

  /** A pod with net1 through a NAD of this namespace. */
  pod(name: string, node: string, nad: string, annotations: Record<string, string> = {}): Promise<KubeObject> {
    return this.pods.createPod(this.namespace, name, { node, networks: [{ name: nad }], annotations });
  }
}
