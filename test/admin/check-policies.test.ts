import { beforeEach, describe, expect, test } from "vitest";
import { ClusterProblem } from "../../admin/cluster/asking/cluster-problem.ts";
import { checkPolicies, policyFingerprint, SHIPPED_POLICIES } from "../../admin/cluster/check-policies.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { PODS_PATH } from "../../kube/objects.ts";
import { policyDefinitions } from "../harness/absent-kinds.ts";
import { shippedPolicies } from "../harness/admission.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";

const GROUP = "/apis/admissionregistration.k8s.io/v1";
const POLICIES = `${GROUP}/validatingadmissionpolicies`;
const BINDINGS = `${GROUP}/validatingadmissionpolicybindings`;
const NETWORKS = "holdfast-node-networks";

let api: KubeInMemory;
beforeEach(() => {
  api = new KubeInMemory();
});

/** A server that has policies. */
function serve(): void {
  api.define(policyDefinitions());
}

/** What a server stores of deploy/admission: with its defaults. */
function install(change: (policies: KubeObject[], bindings: KubeObject[]) => void = () => {}): void {
  serve();
  const policies = structuredClone(shippedPolicies());
  for (const { spec } of policies) {
    Object.assign(spec.matchConstraints, {
      matchPolicy: "Equivalent",
      namespaceSelector: {},
      objectSelector: {},
    });
    for (const rule of spec.matchConstraints.resourceRules) rule.scope = "*";
  }
  const bindings = policies.map(({ metadata: { name } }) => ({
    metadata: { name },
    spec: { policyName: name, validationActions: ["Deny"] },
  }));
  change(policies, bindings);
  for (const { metadata, spec } of policies) api.put(POLICIES, { metadata, spec });
  for (const one of bindings) api.put(BINDINGS, one);
}

const of = (objects: readonly KubeObject[], name = NETWORKS): KubeObject =>
  objects.find(({ metadata }) => metadata.name === name) as KubeObject;

async function findings(): Promise<string[]> {
  const { findings: found, notes } = await checkPolicies(api);
  expect(notes).toEqual([]);
  return found.map(({ invariant, message }) => `${invariant}: ${message}`);
}

function daemon(namespace: string, serviceAccountName: string): void {
  const labels = { "app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "node" };
  api.put(PODS_PATH.replace("pods", `namespaces/${namespace}/pods`), {
    metadata: { namespace, name: "daemon", labels },
    spec: { serviceAccountName },
  });
}

test("the fingerprints of this version are those of the policies that it ships", () => {
  const shipped = shippedPolicies().map(({ metadata, spec }) => [metadata.name, policyFingerprint(spec)]);
  expect(SHIPPED_POLICIES).toEqual(Object.fromEntries(shipped));
});

describe("holdfast check --kubeconfig on the admission policies", () => {
  test("says nothing where a server is too old for them", async () => {
    expect(await checkPolicies(api)).toEqual({ findings: [], notes: [] });
  });

  test("notes that they are not installed, which an administrator may want so", async () => {
    serve();
    expect(await checkPolicies(api)).toEqual({
      findings: [],
      notes: [expect.stringContaining("are not installed: the token of one node can rewrite")],
    });
  });

  test("notes that it may not read them", async () => {
    install();
    api.before = ({ path }) => {
      if (path.startsWith(GROUP)) throw new ClusterProblem("refused", "forbidden", "");
    };
    expect((await checkPolicies(api)).notes).toEqual([expect.stringContaining("are not compared")]);
  });

  test("does not take a server that is away for one without policies", async () => {
    api.away = true;
    await expect(checkPolicies(api)).rejects.toThrow(ApiAway);
  });

  test("finds nothing where they are installed, in whatever namespace the daemons are", async () => {
    install();
    daemon("shop", "holdfast-node");
    expect(await findings()).toEqual([]);
  });

  test.each<[string, (policy: KubeObject) => void]>([
    [
      "with the namespace of another installation",
      ({ spec }) => {
        spec.matchConditions[0].expression = "false";
      },
    ],
    [
      "with an expression changed",
      ({ spec }) => {
        spec.validations[1].expression = "true";
      },
    ],
    [
      "without a rule",
      ({ spec }) => {
        spec.validations.pop();
      },
    ],
    [
      "that lets pass what it cannot judge",
      ({ spec }) => {
        spec.failurePolicy = "Ignore";
      },
    ],
    [
      "for creations only",
      ({ spec }) => {
        spec.matchConstraints.resourceRules[0].operations = ["CREATE"];
      },
    ],
    [
      "for some objects only",
      ({ spec }) => {
        spec.matchConstraints.objectSelector = { matchLabels: { a: "b" } };
      },
    ],
    [
      "that exempts an object",
      ({ spec }) => {
        spec.matchConstraints.excludeResourceRules = [{ resources: ["*"] }];
      },
    ],
  ])("names a policy %s", async (_, change) => {
    install((policies) => change(of(policies)));
    expect(await findings()).toEqual([
      expect.stringMatching(/^admission: ValidatingAdmissionPolicy holdfast-node-networks is not that of holdfast \d/),
    ]);
  });

  test.each<[string, (binding: KubeObject) => void, RegExp]>([
    [
      "that only warns",
      ({ spec }) => {
        spec.validationActions = ["Warn"];
      },
      /its validationActions are Warn, expected Deny/,
    ],
    [
      "of another policy",
      ({ spec }) => {
        spec.policyName = "other";
      },
      /it is of policy other/,
    ],
    [
      "for some objects only",
      ({ spec }) => {
        spec.matchResources = { objectSelector: { matchLabels: {} } };
      },
      /limited/,
    ],
  ])("names a binding %s", async (_, change, problem) => {
    install((__, bindings) => change(of(bindings)));
    expect(await findings()).toEqual([expect.stringMatching(problem)]);
  });

  test("names a policy and a binding that are missing among the others", async () => {
    install((policies, bindings) => {
      policies.splice(policies.indexOf(of(policies)), 1);
      bindings.splice(bindings.indexOf(of(bindings)), 1);
    });
    expect(await findings()).toEqual([
      expect.stringContaining("ValidatingAdmissionPolicy holdfast-node-networks is missing"),
      expect.stringContaining("holdfast-node-networks does not enforce its policy: it is missing"),
    ]);
  });

  test("names the account of daemons that the policies do not concern", async () => {
    install();
    daemon("shop", "test-holdfast-node");
    expect(await findings()).toEqual([
      expect.stringContaining("daemons run as service account shop/test-holdfast-node, which the admission policies"),
    ]);
  });
});
