import { isObject } from "../../ipam/definition/definition-keys.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { type ClaimView, vmOwners } from "../../kube/views/claim-view.ts";
import { type PodAddress, statusAddresses } from "../../kube/views/held-addresses.ts";
import { claimsNamedBy } from "../../kube/views/network-selection.ts";
import { type PodView, projectPod } from "../../kube/views/pod-view.ts";
import type { ClaimFact, NodeFact, ReportedAddress } from "./facts.ts";

/** The fields of a pod that decide about addresses, computed once for each version. */
export type SweptPod = Readonly<ReturnType<typeof sweptPod>>;

/** Projects a pod object. Throws MalformedObjectError. */
export function projectSweptPod(object: unknown): SweptPod {
  return sweptPod(projectPod(object, { addresses: true }));
}

export function sweptPod(view: PodView) {
  const { key, namespace, name, uid, resourceVersion, creationTimestamp, node, terminal, stopped, staticUid, vmi } =
    view;
  const { held, cut } = statusAddresses(view);
  return {
    key,
    namespace,
    name,
    uid,
    resourceVersion,
    creationTimestamp,
    node,
    terminal,
    /** Nothing of it runs, and nothing will be started (PodView). */
    stopped,
    staticUid,
    /** Claims of its namespace that its network selection names. */
    claims: claimsNamedBy(view.annotations, namespace),
    vmi,
    addresses: reported(view, held),
    addressesCut: cut,
  };
}

/**
 * The pod's own addresses are reported without a network, unless its network status names one. Of a pod that has ended
 * its status tells them further, and it has none.
 */
function reported({ terminal, podIPs }: PodView, held: readonly PodAddress[]): ReportedAddress[] {
  if (terminal) return [];
  const all = held.map(({ address, nad, network }) => ({
    address: formatAddress(address),
    nad: nad === null ? null : `${nad.namespace}/${nad.name}`,
    network,
  }));
  const own = podIPs.map((text) => ({ address: canonical(text), nad: null, network: null }));
  return [...all, ...own.filter(({ address }) => address !== "" && !all.some((one) => one.address === address))];
}

/** "": it is not an address. */
function canonical(text: string): string {
  try {
    return formatAddress(parseAddress(text));
  } catch {
    return "";
  }
}

/** The state of a node. A node whose kubelet has never reported counts as reachable: no failure is known. */
export function nodeFact(object: { readonly status?: unknown }): NodeFact {
  const status = isObject(object.status) ? object.status : {};
  const conditions = Array.isArray(status.conditions) ? status.conditions : [];
  const ready = conditions.find((one) => isObject(one) && one.type === "Ready");
  return { unreachable: ready?.status === "Unknown" };
}

export function claimFact(view: ClaimView): ClaimFact {
  const { namespace, name, uid, network, creationTimestamp, ips, deletionTimestamp } = view;
  const vm = vmOwners(view.owners).length > 0 ? view.vm : null;
  return { namespace, name, uid, network, creationTimestamp, ips, vm, isDeleting: deletionTimestamp !== null };
}
