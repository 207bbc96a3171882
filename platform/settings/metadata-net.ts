import { BALANCERS_SOCKET_DEFAULT, LOG_LEVEL, METADATA_NET_DIR_DEFAULT, METADATA_SOCKET_DEFAULT } from "./common.ts";
import { DAEMON_SETTINGS } from "./daemon.ts";
import type { Settings } from "./setting.ts";

export const METADATA_NET_SETTINGS = {
  socket: {
    type: "socket",
    default: DAEMON_SETTINGS.socket.default,
    meaning: "the daemon's socket",
  },
  metadataSocket: {
    type: "socket",
    default: METADATA_SOCKET_DEFAULT,
    meaning: "socket of holdfast metadata",
    more: "The user that haproxy runs as must be able to open it",
  },
  balancersSocket: {
    type: "socket",
    default: BALANCERS_SOCKET_DEFAULT,
    meaning: "socket of holdfast metadata that reports the balancers of OVN-Kubernetes networks",
  },
  ovnNorthbound: {
    type: "socket",
    otherwise: "the first of /run/openvswitch, /run/ovn-ic and /run/ovn with an ovnnb_db.sock, or none",
    meaning: "socket of this node's own OVN northbound database, unix:/path, or off",
    more: "It is for OVN-Kubernetes in interconnect mode. See [metadata-udn.md](metadata-udn.md)",
  },
  node: {
    type: "name",
    otherwise: "the host name",
    meaning: "this node's name in Kubernetes, and of the zone of its northbound database",
  },
  runDir: {
    type: "directory",
    default: METADATA_NET_DIR_DEFAULT,
    meaning: "directory of what it generates and remembers",
    more: "Names of links, namespaces and the nft table follow from it. A reboot must empty it",
  },
  state: {
    type: "directory",
    default: "/var/lib/holdfast-metadata-net",
    meaning: "directory of what it remembers over a reboot: the bridges whose guests it closes again at the start",
  },
  haproxy: {
    type: "name",
    placeholder: "path",
    default: "haproxy",
    meaning: "the haproxy program",
    more: "It must be 2.6 or newer, with support of namespaces",
  },
  haproxyUser: {
    type: "name",
    otherwise: "holdfast-haproxy where there is such a user, else haproxy",
    meaning: "user that haproxy runs as",
    more: "Whoever runs as it can ask as any guest of the node, so it should be nobody else's",
  },
  haproxyGroup: {
    type: "name",
    otherwise: "holdfast-haproxy where there is such a group, else haproxy",
    meaning: "group that haproxy runs as",
    more: "The metadata socket belongs to it",
  },
  rateLimit: {
    type: "number",
    unit: "requests",
    min: 0,
    max: 1_000_000,
    default: 300,
    meaning: "most requests of one guest in 10 s, at least 60; 0 is no limit",
    more: "One boot is 28 requests in a second",
  },
  ovsdbSocket: {
    type: "name",
    placeholder: "path",
    default: "/var/run/openvswitch/db.sock",
    meaning: "socket of Open vSwitch's database, or off",
    more: "A node without Open vSwitch needs no setting; one that comes later is noticed",
  },
  driver: {
    type: "choice",
    values: ["auto", "bridge"],
    default: "auto",
    meaning: "how frames of guests are taken: auto, or bridge where the kernel has no better",
  },
  metricsAddress: {
    type: "address",
    orOff: true,
    default: "127.0.0.1:9809",
    meaning: "where /healthz, /readyz and /metrics are served, or off",
  },
  logLevel: LOG_LEVEL,
} as const satisfies Settings;
