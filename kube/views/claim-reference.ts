import { invalid } from "../../ipam/definition/definition-keys.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";

/** The name of an IPAMClaim or a network attachment definition. */
export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

/** The default namespace of pods and claims, as for kubectl. */
export const DEFAULT_NAMESPACE = "default";

/**
 * Reads a reference to an IPAMClaim: a bare name is a claim of the pod's own namespace, `namespace/name` is taken
 * where that is the same. `key` is where it stands, for messages. A pod without a namespace may name any.
 * Throws RefusalError: CONFIG_INVALID, or CLAIM_OTHER_NAMESPACE for a claim that pods of this namespace may not use.
 */
export function readClaimReference(reference: unknown, key: string, podNamespace: string | undefined): ObjectName {
  const parts = typeof reference === "string" ? reference.split("/", 3) : [];
  const [first = "", second] = parts;
  const namespace = second === undefined ? podNamespace || DEFAULT_NAMESPACE : first;
  const name = second ?? first;
  if (parts.length > 2 || !isObjectName(namespace) || !isObjectName(name)) {
    invalid({ key, value: reference }, "expected the name of an IPAMClaim, or namespace/name");
  }
  if (podNamespace && namespace !== podNamespace) {
    throw new RefusalError(refuse("CLAIM_OTHER_NAMESPACE", { namespace: podNamespace, claim: `${namespace}/${name}` }));
  }
  return { namespace, name };
}

/** Kubernetes object names: RFC 1123 subdomains. */
export function isObjectName(text: string): boolean {
  return text.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(text);
}
