import { join } from "node:path";
import type { DaemonSettings } from "../../../daemon/settings.ts";

/** The settings of every simulated daemon: graces are short, so that much happens in little time. */
export function daemonSettings(node: string, state: string): DaemonSettings {
  return {
    state,
    socket: join(state, "unused.sock"),
    identitySocket: null,
    readGroup: null,
    identityGroup: null,
    spool: join(state, SPOOL),
    node,
    kubernetes: { kubeconfig: null },
    logLevel: "info",
    bootIdFile: "unused",
    addDeadlineMs: 9_000,
    witnessIntervalSeconds: 5,
    witnessGraceSeconds: 20,
    reassertIntervalSeconds: 30,
    recoverySeconds: 10,
    metricsAddress: null,
    metadata: "on",
    metadataDefault: "off",
    metadataWaitMs: 500,
    metadataNetDir: join(state, "metadata-net"),
    resolvConfPaths: [],
    hostLocalDirs: { standard: join(state, "host-local"), allowed: [] },
    resolvConfInNads: "off",
  };
}

/** In the state directory. */
export const SPOOL = "spool";
