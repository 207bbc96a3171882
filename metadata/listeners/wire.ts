/**
 * The protocol between `holdfast metadata-net` and the daemon: `POST /v1/metadata/listeners` on the daemon's socket.
 * The request reports what is up; the answer comes when the wanted state differs from what the report has applied, at
 * the latest after `waitMs`. It always has the whole wanted state, so that one exchange is a full synchronisation.
 */
export interface ListenerReport {
  /** `version` of the wanted state that was last carried out as far as possible; null after a start. */
  readonly applied: string | null;
  /** Of every wanted network of that state. */
  readonly listeners: readonly ListenerState[];
  /** Longest wait for a change, ms, at most 60,000. */
  readonly waitMs: number;
}

export interface ListenerState {
  readonly network: string;
  /** failed: VMs of the network get no metadata on this node, `problem` says why; the others are served. */
  readonly state: "up" | "failed";
  readonly problem?: string;
}

export interface WantedListeners {
  /** Another one for each change; equal only within one run of the daemon. */
  readonly version: string;
  /** Networks with metadata and an attachment on this node, sorted by name. Empty: everything is to be removed. */
  readonly networks: readonly WantedListener[];
}

export interface WantedListener {
  readonly network: string;
  /** From the configuration of the network's bridge plugin. */
  readonly bridge: string;
  /** `vlan` of the bridge plugin; null: untagged. */
  readonly vlan: number | null;
  /** `preserveDefaultVlan` of the bridge plugin: the default VLAN stays on the port beside `vlan`. */
  readonly preserveDefaultVlan: boolean;
  /** `mtu` of the plugin; null: the bridge's. */
  readonly mtu: number | null;
  /** The reserved address with its subnet's mask, `10.0.0.254/24`: the same on every node. */
  readonly address: string;
  /** The network's IPv4 subnets, that of `address` first. */
  readonly subnets: readonly string[];
  /** Attachments of this node, in order of creation. */
  readonly attachments: readonly WantedAttachment[];
}

export interface WantedAttachment {
  readonly containerId: string;
  readonly interface: string;
  /** Path of the network namespace. */
  readonly netns: string;
  /** IPv4 addresses, without mask. */
  readonly addresses: readonly string[];
  /** As requested; null: none was. */
  readonly mac: string | null;
}

/** The route to the metadata service, at the address that OpenStack, EC2 and OVN-Kubernetes have for it. */
export const METADATA_ROUTE_DST = "169.254.169.254/32";
