// The assets of a release for clusterctl: ipam-components.yaml (the controller, its rights and the definitions) and
// metadata.yaml. What clusterctl asks of a provider:
// https://cluster-api.sigs.k8s.io/developer/providers/contracts/clusterctl
import { stringify } from "yaml";
import { containersOf, DISTRIBUTIONS, definitions, documents, installed, isFlowControl } from "./manifests.mjs";

/** clusterctl tells providers apart by it, and deletes by it. */
const PROVIDER_LABELS = { "cluster.x-k8s.io/provider": "ipam-holdfast" };
/** What machines do not need of deploy/: the daemons of nodes, the metadata service, and places for ADDs. */
const isOther = (object) =>
  /^holdfast-(openshift-)?(node|metadata)$/.test(object.metadata.name) || isFlowControl(object);
/** The contract of Cluster API that this release keeps. */
const CONTRACT = "v1beta2";
/** Those of the release series before it that were providers: clusterctl upgrades from them. */
const FORMER_SERIES = [];

function labelled(object) {
  const { metadata } = object;
  return { ...object, metadata: { ...metadata, labels: { ...metadata.labels, ...PROVIDER_LABELS } } };
}

/**
 * The pods carry the label too, and clusterctl knows the container by this name and puts the value of its variable
 * there.
 */
function asProvider(object, image) {
  if (object.kind !== "Deployment") return labelled(object);
  const { template } = object.spec;
  const containers = containersOf(object).map((one) => ({ ...one, name: "manager", image }));
  const spec = { ...template.spec, containers };
  return labelled({ ...object, spec: { ...object.spec, template: { ...labelled(template), spec } } });
}

/**
 * Of the components those for the management cluster's distribution: what its admission wants of the controller's pods.
 */
export function clusterctlFiles({ image, version, components }) {
  const admission = components.filter((name) => DISTRIBUTIONS[name] !== undefined);
  const placeholder = `$\{HOLDFAST_IMAGE:=${image}}`;
  const objects = [...definitions(), ...installed(admission)]
    .filter((object) => !isOther(object))
    .map((object) => asProvider(object, placeholder));
  const [major, minor] = version.split(".").map(Number);
  const metadata = {
    apiVersion: "clusterctl.cluster.x-k8s.io/v1alpha3",
    kind: "Metadata",
    releaseSeries: [...FORMER_SERIES, { major, minor, contract: CONTRACT }],
  };
  return {
    "ipam-components.yaml": documents(objects),
    "metadata.yaml": stringify(metadata),
  };
}
