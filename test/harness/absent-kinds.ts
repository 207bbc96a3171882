import type { KubeObject } from "./kube-api.ts";

/** Kubernetes' own kinds that the server in memory has not, as definitions that check nothing. */
export function policyDefinitions(): KubeObject[] {
  const group = "admissionregistration.k8s.io";
  return [
    definition({ group, plural: "validatingadmissionpolicies", kind: "ValidatingAdmissionPolicy" }),
    definition({
      group,
      plural: "validatingadmissionpolicybindings",
      kind: "ValidatingAdmissionPolicyBinding",
    }),
  ];
}

export function workloadDefinitions(): KubeObject[] {
  return ["DaemonSet", "Deployment"].map((kind) =>
    definition({ group: "apps", plural: `${kind.toLowerCase()}s`, kind, scope: "Namespaced" }),
  );
}

interface Kind {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
  readonly scope?: "Cluster" | "Namespaced";
}

function definition({ group, plural, kind, scope = "Cluster" }: Kind): KubeObject {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return {
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    metadata: { name: `${plural}.${group}` },
    spec: {
      ...{ group, scope, names: { plural, kind } },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  };
}
