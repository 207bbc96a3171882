/**
 * The settings of a daemon, by name. Other processes of its node pass over them in the environment: whoever exports one
 * for the daemon does not mean the process beside it.
 */
export const DAEMON_SETTING_NAMES = [
  "state",
  "socket",
  "identitySocket",
  "identityGroup",
  "spool",
  "node",
  "kubeconfig",
  "logLevel",
  "bootIdFile",
  "addDeadlineMs",
  "witnessIntervalSeconds",
  "witnessGraceSeconds",
  "reassertIntervalSeconds",
  "metricsAddress",
  "recoverySeconds",
  "metadata",
  "metadataWaitMs",
  "resolvConfPaths",
  "hostLocalDirs",
  "resolvConfInNads",
] as const;
