import type { ObjectKind } from "../kube/views/content-annotations.ts";

/** Applied objects, already validated: claims/ reads and validates manifests, the store keeps their meaning. */
export interface AppliedClaim {
  readonly namespace: string;
  readonly name: string;
  readonly network: string;
  /** metadata (labels, annotations, ownerReferences) and spec as applied, shown by `claims -o yaml`. */
  readonly manifest: { readonly metadata: object; readonly spec: object };
  readonly vm: { readonly name: string; readonly uid: string };
  /** Addresses of a restored claim (its `status.ips`), canonical CIDR text; empty for a new one. */
  readonly ips: readonly string[];
}

export interface AppliedDefinition {
  readonly namespace: string;
  readonly name: string;
  readonly network: string;
  /** `spec.config` as applied. */
  readonly config: string;
  readonly manifest: object;
}

/** A Secret or ConfigMap: what claims name for their guests. */
export interface AppliedContent extends ContentObject {
  /** Of all values together. */
  readonly bytes: number;
  /** As in Kubernetes: its data cannot be changed, only deleted. */
  readonly immutable: boolean;
}

export interface ContentObject {
  readonly kind: ObjectKind;
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Values in base64, by key, sorted. */
  readonly data: Readonly<Record<string, string>>;
}

export interface ContentView {
  readonly kind: ObjectKind;
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly keys: readonly { readonly key: string; readonly bytes: number }[];
  readonly bytes: number;
  /** Claims that name it, `namespace/name`. */
  readonly claims: readonly string[];
  /** RFC 3339. */
  readonly creationTimestamp: string;
}

export type ApplyAction = "created" | "configured" | "unchanged";

export interface ClaimManifest {
  readonly apiVersion: "k8s.cni.cncf.io/v1alpha1";
  readonly kind: "IPAMClaim";
  readonly metadata: Record<string, unknown> & {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
  };
  readonly spec: Record<string, unknown> & { readonly network: string };
  readonly status?: {
    readonly ips: readonly string[];
    readonly ownerPod?: { readonly name: string };
    readonly conditions?: readonly object[];
  };
  /** Not of the object: what its VM, which runs, asks for; absent: nothing, or it is not known. */
  readonly asked?: readonly string[];
}

/** The VM that a claim belongs to, according to the claim. */
export interface ClaimOfVm {
  readonly namespace: string;
  readonly name: string;
  /** "" for missing values. */
  readonly vm: { readonly name: string; readonly uid: string };
  readonly annotations: Readonly<Record<string, unknown>>;
}
