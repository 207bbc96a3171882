import { expect, test } from "vitest";
import { readUdnServiceReference } from "../../networks/udn/service-reference.ts";
import { projectUdn, SERVICE_ANNOTATION } from "../../networks/udn/udn-object.ts";
import { review, shippedPolicies } from "../harness/admission.ts";
import type { KubeObject } from "../harness/kube-api.ts";

/*
 * deploy/udn: what the API server refuses of references to metadata Services is what Holdfast cannot follow, and
 * nothing else.
 */

const PRIMARY = { topology: "Layer2", layer2: { role: "Primary", subnets: ["10.20.0.0/16"] } };
const LAYER3 = {
  topology: "Layer3",
  layer3: { role: "Primary", subnets: [{ cidr: "10.20.0.0/16", hostSubnet: 24 }] },
};
const SECONDARY = { topology: "Layer2", layer2: { role: "Secondary", subnets: ["10.20.0.0/16"] } };
const IPV6 = { topology: "Layer2", layer2: { role: "Primary", subnets: ["fd00::/64"] } };
const DUAL = {
  topology: "Layer3",
  layer3: { role: "Primary", subnets: [{ cidr: "fd00::/48" }, { cidr: "10.20.0.0/16" }] },
};
const NO_SUBNET = { topology: "Layer2", layer2: { role: "Primary", ipam: { mode: "Disabled" } } };

interface Given {
  readonly field?: unknown;
  readonly annotation?: string;
}

function udn(network: object, { field, annotation }: Given = {}): KubeObject {
  const metadata = metadataOf(annotation, { name: "blue", namespace: "shop" });
  return {
    kind: "UserDefinedNetwork",
    metadata,
    spec: { ...network, ...(field ? { metadataServiceRef: field } : {}) },
  };
}

function cudn(network: object, { field, annotation }: Given = {}): KubeObject {
  const metadata = metadataOf(annotation, { name: "blue" });
  const own = { ...network, ...(field ? { metadataServiceRef: field } : {}) };
  return { kind: "ClusterUserDefinedNetwork", metadata, spec: { namespaceSelector: {}, network: own } };
}

function metadataOf(annotation: string | undefined, names: object): object {
  const annotations = annotation === undefined ? {} : { annotations: { [SERVICE_ANNOTATION]: annotation } };
  return { uid: "u", resourceVersion: "1", creationTimestamp: "t", ...names, ...annotations };
}

function refusals(object: KubeObject, oldObject: KubeObject | null = null): readonly string[] {
  const resource = `${object.kind.toLowerCase()}s`;
  const request = {
    operation: oldObject === null ? "CREATE" : "UPDATE",
    resource: { group: "k8s.ovn.org", resource },
    userInfo: { username: "tenant" },
    object,
    oldObject,
  };
  const reviewed = review(request, shippedPolicies("udn"));
  expect(reviewed.policies).toEqual([`holdfast-${resource}`]);
  return reviewed.refusals;
}

const problemsOf = (object: KubeObject) => {
  const reference = readUdnServiceReference(projectUdn(object, object.kind));
  return reference.kind === "wrong" ? reference.problems : [];
};

const name = (chars: number) => "a".repeat(chars);

test.each([
  ["nothing", udn(PRIMARY), []],
  ["nothing, secondary", cudn(SECONDARY), []],
  ["the field", udn(PRIMARY, { field: { name: "md" } }), []],
  ["the field with the own namespace", udn(PRIMARY, { field: { name: "md", namespace: "shop" } }), []],
  ["the annotation", udn(PRIMARY, { annotation: "md" }), []],
  ["the annotation with the own namespace", udn(LAYER3, { annotation: "shop/md" }), []],
  ["both families", cudn(DUAL, { annotation: "shop/md" }), []],
  ["a cluster's with its namespace", cudn(LAYER3, { field: { name: "md", namespace: "shop" } }), []],
  ["a name that begins with a digit", udn(PRIMARY, { field: { name: "1-metadata" } }), []],
  [
    "a name that begins with a hyphen",
    udn(PRIMARY, { field: { name: "-metadata" } }),
    ["metadataServiceRef.name is not the name of a Service"],
  ],
  ["the longest name", udn(PRIMARY, { field: { name: name(253) } }), []],
  ["no name", udn(PRIMARY, { field: { namespace: "shop" } }), ["metadataServiceRef.name is required"]],
  ["an empty name", udn(PRIMARY, { field: { name: "" } }), ["metadataServiceRef.name is required"]],
  ["an empty annotation", udn(PRIMARY, { annotation: "" }), ["metadataServiceRef.name is required"]],
  ["an annotation without a name", cudn(PRIMARY, { annotation: "shop/" }), ["metadataServiceRef.name is required"]],
  [
    "too long a name",
    udn(PRIMARY, { field: { name: name(254) } }),
    ["metadataServiceRef.name is not the name of a Service"],
  ],
  [
    "no name of a Service",
    udn(PRIMARY, { annotation: "My_Service" }),
    ["metadataServiceRef.name is not the name of a Service"],
  ],
  [
    "another's namespace",
    udn(PRIMARY, { field: { name: "md", namespace: "bank" } }),
    ["metadataServiceRef.namespace: a UserDefinedNetwork can refer to a Service of its own namespace only"],
  ],
  [
    "another's namespace in the annotation",
    udn(PRIMARY, { annotation: "bank/md" }),
    ["metadataServiceRef.namespace: a UserDefinedNetwork can refer to a Service of its own namespace only"],
  ],
  [
    "a cluster's without its namespace",
    cudn(PRIMARY, { field: { name: "md" } }),
    ["metadataServiceRef.namespace is required for ClusterUserDefinedNetwork"],
  ],
  [
    "a cluster's annotation without its namespace",
    cudn(PRIMARY, { annotation: "md" }),
    ["metadataServiceRef.namespace is required for ClusterUserDefinedNetwork"],
  ],
  [
    "no namespace's name",
    cudn(PRIMARY, { annotation: "Shop/md" }),
    ["metadataServiceRef.namespace is not the name of a namespace"],
  ],
  [
    "a secondary network",
    udn(SECONDARY, { field: { name: "md" } }),
    ["metadataServiceRef is only supported for Primary network role"],
  ],
  [
    "a localnet",
    cudn({ topology: "Localnet", localnet: { role: "Secondary" } }, { annotation: "shop/md" }),
    [
      "metadataServiceRef is only supported for Primary network role",
      "metadataServiceRef requires at least one IPv4 subnet",
    ],
  ],
  ["IPv6 only", udn(IPV6, { field: { name: "md" } }), ["metadataServiceRef requires at least one IPv4 subnet"]],
  ["no subnet", udn(NO_SUBNET, { field: { name: "md" } }), ["metadataServiceRef requires at least one IPv4 subnet"]],
])("%s is judged by the policies as Holdfast itself does", (_, object, expected) => {
  expect(refusals(object)).toEqual(expected);
  expect(problemsOf(object)).toHaveLength(expected.length);
});

test("a network whose reference was invalid before the policy can be changed and deleted", () => {
  const wrong = udn(SECONDARY, { annotation: "bank/md" });
  const finalizers = { ...wrong, metadata: { ...wrong.metadata, finalizers: [] } };
  expect(refusals(finalizers, wrong)).toEqual([]);
  expect(refusals(udn(SECONDARY, { annotation: "bank/other" }), wrong)).toHaveLength(2);
  expect(refusals(udn(SECONDARY), wrong)).toEqual([]);
});
