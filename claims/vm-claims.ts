import { NAME_CHARS_MAX } from "../kube/object-names.ts";
import { hashedInterface, type VmiInterface } from "../kube/views/vmi-view.ts";

/** The name that kubevirt/ipam-extensions gives it (pkg/claims, ComposeKey). `network`: by its name in the VM. */
export function claimOfInterface(vmi: string, network: string): string {
  const parts = `${vmi}.${network}`.toLowerCase().match(/[a-z0-9]([-a-z0-9]*[a-z0-9])?/g) ?? [];
  return parts.join(".").slice(0, NAME_CHARS_MAX);
}

/**
 * Whether a claim that a launcher pod names for an interface may be that of another interface. Where a VM has several
 * on one NetworkAttachmentDefinition, ipam-extensions (podmutator.go) names the last one's claim for all of them. A
 * claim that does not begin with the VM's name was not named by it.
 */
export function mayBeAnothers(vmi: string, claim: string, interfaceName: string): boolean {
  const prefix = `${vmi}.`;
  return claim.startsWith(prefix) && hashedInterface(claim.slice(prefix.length)) !== interfaceName;
}

/** The VM's interface behind an interface of its launcher pod; null: none is known. */
export function interfaceBehind(interfaces: readonly VmiInterface[], podInterface: string) {
  return interfaces.find(({ podInterfaces }) => podInterfaces.includes(podInterface)) ?? null;
}
