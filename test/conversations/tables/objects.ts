import type { Json, Said } from "../steps.ts";

export const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
export const NETWORKS = "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks";
export const NAMESPACES = "/api/v1/namespaces";
export const LEASES = "/apis/coordination.k8s.io/v1/namespaces/{id}/leases";
export const CLAIMS = "/apis/k8s.cni.cncf.io/v1alpha1/namespaces/{id}/ipamclaims";
export const CONFIG_MAPS = "/api/v1/namespaces/{id}/configmaps";
export const PODS = "/api/v1/namespaces/{id}/pods";
export const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

export const allocation = (name: string, more: Json = {}): Json => ({
  apiVersion: "ipam.holdfast.dev/v1alpha1",
  kind: "IPAllocation",
  metadata: { name, labels: { talk: "{id}" }, ...more.metadata },
  spec: {
    network: "{id}",
    address: "10.0.0.5/24",
    owner: { kind: "Pod", namespace: "shop", name: "web-0", uid: "u1", interface: "net1" },
    ...more.spec,
  },
  status: more.status ?? { state: "Bound" },
});

export const claim = (name: string, more: Json = {}): Json => ({
  apiVersion: "k8s.cni.cncf.io/v1alpha1",
  kind: "IPAMClaim",
  metadata: { name, ...more.metadata },
  spec: { network: "blue", interface: "net1" },
  ...(more.status === undefined ? {} : { status: more.status }),
});

export const namespace = (name = "{id}"): Json => ({
  apiVersion: "v1",
  kind: "Namespace",
  metadata: { name },
});

export const configMap = (name: string, more: Json = {}): Json => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, ...more.metadata },
  ...(more.data === undefined ? {} : { data: more.data }),
});

export const pod = (name: string, more: Json = {}): Json => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, ...more.metadata },
  spec: { containers: [{ name: "main", image: "none" }], ...more.spec },
});

export const GROUP_KIND = { group: "ipam.holdfast.dev", kind: "ipallocations" };

/** Of an answer that was given a name. */
export const versionOf =
  (name: string) =>
  (said: Said): string =>
    said[name].metadata?.resourceVersion ?? said[name].resourceVersion;

/** An object as it was answered, with other values at its top. */
export const changed =
  (name: string, change: (object: Json) => Json) =>
  (said: Said): Json => ({ ...said[name], ...change(said[name]) });
