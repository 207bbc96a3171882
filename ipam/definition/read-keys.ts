import type { Keys } from "./go-json.ts";

/*
 * Every key that is read of what other programs read or write too. Nothing else can be read: the types come from here,
 * and test/ipam/read-keys.test.ts tries each. See docs/decisions/0089.
 */

/** Of a plugin's configuration, a list of them, and what a runtime adds. Keys in `ipam` are refused in another case. */
export const CONFIGURATION_KEYS = {
  cniVersion: "VALUE",
  name: "VALUE",
  type: "VALUE",
  ipam: { type: "VALUE" },
  // Where the plugin puts its interface, and whether it takes the gateway's address for the node.
  bridge: "VALUE",
  master: "VALUE",
  vlan: "VALUE",
  vlanId: "VALUE",
  mac: "VALUE",
  mtu: "VALUE",
  isGateway: "VALUE",
  isDefaultGateway: "VALUE",
  // Ours beside `ipam`.
  subnets: "VALUE",
  excludeSubnets: "VALUE",
  reservedSubnets: "VALUE",
  reservations: "LIST",
  gateway: "VALUE",
  allowPersistentIPs: "VALUE",
  cooldownSeconds: "VALUE",
  retainSeconds: "VALUE",
  statusWhenFull: "VALUE",
  routes: "LIST",
  args: { cni: { ips: "LIST", mac: "VALUE", "ipam-claim-reference": "VALUE" } },
  runtimeConfig: { ips: "LIST", mac: "VALUE", ipRanges: "LIST" },
  // libcni's types keep it as a map: see PREVIOUS_RESULT_KEYS.
  prevResult: "MAP",
  "cni.dev/valid-attachments": [{ containerID: "VALUE", ifname: "VALUE" }],
  "cni.dev/attachments": [{ containerID: "VALUE", ifname: "VALUE" }],
} as const satisfies Keys;

/** Of `prevResult`, which is read after the configuration. */
export const PREVIOUS_RESULT_KEYS = { ips: [{ address: "VALUE" }] } as const satisfies Keys;

/** A list has its plugins' keys beside it, and those that it sets for all of them. */
export const LIST_KEYS = { ...CONFIGURATION_KEYS, plugins: [CONFIGURATION_KEYS] } as const satisfies Keys;

/** A plugin's configuration, or a list of them, as parsed: values are not checked yet. */
export type Configuration = { readonly [Key in keyof typeof LIST_KEYS]?: unknown };

/** Of a network selection element. */
export const SELECTION_KEYS = [
  {
    name: "VALUE",
    namespace: "VALUE",
    interface: "VALUE",
    ips: "LIST",
    mac: "VALUE",
    "ipam-claim-reference": "VALUE",
  },
] as const satisfies readonly [Keys];

/** Of an entry of a pod's network status. */
export const NETWORK_STATUS_KEYS = [
  { name: "VALUE", interface: "VALUE", ips: "LIST", mac: "VALUE" },
] as const satisfies readonly [Keys];

/** Of an entry of OVN-Kubernetes' annotation of a pod. */
export const POD_NETWORKS_KEYS = {
  "*": {
    ip_addresses: "LIST",
    ip_address: "VALUE",
    gateway_ips: "LIST",
    gateway_ip: "VALUE",
    mac_address: "VALUE",
    role: "VALUE",
  },
} as const satisfies Keys;

type PathsOf<Type> = Type extends readonly [infer Item]
  ? PathsOf<Item>
  : Type extends Keys
    ? { [Key in keyof Type & string]: Key | `${Key}.${PathsOf<Type[Key]>}` }[keyof Type & string]
    : never;

/** `runtimeConfig.ips` */
export type ConfigurationPath = PathsOf<typeof CONFIGURATION_KEYS>;
