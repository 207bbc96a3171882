import { join } from "node:path";
import type { KubeObject } from "../kube-api.ts";
import { readManifests } from "../kube-manifests.ts";

const CRDS = join(import.meta.dirname, "../crds/machines");

/** The version in which a cluster serves IPAddressClaims and IPAddresses; it serves no other. */
export type IpamVersion = "v1alpha1" | "v1beta1" | "v1beta2";
export const IPAM_VERSIONS: readonly IpamVersion[] = ["v1alpha1", "v1beta1", "v1beta2"];

/** Definitions that a cluster may have beside: the files of the directory. */
export type MachineKinds = "capi" | "capv" | "metal3-host" | "metal3-data" | "metal3-pools";

/** IPAddressClaim and IPAddress, with the rules by which the server checks them. */
function ipamDefinitions(version: IpamVersion): KubeObject[] {
  return readManifests(join(CRDS, `ipam-${version}.yaml`));
}

/**
 * The same while a cluster moves from one version to another: objects are in the old one, only the new one is served.
 */
export function switchedDefinitions(from: IpamVersion, to: IpamVersion): KubeObject[] {
  const old = ipamDefinitions(from);
  return ipamDefinitions(to).map((definition, index) => {
    const unserved = { ...old[index].spec.versions[0], served: false, storage: false };
    return { ...definition, spec: { ...definition.spec, versions: [...definition.spec.versions, unserved] } };
  });
}

/** Stand-ins for the kinds of others: nothing of their fields is checked. */
export function machineDefinitions(kinds: MachineKinds): KubeObject[] {
  return readManifests(join(CRDS, `${kinds}.yaml`));
}

/** Releases of CAPM3 whose Metal3DataTemplates differ. */
export type Capm3Release = "v1.12" | "v1.13" | "v1.14";
export const CAPM3_RELEASES: readonly Capm3Release[] = ["v1.12", "v1.13", "v1.14"];

/** Metal3DataTemplate with upstream's rules, as a release of CAPM3 serves it. */
export function templateDefinition(release: Capm3Release): KubeObject {
  const [definition] = readManifests(join(CRDS, "metal3-templates.yaml")) as [KubeObject];
  const [v1beta1, v1beta2] = definition.spec.versions;
  if (release === "v1.12") definition.spec.versions = [{ ...v1beta1, storage: true }];
  if (release === "v1.14") delete v1beta2.schema.openAPIV3Schema.properties.spec.required;
  return definition;
}

/** The version of Cluster that comes with one of IPAddressClaim. */
export function clusterVersion(version: IpamVersion): "v1beta1" | "v1beta2" {
  return version === "v1beta2" ? "v1beta2" : "v1beta1";
}

/** What Cluster API brings: its address claims in one version, and its Clusters and Machines. */
export function capiDefinitions(version: IpamVersion): KubeObject[] {
  const others = machineDefinitions("capi");
  for (const { spec } of others) spec.versions[0].name = clusterVersion(version);
  return [...ipamDefinitions(version), ...others];
}
