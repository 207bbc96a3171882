import { isIP } from "node:net";
import { isDeepStrictEqual } from "node:util";
import type { KubeObject } from "../kube-api.ts";

/** What Cluster API's webhooks are told of a write. */
export interface CapiReview {
  readonly operation: string;
  readonly resource: { readonly group: string; readonly resource: string };
  readonly subResource?: string;
  readonly object: KubeObject | null;
  readonly oldObject: KubeObject | null;
}

/** Whether Cluster API's webhooks hear of a write. */
export function concernsCapi({ operation, resource: { group, resource }, subResource }: CapiReview): boolean {
  const isHeard = operation === "UPDATE" || (operation === "CREATE" && resource === "ipaddresses");
  const isTheirs = group === "ipam.cluster.x-k8s.io" && ["ipaddresses", "ipaddressclaims"].includes(resource);
  return isTheirs && isHeard && !subResource;
}

/**
 * What Cluster API's webhooks refuse an IPAddress or IPAddressClaim for; none: it is admitted. `claim`: the one it
 * answers.
 */
export function capiProblems(review: CapiReview, claim: KubeObject | null): string[] {
  if (!concernsCapi(review)) return [];
  const { operation, object, oldObject } = review;
  if (operation === "UPDATE")
    return isDeepStrictEqual(object.spec, oldObject.spec) ? [] : [`${object.kind} spec is immutable`];
  return [...problemsOfAddress(object.spec), ...problemsOfPool(object.spec, claim)];
}

function problemsOfAddress({ address, prefix, gateway }: KubeObject): string[] {
  const family = isIP(address);
  const problems: string[] = [];
  if (family === 0) problems.push(`spec.address: Invalid value: "${address}": not a valid IP address`);
  if (prefix < 0) problems.push("spec.prefix: prefix cannot be negative");
  if (family === 4 && prefix > 32) problems.push("spec.prefix: prefix is too large for an IPv4 address");
  if (family === 6 && prefix > 128) problems.push("spec.prefix: prefix is too large for an IPv6 address");
  if (gateway && isIP(gateway) === 0)
    problems.push(`spec.gateway: Invalid value: "${gateway}": not a valid IP address`);
  return problems;
}

function problemsOfPool({ poolRef }: KubeObject, claim: KubeObject | null): string[] {
  if (claim === null) return [];
  const wanted = claim.spec.poolRef;
  const isSame = ["apiGroup", "kind", "name"].every((key) => (poolRef[key] ?? "") === (wanted[key] ?? ""));
  return isSame
    ? []
    : [
        "spec.poolRef: the referenced pool is different from the pool referenced by the claim this address should fulfill",
      ];
}
