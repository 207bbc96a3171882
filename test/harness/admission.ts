import { join } from "node:path";
import { Environment } from "@marcbachmann/cel-js";
import type { TestCluster } from "./cluster.ts";
import type { KubeObject } from "./kube-api.ts";
import { readManifests } from "./kube-manifests.ts";
import { until } from "./wait.ts";
import { type Refused, Webhook } from "./webhook.ts";

const DEPLOY = join(import.meta.dirname, "../../deploy");
const NODE_NAME = "authentication.kubernetes.io/node-name";

/** What a server hands to admission: the object as it is, and as it will be. */
export interface AdmissionRequest {
  readonly operation: string;
  readonly resource: { readonly group: string; readonly resource: string };
  readonly subResource?: string;
  readonly userInfo: {
    readonly username: string;
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
  readonly object: KubeObject | null;
  readonly oldObject: KubeObject | null;
}

/** What a policy says of a request: whom it concerned, and the messages of those of its rules that refuse. */
export interface Reviewed {
  readonly request: AdmissionRequest;
  /** Names of the policies that it concerned. */
  readonly policies: readonly string[];
  readonly refusals: readonly string[];
}

/** `part`: the directory of deploy/ that ships them. */
export function shippedPolicies(part: "admission" | "udn" = "admission"): KubeObject[] {
  return readManifests(join(DEPLOY, part, "policies.yaml")).filter(({ kind }) => kind === "ValidatingAdmissionPolicy");
}

const environment = new Environment({ unlistedVariablesAreDyn: true, homogeneousAggregateLiterals: false });

/**
 * What a server with ValidatingAdmissionPolicies decides by the policies. A rule that cannot be evaluated refuses
 * (failurePolicy: Fail).
 */
export function review(request: AdmissionRequest, policies: readonly KubeObject[] = shippedPolicies()): Reviewed {
  const concerned = policies.filter((policy) => concerns(policy, request));
  const refusals = concerned.flatMap((policy) => refusalsOf(policy, request));
  return { request, policies: concerned.map(({ metadata }) => metadata.name), refusals };
}

function concerns({ spec }: KubeObject, request: AdmissionRequest): boolean {
  const { group, resource } = request.resource;
  const name = request.subResource ? `${resource}/${request.subResource}` : resource;
  return (
    spec.matchConstraints.resourceRules.some(
      (rule: KubeObject) =>
        rule.apiGroups.includes(group) && rule.operations.includes(request.operation) && rule.resources.includes(name),
    ) &&
    (spec.matchConditions ?? []).every(
      ({ expression }: KubeObject) => environment.evaluate(expression, { request }) === true,
    )
  );
}

function refusalsOf({ spec }: KubeObject, request: AdmissionRequest): string[] {
  const variables: Record<string, unknown> = {};
  const context = { request, object: request.object, oldObject: request.oldObject, variables };
  const evaluate = (expression: string) => environment.evaluate(expression, context) as unknown;
  for (const { name, expression } of spec.variables ?? []) variables[name] = evaluate(expression);
  return spec.validations.flatMap(({ expression, message }: KubeObject) => {
    try {
      return evaluate(expression) === true ? [] : [message];
    } catch (error) {
      return [`${message} (${(error as Error).message})`];
    }
  });
}

/**
 * The shipped policies before a real API server that is too old to have them: a webhook that hears what they would, and
 * decides by the same expressions.
 */
export class AdmissionServer {
  /** Every request that concerned a policy, oldest first. */
  readonly reviews: Reviewed[] = [];
  #webhook: Webhook | null = null;
  /** The daemon of this node is taken for another's. */
  #mistaken: string | null = null;

  private constructor() {}

  /** From when this returns on, the server asks it. */
  static async start(cluster: TestCluster): Promise<AdmissionServer> {
    const admission = new AdmissionServer();
    const policies = shippedPolicies();
    const rules = policies.flatMap(({ spec }) => spec.matchConstraints.resourceRules);
    const decide = (request: KubeObject) => admission.#decide(request, policies);
    admission.#webhook = await Webhook.start(cluster, { name: "policies", rules, decide });
    const probe = {
      apiVersion: "ipam.holdfast.dev/v1alpha1",
      kind: "IPNetwork",
      metadata: { name: "probe" },
    };
    const asNobody = { "content-type": "application/json", ...asDaemonOf(null) };
    await until(
      async () =>
        (
          await cluster.api.call(
            "POST",
            "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks?dryRun=All",
            { ...probe, spec: { network: "probe" } },
            asNobody,
          )
        ).status === 403,
      "the server to ask",
    );
    admission.reviews.length = 0;
    return admission;
  }

  /** From now on the daemon of a node counts as another node's; what is returned ends that. */
  refuse(node: string): () => void {
    this.#mistaken = node;
    return () => {
      this.#mistaken = null;
    };
  }

  /** The messages of everything that was refused. */
  get refusals(): string[] {
    return this.reviews.flatMap(({ refusals }) => refusals);
  }

  async stop(): Promise<void> {
    await this.#webhook?.stop();
  }

  #decide(request: KubeObject, policies: readonly KubeObject[]): Refused | null {
    const names = request.userInfo.extra?.[NODE_NAME];
    if (names?.[0] === this.#mistaken) names[0] = "another";
    const reviewed = review(request, policies);
    if (reviewed.policies.length > 0) this.reviews.push(reviewed);
    if (reviewed.refusals.length === 0) return null;
    return { code: 403, reason: "Forbidden", message: reviewed.refusals.join("; ") };
  }
}

/**
 * Rights that the account of the daemons has not, for requests that only the policies are to refuse: they hold also
 * where somebody has given it more than deploy/rbac.yaml does.
 */
export function widerRights(): KubeObject[] {
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const metadata = { name: "holdfast-node-wider" };
  const rule = (group: string, ...resources: string[]) => ({
    apiGroups: [group],
    resources,
    verbs: ["update", "patch"],
  });
  const rules = [
    rule("ipam.holdfast.dev", "ipallocations", "ipnetworks"),
    rule("k8s.cni.cncf.io", "ipamclaims/status"),
  ];
  const subject = { kind: "ServiceAccount", name: "holdfast-node", namespace: "holdfast-system" };
  return [
    { apiVersion, kind: "ClusterRole", metadata, rules },
    {
      ...{ apiVersion, kind: "ClusterRoleBinding", metadata, subjects: [subject] },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: metadata.name },
    },
  ];
}

/** Headers by which an administrator acts as the daemon of a node whose token is bound to that node. */
export function asDaemonOf(node: string | null): Record<string, string> {
  const account = "system:serviceaccount:holdfast-system:holdfast-node";
  return {
    "impersonate-user": account,
    "impersonate-group": "system:authenticated",
    ...(node === null ? {} : { "impersonate-extra-authentication.kubernetes.io%2fnode-name": node }),
  };
}
