/*
 * test/harness/rights/: what the shipped roles allow, and what the tests of `worlds` have seen used of it
 *
 *   shipped      every right of deploy/: a row for each account, verb, resource and name
 *   used         which of them a server in memory has seen used since the test file began
 *   setup        reports that at the end of each test file
 *   unused       the verdict on a run of the whole project, for harness/closing-line-reporter.ts
 */
import { join } from "node:path";
import type { KubeObject } from "../kube-api.ts";
import type { Access } from "../kube-fake/requests.ts";
import { readManifests } from "../kube-manifests.ts";

const DEPLOY = join(import.meta.dirname, "../../../deploy");
/** Every file that grants rights to an account of Holdfast. */
const FILES = ["rbac.yaml", "machines/rbac.yaml", "metadata/tenant.yaml", "openshift/rbac.yaml"];
/** Names that such a file asks its reader to replace. */
const EXAMPLES: ReadonlySet<string | null> = new Set(["holdfast-user-data"]);
const PREFIX = "system:serviceaccount:holdfast-system:";

/** One verb on one resource. */
export interface ShippedRight {
  /** Name of a service account. */
  readonly account: string;
  readonly verb: string;
  readonly group: string;
  /** With its subresource, if it has one: `ipamclaims/status`. */
  readonly resource: string;
  /** null: objects of every name. */
  readonly name: string | null;
}

export const usernameOf = (account: string): string => `${PREFIX}${account}`;

/** `holdfast-node patch ipamclaims/status.k8s.cni.cncf.io`, and the name where the right is limited to one. */
export function titleOf({ account, verb, group, resource, name }: ShippedRight): string {
  return `${account} ${verb} ${resource}${group === "" ? "" : `.${group}`}${name === null ? "" : ` ${name}`}`;
}

/**
 * The rights that the manifests of deploy/ bind to accounts. The role of people is none of them: they have kubectl too.
 * Throws when a binding refers to a role that is not there.
 */
export function shippedRights(): ShippedRight[] {
  const objects = FILES.flatMap((file) => readManifests(join(DEPLOY, file)));
  return objects.flatMap(({ kind, roleRef, subjects = [], metadata }) => {
    if (kind !== "ClusterRoleBinding" && kind !== "RoleBinding") return [];
    const role = objects.find((one) => one.kind === roleRef.kind && one.metadata.name === roleRef.name);
    if (role === undefined) throw new Error(`${kind} ${metadata.name}: there is no ${roleRef.name}`);
    return subjects.flatMap(({ name }: KubeObject) =>
      role.rules.flatMap((rule: KubeObject) => rightsOfRule(name, rule)),
    );
  });
}

function rightsOfRule(account: string, rule: KubeObject): ShippedRight[] {
  const { apiGroups, resources, verbs, resourceNames = [null] } = rule;
  return apiGroups.flatMap((group: string) =>
    resources.flatMap((resource: string) =>
      verbs.flatMap((verb: string) =>
        resourceNames.map((name: string | null) => {
          return { account, verb, group, resource, name: EXAMPLES.has(name) ? null : name };
        }),
      ),
    ),
  );
}

/** Whether this right allows it. */
export function allows(right: ShippedRight, access: Access): boolean {
  const { user, verb, group, resource, subresource, name } = access;
  return (
    user.username === usernameOf(right.account) &&
    right.verb === verb &&
    right.group === group &&
    right.resource === (subresource === "" ? resource : `${resource}/${subresource}`) &&
    (right.name === null || right.name === name)
  );
}
