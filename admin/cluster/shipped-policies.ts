import { createHash } from "node:crypto";

/** The name of the daemons' account, whatever its namespace: whom the policies hold. */
export const NODE_ACCOUNT = "holdfast-node";

/** The policies of deploy/admission, each with a binding of its name, and the fingerprints of what they say. */
export const SHIPPED_POLICIES: Readonly<Record<string, string>> = {
  "holdfast-node-allocations": "f334d78bc919f000",
  "holdfast-node-networks": "94d38bd528d8b3af",
  "holdfast-node-claims": "38577b76ee7a6248",
  "holdfast-node-claim-networks": "09ca279df11da6fa",
};

// biome-ignore lint/suspicious/noExplicitAny: specs as the API server sends them, with anything in them
type Spec = any;

/** Of what a ValidatingAdmissionPolicy decides; the same with the server's defaults and without them. */
export function policyFingerprint({ matchConstraints = {}, ...spec }: Spec): string {
  const { resourceRules, excludeResourceRules, matchPolicy = "Equivalent" } = matchConstraints;
  const rules = (list: Spec[] = []) =>
    list.map(({ apiGroups, apiVersions, operations, resources, resourceNames = [], scope = "*" }) => [
      ...[apiGroups, apiVersions, operations, resources, resourceNames, scope],
    ]);
  const said = [
    [spec.failurePolicy ?? "Fail", spec.paramKind ?? null, matchPolicy, isSelective(matchConstraints)],
    [rules(resourceRules), rules(excludeResourceRules)],
    (spec.matchConditions ?? []).map(({ name, expression }: Spec) => [name, expression]),
    (spec.variables ?? []).map(({ name, expression }: Spec) => [name, expression]),
    (spec.validations ?? []).map((one: Spec) => [one.expression, one.message, one.reason]),
  ];
  return createHash("sha256").update(JSON.stringify(said)).digest("hex").slice(0, 16);
}

/** Why a ValidatingAdmissionPolicyBinding does not enforce its policy everywhere; null: it does. */
export function bindingProblem({ policyName, validationActions, paramRef, matchResources = {} }: Spec, name: string) {
  if (policyName !== name) return `it is of policy ${policyName}`;
  if (!validationActions?.includes("Deny")) return `its validationActions are ${validationActions}, expected Deny`;
  const { resourceRules = [], excludeResourceRules = [] } = matchResources;
  if (paramRef !== undefined || isSelective(matchResources) || resourceRules.length + excludeResourceRules.length > 0)
    return "it is limited to some objects";
  return null;
}

function isSelective({ namespaceSelector = {}, objectSelector = {} }: Spec): boolean {
  return [namespaceSelector, objectSelector].some((one) => Object.keys(one).length > 0);
}
