import type { PodIdentity } from "../allocations/records.ts";
import type { RequestedAddress } from "../ipam/definition/requested-address.ts";
import { readNetworkSelection } from "../kube/views/network-selection.ts";
import type { PodView } from "../kube/views/pod-view.ts";
import {
  ADDRESSES_ANNOTATION,
  isHashedInterface,
  networkOfHashed,
  readRequestedAddresses,
} from "../kube/views/requested-addresses.ts";
import type { PodDirectory } from "./pod-directory.ts";
import { interfaceBehind } from "./vm-claims.ts";

interface Parts {
  readonly pods: PodDirectory;
  warnPod(pod: PodIdentity | null, reason: string, message: string): void;
}

/** Hashed names of interfaces tell which of the VM's networks they are for; for the others the VMI is read. */
export async function requestedByVm(
  parts: Parts,
  pod: PodView,
  podInterface: string,
  deadlineMs: number,
): Promise<readonly RequestedAddress[]> {
  if (pod.vmi === null) return [];
  const asked = readRequestedAddresses(pod.annotations[ADDRESSES_ANNOTATION]);
  if (asked.size === 0) return [];
  tellUnknownNetworks(parts, pod, [...asked.keys()], deadlineMs);
  const hashed = networkOfHashed(asked.keys(), podInterface);
  if (hashed !== null) return asked.get(hashed) ?? [];
  if (isHashedInterface(podInterface)) return [];
  const vmi = await parts.pods.readVmi(pod, deadlineMs);
  const own = vmi && interfaceBehind(vmi.interfaces, podInterface);
  return own ? (asked.get(own.name) ?? []) : [];
}

/**
 * A name that no network of the VM has asks for nothing, and nobody would know: the pod and the VM are told. Nothing
 * waits for this; the VMI is read where the pod's own interfaces do not have them all.
 */
function tellUnknownNetworks(parts: Parts, pod: PodView, names: readonly string[], deadlineMs: number): void {
  const { elements } = readNetworkSelection(pod.annotations, pod.namespace);
  const isKnown = (name: string) =>
    elements.some((one) => one.interface !== null && networkOfHashed([name], one.interface) !== null);
  if (names.every(isKnown)) return;
  parts.pods.readVmi(pod, deadlineMs).then(
    (vmi) => {
      if (vmi === null) return;
      const unknown = names.filter((name) => !vmi.interfaces.some((one) => one.name === name));
      if (unknown.length === 0) return;
      const has = vmi.interfaces.map(({ name }) => name).join(", ") || "none";
      parts.warnPod(
        pod,
        "UnknownNetwork",
        `annotation ${ADDRESSES_ANNOTATION} asks for addresses of ${unknown.join(", ")}, which the VM has no interface for: it has ${has}; write the names of the VM's networks, spec.template.spec.networks[].name`,
      );
    },
    () => undefined,
  );
}
