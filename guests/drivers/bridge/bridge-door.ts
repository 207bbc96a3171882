import { createHash } from "node:crypto";
import { readlinkSync } from "node:fs";
import { basename } from "node:path";
import { mustRun, run } from "../../kernel/run.ts";
import { type ListenerDoors, METADATA_IPV4, type OpenDoor } from "../driver.ts";
import { readLinkFile } from "../nft/links.ts";

/** A bridge, and the VLAN whose frames its port takes and gives without a tag; null: the bridge knows no VLANs. */
export interface BridgePlace {
  readonly bridge: string;
  readonly vlan: number | null;
}

/** "/" is in no name of a link. */
export function doorName({ bridge, vlan }: BridgePlace): string {
  return `bridge:${bridge}${vlan === null ? "" : `/${vlan}`}`;
}

export function placeOf(door: string): BridgePlace {
  const [bridge, vlan] = door.slice("bridge:".length).split("/") as [string, string?];
  return { bridge, vlan: vlan === undefined ? null : Number(vlan) };
}

/** Where a link is plugged in; null: into no Linux bridge. Throws an Error for the operator when it has no VLAN. */
export async function placeOfLink(link: string): Promise<BridgePlace | null> {
  const bridge = masterOf(link);
  if (bridge === null || readLinkFile(bridge, "bridge/bridge_id") === null) return null;
  if (readLinkFile(bridge, "bridge/vlan_filtering") !== "1") return { bridge, vlan: null };
  const shown = await mustRun("bridge", ["-json", "vlan", "show", "dev", link]);
  const [port] = JSON.parse(shown || "[]") as { vlans?: { vlan: number; flags?: string[] }[] }[];
  const vlan = port?.vlans?.find(({ flags }) => flags?.includes("PVID"))?.vlan;
  if (vlan === undefined) throw new Error(`the link ${link} has no VLAN without a tag on the bridge ${bridge}`);
  return { bridge, vlan };
}

/**
 * Makes a door a port of its bridge, from any state. The bridge knows the listener's MACs and does not learn them,
 * sends it nothing else, and answers ARP for 169.254.169.254 by itself.
 */
export async function plugIn(
  place: BridgePlace,
  { outer }: OpenDoor,
  macs: Pick<ListenerDoors, "serviceMac" | "doorMac" | "nobodyMac">,
): Promise<void> {
  const { bridge, vlan } = place;
  const of = vlan === null ? "" : ` vlan ${vlan}`;
  // A bridge takes the lowest address of its ports.
  const mac = `fe:ff${createHash("sha256").update(outer).digest("hex").slice(0, 8).replaceAll(/../g, ":$&")}`;
  await mustRun("ip", ["-batch", "-"], `link set ${outer} address ${mac} master ${bridge} up\n`);
  const ours = readLinkFile(bridge, "bridge/default_pvid") ?? "0";
  const vlans =
    vlan === null
      ? []
      : [
          ...(ours === "0" || ours === String(vlan) ? [] : [`vlan del dev ${outer} vid ${ours}`]),
          `vlan add dev ${outer} vid ${vlan} pvid untagged`,
        ];
  const commands = [
    ...vlans,
    `link set dev ${outer} learning off flood off mcast_flood off bcast_flood off neigh_suppress on`,
    ...[macs.doorMac, macs.serviceMac, macs.nobodyMac].map(
      (one) => `fdb replace ${one} dev ${outer} master static${of}`,
    ),
  ];
  await mustRun("bridge", ["-batch", "-"], `${commands.join("\n")}\n`);
  const answer = `neigh replace ${METADATA_IPV4} lladdr ${macs.serviceMac} dev ${bridge} nud permanent\n`;
  await mustRun("ip", ["-batch", "-"], answer);
}

/** Takes away what `plugIn` left at the bridge itself; what is at the door's link goes with that. */
export async function unplug({ bridge }: BridgePlace, serviceMac: string): Promise<void> {
  const shown = await run("ip", ["-json", "neigh", "show", "dev", bridge, "nud", "permanent"]);
  if (shown.code !== 0) return;
  for (const { dst, lladdr } of JSON.parse(shown.stdout || "[]") as { dst: string; lladdr?: string }[])
    if (lladdr === serviceMac) await run("ip", ["neigh", "del", dst, "dev", bridge]);
}

function masterOf(link: string): string | null {
  try {
    return basename(readlinkSync(`/sys/class/net/${link}/master`));
  } catch {
    return null;
  }
}
