import { BALANCERS_SOCKET_DEFAULT, LOG_LEVEL, METADATA_SOCKET_DEFAULT } from "./common.ts";
import type { Settings } from "./setting.ts";

export const METADATA_SETTINGS = {
  metadataSocket: {
    type: "socket",
    default: METADATA_SOCKET_DEFAULT,
    meaning: "where the listeners of this node ask",
    more: "With the shipped units systemd keeps the socket",
  },
  metadataSocketGroup: {
    type: "group",
    otherwise: "holdfast-haproxy where there is such a group, else haproxy where there is that, if it may be set",
    meaning: "the group, by name or number, that may connect to the metadata socket",
    more: "The socket has mode 0660 then, else 0600. A group that is given must work",
  },
  balancersSocket: {
    type: "socket",
    default: BALANCERS_SOCKET_DEFAULT,
    meaning: "where metadata-net asks for the balancers of OVN-Kubernetes networks",
    more: "It is there only with Kubernetes, with mode 0600: root can open it. See [metadata-udn.md](metadata-udn.md)",
  },
  identitySocket: {
    type: "socket",
    default: "/run/holdfast/identity.sock",
    meaning: "the daemon's read-only socket",
  },
  novaUrl: {
    type: "url",
    meaning: "forward every network without a backend of its own there, with a signed identity",
    more: "It is `http[s]://host[:port]` of a Nova-like metadata service",
  },
  secretFile: {
    type: "file",
    meaning: "file with the secret shared with Nova (metadata_proxy_shared_secret); without, the empty one",
    more: "Without `novaUrl` it is shared with the Services",
  },
  serviceSecretFile: {
    type: "file",
    otherwise: "secretFile, without novaUrl",
    meaning: "file with the secret shared with Services",
    more: "Nova's is never used for them: a tenant could show Nova what was signed for it",
  },
  novaCaFile: {
    type: "file",
    otherwise: "Node's authorities",
    meaning: "file with certificates (PEM) by which a backend with https is believed",
  },
  backendTimeoutSeconds: {
    type: "number",
    unit: "seconds",
    min: 1,
    max: 70,
    default: 60,
    meaning: "longest wait for a backend's whole answer",
    more: "It is at most 70, because the listeners wait 75",
  },
  state: {
    type: "directory",
    default: "/var/lib/holdfast-metadata",
    meaning: "directory of guests' passwords and of keys",
    more: "In Kubernetes the passwords are elsewhere",
  },
  keyFile: {
    type: "file",
    otherwise: "made in the state directory",
    meaning: "file with the keys of tokens, the same on all nodes",
    more: "Each key is at least 32 random bytes, hexadecimal or base64; one a line, the newest first",
  },
  network: {
    type: "name",
    meaning: "all requests are of this network; they come by TCP (listen)",
    more: "See [metadata-udn.md](metadata-udn.md)",
  },
  listen: {
    type: "address",
    meaning: "address served instead of the socket, together with network",
  },
  tokens: {
    type: "choice",
    values: ["off", "optional", "required"],
    placeholder: "rule",
    otherwise: "optional",
    meaning: "IMDSv2 tokens of that network: off, optional or required",
    more: "For other networks their definition says it",
  },
  kubeconfig: {
    type: "file",
    otherwise: "the pod's own cluster, or none",
    meaning: "how to reach the API server: a kubeconfig file, or in-cluster for a pod's service account",
  },
  node: {
    type: "name",
    otherwise: "the host name",
    meaning: "this node's name in Kubernetes",
    more: "Only the endpoints on it are asked",
  },
  metricsAddress: {
    type: "address",
    orOff: true,
    default: "127.0.0.1:9810",
    meaning: "where /healthz, /readyz and /metrics are served, or off",
    more: "It is ready when the daemon answers",
  },
  logLevel: LOG_LEVEL,
} as const satisfies Settings;
