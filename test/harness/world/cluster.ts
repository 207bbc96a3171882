import type { Connect } from "../../../kube/kube-api.ts";
import type { KubeApi, KubeObject } from "../kube-api.ts";
import type { WriteCounts } from "../kube-metrics.ts";
import type { TestTime } from "../wait.ts";

/** The accounts of the shipped manifests. */
export const ACCOUNTS = ["holdfast-node", "holdfast-controller", "holdfast-metadata"] as const;
export type Account = (typeof ACCOUNTS)[number];
/** `viewer`: a person with the ClusterRole holdfast-viewer. */
export type ClusterUser = "admin" | "viewer" | Account;

/** What makes a person a viewer, as docs/kubernetes.md says. */
export const VIEWER_BINDING: KubeObject = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRoleBinding",
  metadata: { name: "viewer" },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "holdfast-viewer" },
  subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "viewer" }],
};

/**
 * An API server with the shipped definitions and rights, garbage collector and namespace controller; no kubelet, no
 * scheduler.
 */
export interface Cluster {
  /** URL of the API server. */
  readonly server: string;
  /** PEM; "" where it serves plain HTTP. */
  readonly ca: string;
  /** The private key of `ca`, PEM; "" where there is none. */
  readonly key: string;
  /** A client with every right. */
  readonly api: KubeApi;
  readonly directory: string;
  /** Of everything in it. */
  readonly time: TestTime;
  /** How a process of this user comes to it, without a proxy in between. `node`: its token is bound to that node. */
  connect(user: ClusterUser, node?: string): Connect;
  /** Writes a kubeconfig file and returns its path. `server` and `ca` lead to a proxy. */
  kubeconfig(user: ClusterUser, server?: string, ca?: string): string;
  /** The bearer token of a user. */
  token(user: ClusterUser): string;
  /** A client with a bearer token. Close it. */
  apiWith(token: string): KubeApi;
  /** A client with the rights of a user. Close it. */
  apiAs(user: ClusterUser): KubeApi;
  /** Applies objects in their order; definitions are served when this returns. */
  apply(objects: readonly KubeObject[]): Promise<void>;
  /** Applies definitions; the garbage collector knows them soon after this returns. */
  define(definitions: readonly KubeObject[]): Promise<void>;
  /**
   * Requests that it has served since its start, whatever their outcome, by resource and verb; `ipamclaims/status`
   * counts by itself.
   */
  writes(resource: string): Promise<WriteCounts>;
  writes(): Promise<Readonly<Record<string, WriteCounts>>>;
  /** GETs of single objects of a resource that it has served since its start. */
  reads(resource: string): Promise<number>;
  /** It is away: nothing is answered, every watch ends. */
  stopApiServer(): Promise<void>;
  /** It is back, with what it had. */
  startApiServer(): Promise<void>;
  stop(): Promise<void>;
}
