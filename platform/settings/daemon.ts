import { LOG_LEVEL, METADATA_NET_DIR_DEFAULT } from "./common.ts";
import type { Settings } from "./setting.ts";

/** Read if it exists and `--config` names no other. */
export const CONFIG_FILE_DEFAULT = "/etc/holdfast/daemon.yaml";

export const DAEMON_SETTINGS = {
  state: {
    type: "directory",
    default: "/var/lib/holdfast",
    meaning: "directory of the state database",
  },
  socket: {
    type: "socket",
    default: "/run/holdfast/holdfast.sock",
    meaning: "unix socket served, mode 0600",
    more: "Set it for the plugin binary too, in `/etc/holdfast/shim.conf`",
  },
  identitySocket: {
    type: "socket",
    orEmpty: true,
    otherwise: "identity.sock beside the other socket",
    meaning: "a second socket, which only reports who is behind an address; off: none",
    more: "`holdfast metadata` asks there. A `.generation` file is beside it",
  },
  identityGroup: {
    type: "group",
    orEmpty: true,
    otherwise: "holdfast-metadata where the daemon is a member of it, as with the shipped unit",
    meaning: "the group, by name or number, that may connect to the identity socket",
    more: "The socket has mode 0660 then. The daemon must be a member of the group, or have CAP_CHOWN",
  },
  readGroup: {
    type: "group",
    orEmpty: true,
    otherwise: "holdfast where the daemon is a member of it, as with the shipped unit",
    meaning: "the group, by name or number, whose members may look without being root",
    more: "They connect to `readonly.sock` beside the main socket, which answers every question and changes nothing. Without a group there is none",
  },
  spool: {
    type: "directory",
    otherwise: "spool in the state directory",
    meaning: "directory in which the plugin binary leaves what it could not deliver",
    more: "Set it for the plugin binary too",
  },
  node: {
    type: "name",
    otherwise: "the host name",
    meaning: "name recorded with attachments; in Kubernetes that of the Node",
  },
  kubeconfig: {
    type: "file",
    otherwise: "the pod's own cluster, or none outside of a cluster",
    meaning: "the cluster to serve: a kubeconfig file, or in-cluster for a pod's service account",
    more: "Without a cluster the node stands alone ([kubernetes.md](kubernetes.md))",
  },
  logLevel: LOG_LEVEL,
  bootIdFile: {
    type: "file",
    // The kernel's own. On a system container another file may lie over it, which not every process sees.
    default: "/proc/sys/kernel/random/boot_id",
    meaning: "a file with this machine's boot ID as container runtimes and the kubelet see it",
    more: "See [Boot IDs](#boot-ids)",
  },
  addDeadlineMs: {
    type: "number",
    unit: "ms",
    min: 100,
    max: 50_000,
    // Below the 60 s after which the plugin binary gives up, and below a container runtime's own time-out.
    default: 9_000,
    meaning: 'how long an ADD may wait before it is answered "try again"',
    more: "It waits for the daemon to be ready, for a claim that does not exist yet, for other ADDs of the same owner, and for the API server",
  },
  witnessIntervalSeconds: {
    type: "number",
    unit: "seconds",
    min: 1,
    max: 3_600,
    default: 30,
    hidden: true,
    meaning: "how often the namespaces of attachments are looked at",
  },
  witnessGraceSeconds: {
    type: "number",
    unit: "seconds",
    min: 1,
    max: 86_400,
    default: 300,
    meaning: "how long a namespace must be gone before its attachment is ended",
  },
  reassertIntervalSeconds: {
    type: "number",
    unit: "seconds",
    min: 1,
    max: 86_400,
    default: 300,
    hidden: true,
    meaning:
      "how often a cluster's node asks whether the API server has what it wrote last, and else compares all",
    more: "It does so after every loss of contact as well",
  },
  recoverySeconds: {
    type: "number",
    unit: "seconds",
    min: 1,
    max: 3_600,
    default: 30,
    meaning: "how long no new address is given after allocations were found missing",
    more: "It is for Kubernetes, and should be the same on all nodes ([a restored etcd](kubernetes.md#a-restored-etcd))",
  },
  metricsAddress: {
    type: "address",
    orOff: true,
    default: "off",
    meaning: "where /healthz, /readyz and /metrics are served by TCP, or off; they are on the socket, too",
    more: "See [Metrics](#metrics)",
  },
  metadata: {
    type: "choice",
    values: ["on", "off"],
    default: "on",
    meaning: "off: no guest of this node gets metadata, on any network",
    more: "No ADD gets a route to it then",
  },
  metadataDefault: {
    type: "choice",
    values: ["on", "off"],
    default: "off",
    meaning: "whether guests of this node get metadata on networks whose configuration has no key metadata",
    more: "Tokens are optional there. In a cluster it counts for networks that a NetworkAttachmentDefinition defines; set it on every node",
  },
  metadataWaitMs: {
    type: "number",
    unit: "ms",
    min: 0,
    max: 30_000,
    default: 3_000,
    meaning: "how long an ADD waits until its guest's metadata is served on this node",
    more: "Then it is answered all the same, or refused ([METADATA_OPEN](#metadata_open)), and no later than `addDeadlineMs` says",
  },
  metadataNetDir: {
    type: "directory",
    default: METADATA_NET_DIR_DEFAULT,
    meaning: "the run directory of this node's metadata-net, its `runDir`",
    more: "The file closed-bridges in it says which guests cannot reach the node's own 169.254.169.254",
  },
  resolvConfPaths: {
    type: "files",
    default: [
      "/etc/resolv.conf",
      "/run/systemd/resolve/resolv.conf",
      "/run/systemd/resolve/stub-resolv.conf",
    ],
    otherwise: "/etc/resolv.conf and systemd-resolved's two",
    meaning: "files that ipam.resolvConf may name",
    more: "In the file it may be a list ([cni.md](cni.md#dns-from-a-file))",
  },
  hostLocalDirs: {
    type: "directories",
    otherwise: "/var/lib/cni/networks, and any dataDir",
    meaning: "without a cluster, where host-local may have kept addresses",
    more: "The first is where it did so without `dataDir` ([switching.md](switching.md))",
  },
  resolvConfInNads: {
    type: "choice",
    values: ["on", "off"],
    default: "off",
    meaning: "on: ipam.resolvConf is allowed in Kubernetes too",
    more: "Whoever may write a NetworkAttachmentDefinition sets it there",
  },
} as const satisfies Settings;
