import { createHash } from "node:crypto";
import type { Finding } from "../../ipam/finding.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { objectPath, PODS_PATH } from "../../kube/objects.ts";
import { VERSION } from "../../version.ts";
import { ClusterProblem } from "./asking/cluster-problem.ts";

const GROUP_PATH = "/apis/admissionregistration.k8s.io/v1";
const POLICIES_PATH = `${GROUP_PATH}/validatingadmissionpolicies`;
const BINDINGS_PATH = `${GROUP_PATH}/validatingadmissionpolicybindings`;
const LOOK_MS = 5_000;
/** The pods of deploy/daemonset.yaml. */
const DAEMONS = "app.kubernetes.io/name=holdfast,app.kubernetes.io/component=node";
const APPLY = "kubectl apply -k deploy of this version, with components: [admission] (docs/threats.md)";

interface PolicyCheck {
  readonly findings: readonly Finding[];
  /** An administrator may do without the policies. */
  readonly notes: readonly string[];
}

/**
 * Whether the policies of deploy/admission are installed, as this version ships them, enforced, and about the account
 * that the daemons have. Says nothing where the server is too old for policies. Throws ApiAway.
 */
export async function checkPolicies(api: KubeApi): Promise<PolicyCheck> {
  const names = Object.keys(SHIPPED_POLICIES);
  const policies = await Promise.all(names.map((name) => read(api, objectPath(POLICIES_PATH, name))));
  if (policies.includes("not-served")) return { findings: [], notes: [] };
  if (policies.includes("refused"))
    return note("are not compared: that needs the right to get validatingadmissionpolicies and their bindings");
  if (policies.every((one) => one === null))
    return note(
      "are not installed: the token of one node can rewrite what other nodes hold (docs/threats.md, components: [admission])",
    );
  const bindings = await Promise.all(names.map((name) => read(api, objectPath(BINDINGS_PATH, name))));
  const findings = [
    ...names.flatMap((name, index) => policyFindings(name, policies[index] as Spec | null)),
    ...names.flatMap((name, index) => bindingFindings(name, bindings[index] as Spec | null | "refused")),
    ...(await accountFindings(api)),
  ];
  return { findings, notes: [] };
}

// biome-ignore lint/suspicious/noExplicitAny: specs as the API server sends them, with anything in them
type Spec = any;

/** null: there is no such object. */
async function read(api: KubeApi, path: string): Promise<Spec | null | "not-served" | "refused"> {
  try {
    const reading = await new ObjectClient(api).get(path, api.clock.monotonicMs() + LOOK_MS);
    if (reading.kind === "present") return reading.object.spec ?? {};
    return reading.kind === "absent" ? null : reading.kind;
  } catch (error) {
    if (error instanceof ClusterProblem && error.kind === "refused") return "refused";
    throw error;
  }
}

function note(what: string): PolicyCheck {
  return { findings: [], notes: [`the admission policies of nodes' tokens ${what}`] };
}

function policyFindings(name: string, spec: Spec | null): Finding[] {
  const message =
    spec === null
      ? `ValidatingAdmissionPolicy ${name} is missing: a node's token is held to the others only`
      : `ValidatingAdmissionPolicy ${name} is not that of holdfast ${VERSION}: a node's token may be held to less`;
  if (spec !== null && policyFingerprint(spec) === SHIPPED_POLICIES[name]) return [];
  return [{ invariant: "admission", message, hint: APPLY }];
}

function bindingFindings(name: string, spec: Spec | null | "refused"): Finding[] {
  if (spec === "refused") return [];
  const problem = spec === null ? "it is missing" : bindingProblem(spec, name);
  if (problem === null) return [];
  const message = `ValidatingAdmissionPolicyBinding ${name} does not enforce its policy: ${problem}`;
  return [{ invariant: "admission", message, hint: APPLY }];
}

/** The policies are for every account of the daemons' name; under another one a node's token is held to nothing. */
async function accountFindings(api: KubeApi): Promise<Finding[]> {
  const others = new Set<string>();
  await api.list({
    path: PODS_PATH,
    query: { labelSelector: DAEMONS },
    each: ({ metadata, spec }: Spec) => {
      const account = spec?.serviceAccountName || "default";
      if (account !== NODE_ACCOUNT) others.add(`${metadata.namespace}/${account}`);
    },
    restarted: () => others.clear(),
  });
  return [...others].sort().map((account) => ({
    invariant: "admission",
    message: `daemons run as service account ${account}, which the admission policies do not concern`,
    hint: `give them an account of the name ${NODE_ACCOUNT}, in whatever namespace`,
  }));
}

/** The name of the daemons' account, whatever its namespace: whom the policies hold. */
const NODE_ACCOUNT = "holdfast-node";

/** The policies of deploy/admission, each with a binding of its name, and the fingerprints of what they say. */
export const SHIPPED_POLICIES: Readonly<Record<string, string>> = {
  "holdfast-node-allocations": "4ad5a73e33b54c32",
  "holdfast-node-networks": "24a0f1899e5e5ccd",
  "holdfast-node-claims": "022ed40b7fd735b9",
};

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
function bindingProblem({ policyName, validationActions, paramRef, matchResources = {} }: Spec, name: string) {
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
