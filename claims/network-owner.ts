import { isObject } from "../ipam/definition/definition-keys.ts";
import type { IPNetwork } from "../kube/objects.ts";
import { DEFAULT_NETWORK_NAMESPACE } from "../kube/views/network-selection.ts";

/** On the NetworkAttachmentDefinition that defines a network: namespaces whose NADs may join it, "ns1,ns2" or "*". */
export const SHARED_WITH_ANNOTATION = "ipam.holdfast.dev/shared-with";
/**
 * On an IPNetwork: the owner that Holdfast recorded by itself. Any other owner in `spec.definedIn`, or none here, is the word
 * of an administrator, whatever tool has written it.
 */
export const RECORDED_OWNER_ANNOTATION = "ipam.holdfast.dev/recorded-owner";
/** The owner of a network that the nodes' own CNI configuration defines, or a ClusterUserDefinedNetwork: administrators. */
export const NODES_OWN = "";

export const EVERYBODY = "*";

/** Whose a network is: who defines it, and whose NADs may join it besides (docs/decisions/0023). */
export interface NetworkOwner {
  /** The namespace whose NADs define the network; NODES_OWN: none's. */
  readonly definedIn: string;
  /** Namespaces, or "*". */
  readonly sharedWith: readonly string[];
}

/** The owner as it is recorded; null: it is not. */
export function readOwner(object: Pick<IPNetwork, "spec"> | null): NetworkOwner | null {
  const spec: unknown = object?.spec;
  if (!isObject(spec) || typeof spec.definedIn !== "string") return null;
  const { definedIn, sharedWith } = spec;
  const texts = Array.isArray(sharedWith) ? sharedWith.filter((one) => typeof one === "string") : [];
  return { definedIn, sharedWith: texts };
}

/** Whether an administrator said whose the network is: beforehand, by moving it, or by an edit. */
export function isAdministratorsWord({ metadata, spec }: Pick<IPNetwork, "metadata" | "spec">): boolean {
  return spec.definedIn !== undefined && metadata.annotations?.[RECORDED_OWNER_ANNOTATION] !== spec.definedIn;
}

/** The namespaces in a value of the annotation. */
export function readSharedWith(text: string | undefined): readonly string[] {
  return (text ?? "")
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
}

export function isSharedWith(sharedWith: readonly string[], namespace: string): boolean {
  return sharedWith.includes(namespace) || sharedWith.includes(EVERYBODY);
}

/**
 * Whether every pod's primary interface may have the networks of an owner although no NAD stands for it: Multus gives those of
 * its own namespace to any pod, and the nodes' administrators decide what is there.
 */
export function isForPrimaryInterfaces(definedIn: string): boolean {
  return definedIn === NODES_OWN || definedIn === DEFAULT_NETWORK_NAMESPACE;
}

/** For messages: `namespace shop`, or the nodes' administrators. */
export function describeNetworkOwner({ definedIn }: NetworkOwner): string {
  return definedIn === NODES_OWN ? "the cluster's administrators" : `namespace ${definedIn}`;
}
