type PluginConf = Readonly<Record<string, unknown>>;

/**
 * By which devices a guest's frames come to the node's IP, as far as its plugin's configuration says it.
 *
 *   none      macvlan, SR-IOV, …: no end of the interface is on the node
 *   bridges   all of these; other guests of the bridge come by the same
 *   own       ptp, and plugins that are not known: a link of the guest alone, whose name nobody knows beforehand
 */
export type Entry =
  | { readonly kind: "none" }
  | { readonly kind: "own" }
  | { readonly kind: "bridges"; readonly names: readonly string[] };

const WITHOUT_HOST_SIDE: ReadonlySet<unknown> = new Set([
  "macvlan",
  "ipvlan",
  "vlan",
  "sriov",
  "ib-sriov",
  "ipoib",
  "host-device",
  "userspace",
  "vhostuser",
]);
/** The default of the bridge plugin. */
const BRIDGE_DEFAULT = "cni0";

export function entryOf(conf: PluginConf): Entry {
  const { type, bridge, vlan } = conf;
  if (WITHOUT_HOST_SIDE.has(type)) return { kind: "none" };
  const name = typeof bridge === "string" && bridge !== "" ? bridge : null;
  if (name === null && type !== "bridge") return { kind: "own" };
  const device = name ?? BRIDGE_DEFAULT;
  // The bridge plugin, under whatever name, puts the gateway's address on a VLAN device of the bridge then.
  const isGateway = conf.isGateway === true || conf.isDefaultGateway === true;
  const hasVlan = isGateway && typeof vlan === "number" && vlan > 0;
  return { kind: "bridges", names: hasVlan ? [device, `${device}.${vlan}`] : [device] };
}
