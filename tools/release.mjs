// The assets of a release for clusterctl, in dist/release or the folder that is named: ipam-components.yaml (the controller, its rights and the definitions) and
// metadata.yaml. Made from deploy/, so that nothing is written twice. What clusterctl asks of a provider:
// https://cluster-api.sigs.k8s.io/developer/providers/contracts/clusterctl
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments, stringify } from "yaml";

const ROOT = join(import.meta.dirname, "..");
const OUT = process.argv[2] ?? join(ROOT, "dist/release");
/** clusterctl tells providers apart by it, and deletes by it. */
const PROVIDER_LABELS = { "cluster.x-k8s.io/provider": "ipam-holdfast" };
/** What machines need of deploy/: neither the daemons of nodes nor the metadata service. */
const OTHERS = /^holdfast-(node|metadata)$/;
/** The contract of Cluster API that this release keeps. */
const CONTRACT = "v1beta2";
/** Those of the release series before it that were providers: clusterctl upgrades from them. */
const FORMER_SERIES = [];
/** clusterctl puts the value of the variable here, or the default. */
const IMAGE = "$" + "{HOLDFAST_IMAGE:=holdfast:VERSION}";

const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

function objectsOf(file) {
  return parseAllDocuments(readFileSync(join(ROOT, "deploy", file), "utf8")).map((document) =>
    document.toJS(),
  );
}

function definitions() {
  const files = readdirSync(join(ROOT, "deploy/crds")).filter((name) => name !== "kustomization.yaml");
  return files.sort().flatMap((name) => objectsOf(`crds/${name}`));
}

function labelled(object) {
  const { metadata } = object;
  return { ...object, metadata: { ...metadata, labels: { ...metadata.labels, ...PROVIDER_LABELS } } };
}

/** The pods carry the label too, and clusterctl knows the container by this name. */
function asProvider(object) {
  if (object.kind !== "Deployment") return labelled(object);
  const { template } = object.spec;
  const containers = template.spec.containers.map((one) => ({
    ...one,
    name: "manager",
    image: IMAGE.replace("VERSION", version),
  }));
  const spec = { ...template.spec, containers };
  return labelled({ ...object, spec: { ...object.spec, template: { ...labelled(template), spec } } });
}

const objects = [...definitions(), ...objectsOf("rbac.yaml"), ...objectsOf("deployment.yaml")]
  .filter(({ metadata }) => !OTHERS.test(metadata.name))
  .map(asProvider);
const [major, minor] = version.split(".").map(Number);
mkdirSync(OUT, { recursive: true });
writeFileSync(join(OUT, "ipam-components.yaml"), objects.map((object) => stringify(object)).join("---\n"));
writeFileSync(
  join(OUT, "metadata.yaml"),
  stringify({
    apiVersion: "clusterctl.cluster.x-k8s.io/v1alpha3",
    kind: "Metadata",
    releaseSeries: [...FORMER_SERIES, { major, minor, contract: CONTRACT }],
  }),
);
console.log(`dist/release: ipam-components.yaml (${objects.length} objects), metadata.yaml`);
