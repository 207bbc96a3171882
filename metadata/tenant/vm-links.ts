import type { IdentityView } from "../../identity/wire.ts";
import type { VmiView } from "../../kube/views/vmi-view.ts";
import type { TenantLink } from "./tenant-source.ts";

/**
 * The VM's interfaces, with their names in the pod as far as what is allocated there confirms them. Primary is the one
 * on the cluster's own network, where the VM has one there.
 */
export function linksOf(vmi: VmiView, identity: IdentityView): readonly TenantLink[] {
  const attached = new Map(identity.interfaces.map((one) => [one.interface, one.network]));
  const primary = vmi.interfaces.find(({ isDefault }) => isDefault);
  return vmi.interfaces.map((one) => {
    const confirmed = one.podInterfaces.find((name) => attached.has(name));
    return {
      interface: confirmed ?? one.podInterfaces[0] ?? null,
      network: confirmed === undefined ? null : (attached.get(confirmed) ?? null),
      linkId: one.name,
      nad: one.nad,
      mac: one.mac,
      primary: one === primary,
    };
  });
}
