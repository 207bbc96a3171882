import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { HOST_LOCAL_DATA_DIR } from "../ipam/definition/host-local-lease.ts";
import { findGid } from "../platform/groups.ts";
import { type Cluster, clusterOf } from "../platform/settings/cluster.ts";
import { readConfigFile } from "../platform/settings/config-file.ts";
import { type Environment, type Given, loadSettings, type SettingsError } from "../platform/settings/load.ts";
import { CONFIG, PROCESSES } from "../platform/settings/processes.ts";
import type { ValuesOf } from "../platform/settings/setting.ts";
import type { HostLocalDirs } from "../store/host-local/data-dir.ts";

const { configFile, settings } = PROCESSES.daemon;

/** Both created by deploy/systemd/holdfast.sysusers. */
const METADATA_GROUP = "holdfast-metadata";
const READ_GROUP = "holdfast";

/** The values of platform/settings/daemon.ts, and what is derived from them. */
export type DaemonSettings = Omit<
  ValuesOf<typeof settings>,
  "kubeconfig" | "identitySocket" | "identityGroup" | "readGroup" | "hostLocalDirs" | "spool" | "node"
> & {
  readonly hostLocalDirs: HostLocalDirs;
  /** null: there is none. */
  readonly identitySocket: string | null;
  /** GID; null: only the daemon's own user. */
  readonly identityGroup: number | null;
  /** GID of those who may look; null: there is no read-only socket. */
  readonly readGroup: number | null;
  readonly spool: string;
  readonly node: string;
  readonly kubernetes: Cluster;
};

/** Flags win over the environment, which wins over the file. Throws SettingsError. */
export function loadDaemonSettings(flags: Given, env: Environment): DaemonSettings {
  const { [CONFIG]: _config, ...ownFlags } = flags;
  const file = readConfigFile(configFile, flags, env);
  const { values, refused } = loadSettings("daemon", ownFlags, env, file);
  const { spool, node, kubeconfig, identitySocket, identityGroup, readGroup, hostLocalDirs, ...rest } = values;
  const kubernetes = clusterOf(kubeconfig, env);
  return {
    ...rest,
    hostLocalDirs: hostLocalDirsOf(hostLocalDirs),
    identitySocket: identitySocketOf(identitySocket, rest.socket),
    identityGroup: groupOf(identityGroup, METADATA_GROUP, (why) => refused("identityGroup", why)),
    readGroup: groupOf(readGroup, READ_GROUP, (why) => refused("readGroup", why)),
    spool: spool ?? join(rest.state, "spool"),
    node: node ?? hostname(),
    kubernetes,
  };
}

function identitySocketOf(given: string | undefined, socket: string): string | null {
  if (given === undefined) return join(dirname(socket), "identity.sock");
  return given === "" || given === "off" ? null : given;
}

function hostLocalDirsOf(given: readonly string[] | undefined): HostLocalDirs {
  const [standard = HOST_LOCAL_DATA_DIR] = given ?? [];
  return { standard, allowed: given ?? null };
}

/** `standard`: the group that counts where none is given and the daemon is a member of it. */
function groupOf(group: string | undefined, standard: string, refused: (why: string) => SettingsError): number | null {
  if (group === "") return null;
  const gid = findGid(group ?? standard);
  // As the shipped unit starts the daemon. Others have not the right to give the socket to that group.
  if (group === undefined) return gid !== null && process.getgroups?.().includes(gid) ? gid : null;
  if (gid !== null) return gid;
  throw refused(`there is no such group in /etc/group; add it (groupadd --system ${group}), or give a number`);
}
