import type { Server } from "node:net";
import { findGid, HAPROXY_ACCOUNT, HAPROXY_ACCOUNT_SHARED } from "../../platform/groups.ts";
import { listen, listenOnSocket } from "../../platform/socket.ts";

const FLAG = "--metadata-socket";
/** sd_listen_fds(3): the first descriptor that systemd hands over. */
const ACTIVATION_FD = 3;

/** A socket that systemd listens on: guests' requests wait in it while we restart. null: there is none. */
export function activationFd(env: Readonly<Record<string, string | undefined>>): number | null {
  return env.LISTEN_PID === String(process.pid) && env.LISTEN_FDS === "1" ? ACTIVATION_FD : null;
}

/**
 * Of one group (mode 0660) or, without, of its owner alone (0600); tells which. A socket nobody serves is replaced.
 * Throws Error for a served one, another kind of file, and for a group that was asked for and cannot be set.
 */
export async function listenForGroup(
  server: Server,
  path: string,
  group: string | undefined,
): Promise<{ readonly group: string | null }> {
  const wanted = group ?? (findGid(HAPROXY_ACCOUNT) === null ? HAPROXY_ACCOUNT_SHARED : HAPROXY_ACCOUNT);
  const gid = findGid(wanted);
  if (gid === null && group !== undefined)
    throw new Error(
      `metadataSocketGroup is "${group}": there is no such group on this machine; add it (groupadd --system ${group}), or give a number`,
    );
  try {
    await listenOnSocket({ listen: (where) => listen(server, where) }, path, { flag: FLAG, gid });
  } catch (error) {
    // Its owner's alone then: the default is for those who may set it.
    if (group === undefined && server.listening) return { group: null };
    throw error;
  }
  return { group: gid === null ? null : wanted };
}
