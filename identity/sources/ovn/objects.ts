import { isObject, parseConfiguration } from "../../../ipam/definition/definition-keys.ts";
import { NAD_CONFIG_CHARS_MAX } from "../../../ipam/definition/nad-config.ts";
import type { Configuration } from "../../../ipam/definition/read-keys.ts";
import { RefusalError } from "../../../ipam/refusals.ts";
import { formatAddress } from "../../../ipam/space/address.ts";
import { type ClaimView, projectClaim } from "../../../kube/views/claim-view.ts";
import { statusAddresses } from "../../../kube/views/held-addresses.ts";
import { objectAt, readMetadata } from "../../../kube/views/object-metadata.ts";
import { POD_NETWORKS_ANNOTATION, type PodView, projectPod } from "../../../kube/views/pod-view.ts";
import { readPodNetworks } from "./pod-networks.ts";

/** `type` of OVN-Kubernetes' plugin. */
const OVN_PLUGIN = "ovn-k8s-cni-overlay";
/** The pod's interface on a user-defined primary network. */
const PRIMARY_INTERFACE = "ovn-udn1";

/** A launcher pod and its networks according to OVN-Kubernetes. */
export type OvnPod = Readonly<NonNullable<ReturnType<typeof ovnPodOf>>>;

export type OvnInterface = Readonly<OvnPod["networks"][number]>;

export type OvnNad = Readonly<NonNullable<ReturnType<typeof projectOvnNad>>>;

/** Projects a pod to what identifies it; null: it has no network of OVN-Kubernetes. Throws MalformedObjectError. */
export function projectOvnPod(object: unknown): OvnPod | null {
  return ovnPodOf(projectPod(object, { addresses: true }));
}

/** The same of a pod that was projected with its addresses. */
export function ovnPodOf({ annotations, ...view }: PodView) {
  const networks = readPodNetworks(annotations[POD_NETWORKS_ANNOTATION]);
  if (networks.length === 0) return null;
  const said = new Map<string, string>();
  for (const { nad, address, interface: name } of statusAddresses({ ...view, annotations }).held) {
    const key = nad === null ? "" : `${nad.namespace}/${nad.name} ${formatAddress(address)}`;
    if (!said.has(key)) said.set(key, name);
  }
  return {
    ...view,
    /** Its containers run. Before that, addresses in the annotation may have been written by anybody. */
    running: view.phase === "Running",
    networks: networks.map((network) => {
      const [first] = network.addresses;
      const name = first && said.get(`${network.nad} ${formatAddress(first.address)}`);
      // null: not known.
      return { ...network, interface: name || (network.primary ? PRIMARY_INTERFACE : null) };
    }),
  };
}

/** null: it is not OVN-Kubernetes' or cannot be read. Throws MalformedObjectError. */
export function projectOvnNad(object: unknown) {
  const { key, uid, resourceVersion } = readMetadata(object, "NetworkAttachmentDefinition");
  const { config } = objectAt(object, "spec", "NetworkAttachmentDefinition");
  const read = readOvnConfig(config);
  return read && { key, uid, resourceVersion, ...read };
}

/** A NetworkAttachmentDefinition's configuration; null: it is not OVN-Kubernetes' or cannot be read. */
export function readOvnConfig(config: unknown) {
  const conf = parse(config);
  const plugins: readonly unknown[] = Array.isArray(conf.plugins) ? conf.plugins : [conf];
  const plugin = plugins.filter(isObject).find(({ type }) => type === OVN_PLUGIN);
  const name = conf.name ?? plugin?.name;
  if (plugin === undefined || typeof name !== "string" || name === "") return null;
  const { mtu } = plugin;
  return { network: name, mtu: typeof mtu === "number" && mtu > 0 ? mtu : null };
}

/** An IPAMClaim of one network; null: it belongs to another. Throws MalformedObjectError. */
export function projectClaimOf(network: string): (object: unknown) => ClaimView | null {
  return (object) => {
    const claim = projectClaim(object);
    return claim.network === network ? claim : null;
  };
}

function parse(config: unknown): Configuration {
  if (typeof config !== "string" || config.length > NAD_CONFIG_CHARS_MAX) return {};
  try {
    return parseConfiguration(config);
  } catch (error) {
    if (error instanceof RefusalError) return {};
    throw error;
  }
}
