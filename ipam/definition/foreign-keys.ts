const RANGES = "write subnets, or subnet with rangeStart and rangeEnd";
const NOTHING = "it has no counterpart; remove it";

/** Keys of other IPAM plugins in the `ipam` block, whose they are, and what to do. */
const FOREIGN: readonly (readonly [plugin: string, remedy: string, ...keys: string[]])[] = [
  ["whereabouts", RANGES, "range", "ipRanges"],
  ["whereabouts", "write excludeSubnets", "exclude"],
  ["whereabouts", "write rangeStart", "range_start"],
  ["whereabouts", "write rangeEnd", "range_end"],
  [
    "whereabouts",
    NOTHING,
    ...["configuration_path", "kubernetes", "datastore", "log_file", "log_level", "network_name"],
    ...["enable_overlapping_ranges", "sleep_for_race", "node_slice_size", "leader_lease_duration"],
    ...["leader_renew_deadline", "leader_retry_period", "reconciler_cron_expression"],
    ...["etcd_host", "etcd_username", "etcd_password", "etcd_key_file", "etcd_cert_file", "etcd_ca_cert_file"],
  ],
  ["static", "write subnets, and ask for the address: args.cni.ips, or ips of a pod's annotation", "addresses"],
  ["Spiderpool", "write the subnets of the pools", "default_ipv4_ippool", "default_ipv6_ippool"],
  ["Spiderpool", NOTHING, "log_file_path", "log_file_max_size", "log_file_max_age", "log_file_max_count"],
  ["kube-ovn", "write the subnets: cidrBlock of its Subnet", "provider"],
  ["kube-ovn", NOTHING, "server_socket"],
  ["calico-ipam", "write the subnets of the pools", "ipv4_pools", "ipv6_pools"],
  ["calico-ipam", NOTHING, "assign_ipv4", "assign_ipv6"],
  ["dhcp", NOTHING, "daemonSocketPath", "request", "provide"],
];

const REMEDIES: ReadonlyMap<string, string> = new Map(
  FOREIGN.flatMap(([plugin, remedy, ...keys]) =>
    keys.map((key) => [key, `no such key; it is a key of ${plugin}: ${remedy}`]),
  ),
);

/** What a key of another IPAM plugin is called here, for a refusal; null: no plugin known here has it. */
export function foreignKeyRemedy(key: string): string | null {
  const remedy = REMEDIES.get(key);
  if (remedy === undefined) return null;
  return remedy.endsWith(NOTHING) ? remedy : `${remedy}; holdfast convert -f FILE does so`;
}
