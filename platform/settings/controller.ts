import { IN_CLUSTER, LOG_LEVEL } from "./common.ts";
import type { Settings } from "./setting.ts";

export const CONTROLLER_SETTINGS = {
  kubeconfig: {
    type: "file",
    default: IN_CLUSTER,
    meaning: "how to reach the API server: a kubeconfig file, or in-cluster for a pod's service account",
  },
  namespace: {
    type: "name",
    otherwise: "POD_NAMESPACE, else holdfast-system",
    meaning: "namespace of the lease holdfast-controller",
  },
  identity: {
    type: "name",
    otherwise: "the host name and something random",
    meaning: "name of this process in the lease",
  },
  metricsAddress: {
    type: "address",
    orOff: true,
    default: "127.0.0.1:9808",
    meaning: "where /healthz, /readyz and /metrics are served, or off",
    more: "`:9808` is every address",
  },
  sweepIntervalSeconds: {
    type: "number",
    unit: "seconds",
    min: 1,
    max: 3_600,
    default: 10,
    hidden: true,
    meaning: "how often the controller looks for work that no change has announced",
    more: "An allocation is judged soon after a change, and at least once in ten minutes",
  },
  sweepGraceSeconds: {
    type: "number",
    unit: "seconds",
    min: 1,
    max: 86_400,
    default: 30,
    meaning: "how long a reason to free an address must have stood",
  },
  coolingKeepSeconds: {
    type: "number",
    unit: "seconds",
    min: 0,
    max: 604_800,
    default: 600,
    meaning: "how long after its cool-down a released address keeps its object",
  },
  podGoneReleaseSeconds: {
    type: "number",
    unit: "seconds",
    min: 0,
    max: 604_800,
    default: 0,
    meaning: "how long a pod must be gone, and its node unreachable, before its container counts as ended; 0 is never",
    more: "See (1) above",
  },
  clusterGoneReleaseSeconds: {
    type: "number",
    unit: "seconds",
    min: 0,
    max: 31_536_000,
    default: 0,
    meaning:
      "how long a machine's claim and its Cluster must be gone before its address is freed, when nobody saw whether they moved; 0 is never",
    more: "See (4) above",
  },
  machineData: {
    type: "choice",
    values: ["off", "own"],
    placeholder: "off|own",
    default: "off",
    meaning: "whether Metal3's data kinds are served, where CAPM3 is not: off or own",
    more: "See [machine-data.md](machine-data.md)",
  },
  logLevel: LOG_LEVEL,
} as const satisfies Settings;
