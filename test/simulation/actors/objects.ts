/*
 * test/simulation/actors/: who acts
 *
 *   all, setup      everything that anybody does; what a world has at the beginning
 *   networks        its namespaces and networks
 *   objects, reconciler   what is in the API; a controller that follows it
 *   kubevirt/       VMs, their claims, launchers and migrations; pods/: what else runs, and the nodes under it
 */

import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import type { World } from "../world.ts";

/** Of a resource: its key in etcd, and its path. */
export interface Kind {
  readonly storage: string;
  /** `/apis/group/version`, or `/api/v1`. */
  readonly root: string;
  readonly plural: string;
}

export const PODS: Kind = { storage: "/pods", root: "/api/v1", plural: "pods" };
export const NAMESPACES: Kind = { storage: "/namespaces", root: "/api/v1", plural: "namespaces" };
export const NODES: Kind = { storage: "/nodes", root: "/api/v1", plural: "nodes" };
export const VMS: Kind = kindOf("kubevirt.io/v1", "virtualmachines");
export const VMIS: Kind = kindOf("kubevirt.io/v1", "virtualmachineinstances");
export const CLAIMS: Kind = kindOf("k8s.cni.cncf.io/v1alpha1", "ipamclaims");
export const NADS: Kind = kindOf("k8s.cni.cncf.io/v1", "network-attachment-definitions");

function kindOf(apiVersion: string, plural: string): Kind {
  const [group] = apiVersion.split("/");
  return { storage: `${group}/${plural}`, root: `/apis/${apiVersion}`, plural };
}

/** Those of a kind, in a namespace or everywhere, by name. They are not changed. */
export function objectsOf(world: World, kind: Kind, namespace?: string): KubeObject[] {
  const prefix = namespace === undefined ? "" : `${namespace}/`;
  return world.cluster.etcd.range(kind.storage, prefix).map(({ object }) => object);
}

/** `namespace/name`, or the name alone. null: there is none. It is not changed. */
export function objectAt(world: World, kind: Kind, key: string): KubeObject | null {
  return world.cluster.etcd.get(kind.storage, key);
}

export function keyOf({ metadata }: KubeObject): string {
  return metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`;
}

/** Where objects of a kind are created. */
function collectionOf({ root, plural }: Kind, namespace?: string): string {
  return namespace === undefined ? `${root}/${plural}` : `${root}/namespaces/${namespace}/${plural}`;
}

export function pathOf(kind: Kind, { metadata }: KubeObject): string {
  return `${collectionOf(kind, metadata.namespace)}/${metadata.name}`;
}

/** What a write becomes; null: the API server has refused it, because something else happened first. */
export async function attempt<T>(write: Promise<T>): Promise<T | null> {
  try {
    return await write;
  } catch (error) {
    if (error instanceof Error && error.name === "AdminRefused") return null;
    throw error;
  }
}

export const isBeingDeleted = ({ metadata }: KubeObject): boolean => metadata.deletionTimestamp !== undefined;

/** Whether a pod has ended, as its phase says. */
export const hasEnded = ({ status }: KubeObject): boolean =>
  status?.phase === "Succeeded" || status?.phase === "Failed";

/** Whether a namespace takes new objects. */
export function isOpen(world: World, namespace: string): boolean {
  const object = objectAt(world, NAMESPACES, namespace);
  return object !== null && !isBeingDeleted(object);
}

/** Creates an object of a kind; null: it was refused. */
export function create(world: World, kind: Kind, object: KubeObject): Promise<KubeObject | null> {
  return attempt(world.cluster.admin.create(collectionOf(kind, object.metadata.namespace), object));
}

/** Patches an object if it is still this one; null: it is not, or the patch was refused. */
export function patch(world: World, kind: Kind, object: KubeObject, change: KubeObject): Promise<KubeObject | null> {
  const { uid } = object.metadata;
  if (objectAt(world, kind, keyOf(object))?.metadata.uid !== uid) return Promise.resolve(null);
  return attempt(world.cluster.admin.patch(pathOf(kind, object), change));
}

/** Deletes an object if it is still this one. */
export async function remove(
  world: World,
  kind: Kind,
  object: KubeObject,
  options: { readonly graceSeconds?: number; readonly propagation?: string } = {},
): Promise<void> {
  if (objectAt(world, kind, keyOf(object))?.metadata.uid !== object.metadata.uid) return;
  await attempt(world.cluster.admin.remove(pathOf(kind, object), options));
}
