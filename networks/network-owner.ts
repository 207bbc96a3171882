import { isObject } from "../ipam/definition/definition-keys.ts";
import type { IPNetwork } from "../kube/objects.ts";
import { DEFAULT_NETWORK_NAMESPACE } from "../kube/views/network-selection.ts";

/** On the NetworkAttachmentDefinition that defines a network: namespaces whose NADs may join it, "ns1,ns2" or "*". */
export const SHARED_WITH_ANNOTATION = "ipam.holdfast.dev/shared-with";
/**
 * On an IPNetwork: the owner that Holdfast recorded by itself. If `spec.definedIn` differs from it, or it is missing,
 * an administrator has set the owner, with whatever tool.
 */
export const RECORDED_OWNER_ANNOTATION = "ipam.holdfast.dev/recorded-owner";
/** Owner of networks that the nodes' own CNI configuration or a ClusterUserDefinedNetwork defines: administrators. */
export const NODES_OWN = "";

const EVERYBODY = "*";

/** The owner of a network: the namespace that defines it, and those whose NADs may join (docs/decisions/0023). */
export interface NetworkOwner {
  /** The namespace whose NADs define the network; NODES_OWN: none. */
  readonly definedIn: string;
  /** Namespaces, or "*". */
  readonly sharedWith: readonly string[];
}

/** The recorded owner; null: none is recorded. */
export function readOwner(object: Pick<IPNetwork, "spec"> | null): NetworkOwner | null {
  const spec: unknown = object?.spec;
  if (!isObject(spec) || typeof spec.definedIn !== "string") return null;
  const { definedIn, sharedWith } = spec;
  const texts = Array.isArray(sharedWith) ? sharedWith.filter((one) => typeof one === "string") : [];
  return { definedIn, sharedWith: texts };
}

/** Whether an administrator has set the owner: beforehand, by moving the network, or by an edit. */
export function isAdministratorsWord({ metadata, spec }: Pick<IPNetwork, "metadata" | "spec">): boolean {
  return spec.definedIn !== undefined && metadata.annotations?.[RECORDED_OWNER_ANNOTATION] !== spec.definedIn;
}

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
 * Whether any pod's primary interface may use the networks of an owner although no NAD names it: Multus lets any pod
 * use the NADs of its own namespace, and the nodes' administrators decide what is in it.
 */
export function isForPrimaryInterfaces(definedIn: string): boolean {
  return definedIn === NODES_OWN || definedIn === DEFAULT_NETWORK_NAMESPACE;
}

/** For messages: `namespace shop`, or the nodes' administrators. */
export function describeNetworkOwner({ definedIn }: NetworkOwner): string {
  return definedIn === NODES_OWN ? "the cluster's administrators" : `namespace ${definedIn}`;
}
