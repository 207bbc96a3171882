import type { Setting } from "./setting.ts";

/** Settings that several processes have in the same meaning. */
export const LOG_LEVEL = {
  type: "choice",
  values: ["debug", "info", "warn", "error", "silent"],
  placeholder: "level",
  default: "info",
  meaning: "least level of the log: debug, info, warn, error or silent",
  more: "The log is JSON lines on stdout",
} as const satisfies Setting;

/** In `kubeconfig`: as a pod of the cluster, with its service account. */
export const IN_CLUSTER = "in-cluster";

/** Of metadata-net, whose file in it the daemon reads. */
export const METADATA_NET_DIR_DEFAULT = "/run/holdfast/metadata-net";
export const METADATA_SOCKET_DEFAULT = "/run/holdfast/metadata.sock";

export const BALANCERS_SOCKET_DEFAULT = "/run/holdfast-metadata/balancers.sock";
