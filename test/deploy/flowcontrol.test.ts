import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../harness/kube-api.ts";
import { readManifests } from "../harness/kube-manifests.ts";

/** Into which flow each request goes that Holdfast's accounts may send: rights and FlowSchemas say the same. */

const DEPLOY = join(import.meta.dirname, "../../deploy");
const OBJECTS = readManifests(join(DEPLOY, "flowcontrol.yaml"));
const RIGHTS = ["rbac.yaml", "machines/rbac.yaml", "metadata/tenant.yaml"].flatMap((file) =>
  readManifests(join(DEPLOY, file)),
);
const of = (kind: string) => OBJECTS.filter((one) => one.kind === kind);
const SCHEMAS = of("FlowSchema").sort((a, b) => a.spec.matchingPrecedence - b.spec.matchingPrecedence);
/**
 * Of the built-in schemas (kubernetes/pkg/apis/flowcontrol/bootstrap): the last of the system's components, and the
 * first that is for everybody.
 */
const SYSTEM_COMPONENTS = 800;
const KUBE_SYSTEM_ACCOUNTS = 900;

interface Asked {
  readonly account: string;
  readonly verb: string;
  readonly group: string;
  /** With its subresource. */
  readonly resource: string;
}

/** Every right of an account, from the roles that are bound to it. */
function rightsOf(account: string): Asked[] {
  const bound = RIGHTS.filter(({ subjects }) => subjects?.some((one: KubeObject) => one.name === account));
  const roles = bound.map(({ roleRef }) =>
    RIGHTS.find((one) => one.kind === roleRef.kind && one.metadata.name === roleRef.name),
  );
  return roles
    .flatMap(({ rules }) => rules as KubeObject[])
    .flatMap(({ apiGroups, resources, verbs }) =>
      product(apiGroups, resources, verbs).map(([group, resource, verb]) => ({
        account,
        verb,
        group,
        resource,
      })),
    );
}

function product(groups: string[], resources: string[], verbs: string[]): [string, string, string][] {
  return groups.flatMap((group) =>
    resources.flatMap((resource) => verbs.map((verb): [string, string, string] => [group, resource, verb])),
  );
}

/** As the API server chooses it. */
function schemaOf({ account, verb, group, resource }: Asked): string | undefined {
  const has = (list: string[], value: string) => list.includes("*") || list.includes(value);
  const found = SCHEMAS.find(({ spec }) =>
    spec.rules.some(
      ({ subjects, resourceRules }: KubeObject) =>
        subjects.some((one: KubeObject) => one.serviceAccount.name === account) &&
        resourceRules.some(
          (rule: KubeObject) => has(rule.verbs, verb) && has(rule.apiGroups, group) && has(rule.resources, resource),
        ),
    ),
  );
  return found?.metadata.name;
}

const ACCOUNTS = ["holdfast-node", "holdfast-controller", "holdfast-metadata"];
/** What an ADD does not wait for. */
const NOT_OF_AN_ADD = /^(nodes|events|ippools|customresourcedefinitions)$/;

/** The flow that is meant for a request; of what nobody waits for, that with the account's name. */
function meant({ account, verb, resource }: Asked): string {
  if (account === "holdfast-controller" && resource === "leases") return "holdfast-lease";
  if (account !== "holdfast-node" || /list|watch/.test(verb) || NOT_OF_AN_ADD.test(resource)) return account;
  const isChange = verb === "update" || verb === "patch";
  return resource === "ipallocations" && isChange ? "holdfast-releases" : "holdfast-adds";
}

describe.each(ACCOUNTS)("the requests of %s", (account) => {
  test.each(rightsOf(account))("$verb $group $resource", (asked) => {
    expect(schemaOf(asked)).toBe(meant(asked));
  });
});

test("a schema names an account, a level and a precedence of its own, between the system's and everybody's", () => {
  const levels = of("PriorityLevelConfiguration").map(({ metadata }) => metadata.name);
  const precedences = SCHEMAS.map(({ spec }) => spec.matchingPrecedence);
  expect(new Set(precedences).size).toBe(precedences.length);
  for (const { spec } of SCHEMAS) {
    expect(levels).toContain(spec.priorityLevelConfiguration.name);
    expect(spec.matchingPrecedence).toBeGreaterThan(SYSTEM_COMPONENTS);
    expect(spec.matchingPrecedence).toBeLessThan(KUBE_SYSTEM_ACCOUNTS);
    for (const { subjects } of spec.rules)
      for (const { kind, serviceAccount } of subjects) {
        expect(kind).toBe("ServiceAccount");
        expect(ACCOUNTS).toContain(serviceAccount.name);
        expect(serviceAccount.namespace).toBe("holdfast-system");
      }
  }
});

test("a rule says for which scopes it is: one that says none matches nothing", () => {
  const namespaced = /^(pods|leases|network-attachment-definitions|virtualmachineinstances|ipamclaims|userdefined)/;
  for (const { spec, metadata } of SCHEMAS)
    for (const { resources, clusterScope = false, namespaces = [] } of spec.rules[0].resourceRules)
      for (const resource of resources) {
        if (resource === "*") expect({ clusterScope, namespaces }).toEqual({ clusterScope: true, namespaces: ["*"] });
        else if (namespaced.test(resource)) expect(namespaces, metadata.name).toHaveLength(1);
        else expect(clusterScope, `${metadata.name} ${resource}`).toBe(true);
      }
});
