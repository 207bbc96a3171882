import type { IdentityInterface, IdentityView } from "../../identity/wire.ts";
import { describeValue } from "../../ipam/definition/definition-keys.ts";
import { canonicalMac } from "../../ipam/definition/mac.ts";
import type { VmiView } from "../../kube/views/vmi-view.ts";
import { guestLinks } from "../documents/guest-network.ts";
import { networksOf } from "./instance-of.ts";
import type { TenantLink } from "./tenant-source.ts";

/** With their names in the pod as far as what is allocated confirms them. Primary: on the cluster's own network. */
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

/** Interfaces that a message names. */
const NAMED_MAX = 5;
const REMEDIES = {
  addresses:
    "Holdfast allocates no address there, so the guest gets the link alone; configure it by user-data, or in the guest",
  mac: "its MAC is not known yet, or is another interface's, so the guest is not told of it; set macAddress in the VM",
  noMac:
    "that is no MAC address of an Ethernet interface, so the guest is not told of it; set macAddress in the VM to six bytes, as 02:00:00:00:00:01",
  unclear:
    "which of the VM's interfaces has which address is not known, so the guest is not told of it; set macAddress in the VM",
} as const;

/** Interfaces that the guest cannot configure from what it is told, and what to do, for an event; null: none. */
export function describeUnconfigured(
  interfaces: readonly IdentityInterface[],
  links: readonly TenantLink[],
): string | null {
  if (links.length === 0) return null;
  const networks = networksOf(interfaces, links);
  const told = new Set(guestLinks({ networks }).map(({ id }) => id));
  const problems = new Map<keyof typeof REMEDIES, string[]>();
  const note = (why: keyof typeof REMEDIES, id: string, mac?: string) => {
    const nad = links.find(({ linkId }) => linkId === id)?.nad;
    const name = nad == null ? id : `${id} (NetworkAttachmentDefinition ${nad})`;
    const shown = mac === undefined ? name : `${name} has MAC ${describeValue(mac)}`;
    problems.set(why, [...(problems.get(why) ?? []), shown]);
  };
  for (const { linkId, addressing, mac } of networks) {
    if (!told.has(linkId) && mac !== null && canonicalMac(mac) === null) note("noMac", linkId, mac);
    else if (!told.has(linkId)) note("mac", linkId);
    else if (addressing === "unknown") note("addresses", linkId);
  }
  for (const { linkId } of links) if (!networks.some((one) => one.linkId === linkId)) note("unclear", linkId);
  const texts = [...problems].map(([why, names]) => {
    const more = names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : "";
    return `interface ${names.slice(0, NAMED_MAX).join(", ")}${more}: ${REMEDIES[why]}`;
  });
  return texts.length === 0 ? null : texts.join(". ");
}
