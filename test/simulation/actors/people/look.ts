import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { World } from "../../world.ts";

/** Where objects lie in etcd. */
export const NADS = "k8s.cni.cncf.io/network-attachment-definitions";
export const CLAIMS = "k8s.cni.cncf.io/ipamclaims";
export const ALLOCATIONS = "ipam.holdfast.dev/ipallocations";
export const NETWORK_OBJECTS = "ipam.holdfast.dev/ipnetworks";
export const PODS = "/pods";
export const EVENTS = "/events";

export const NADS_API = "k8s.cni.cncf.io/v1";

/** What really is there, in the order of the names. */
export function objectsOf({ cluster }: World, storage: string): KubeObject[] {
  return cluster.etcd.range(storage, "").map(({ object }) => object);
}

export function nadPath(namespace: string, name?: string): string {
  return inNamespace("/apis/k8s.cni.cncf.io/v1", namespace, "network-attachment-definitions", name);
}

export function claimPath(namespace: string, name?: string): string {
  return inNamespace("/apis/k8s.cni.cncf.io/v1alpha1", namespace, "ipamclaims", name);
}

export function podPath(namespace: string, name?: string): string {
  return inNamespace("/api/v1", namespace, "pods", name);
}

export function allocationPath(name: string): string {
  return `/apis/ipam.holdfast.dev/v1alpha1/ipallocations/${name}`;
}

export function networkObjectPath(name: string): string {
  return `/apis/ipam.holdfast.dev/v1alpha1/ipnetworks/${name}`;
}

function inNamespace(group: string, namespace: string, plural: string, name?: string): string {
  const collection = `${group}/namespaces/${namespace}/${plural}`;
  return name === undefined ? collection : `${collection}/${name}`;
}

/** What the API server answers; null: it refuses, because somebody else was faster. */
export async function attempted<T>(request: Promise<T>): Promise<T | null> {
  try {
    return await request;
  } catch (error) {
    if ((error as Error).name !== "AdminRefused") throw error;
    return null;
  }
}
