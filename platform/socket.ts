import { chmodSync, chownSync, lstatSync, mkdirSync, rmSync } from "node:fs";
import type { ClientRequest, Server } from "node:http";
import { connect, type ListenOptions, type Socket, type Server as StreamServer } from "node:net";
import { dirname } from "node:path";
import type { Clock } from "./time.ts";

/** Longest path of a unix socket, bytes: sun_path of Linux less its terminator. */
export const SOCKET_PATH_BYTES_MAX = 107;

/** Connections that wait to be accepted; the kernel takes its own net.core.somaxconn when that is less. */
const BACKLOG = 4_096;

interface SocketOptions {
  /** The path as given, for messages. */
  readonly flag?: string;
  /** A group that may connect too; null: only the daemon's own user. */
  readonly gid?: number | null;
}

/** Resolves when connections are accepted. Rejects with the error of the system. */
export function listen(server: StreamServer, where: ListenOptions | { readonly fd: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ backlog: BACKLOG, ...where }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** A client that does not read its answer within `graceMs` is cut off. Also for a server that never listened. */
export async function closeServer(server: Server, clock: Clock, graceMs: number): Promise<void> {
  const hangUp = clock.timer(graceMs, () => server.closeAllConnections());
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
  });
  hangUp.cancel();
}

/** A unix socket with mode 0600, or 0660 for a group. Replaces a dead one; refuses a live one, or another file. */
export async function listenOnSocket(
  server: { listen(options: { path: string; backlog: number }): Promise<unknown> },
  path: string,
  { flag = "--socket", gid = null }: SocketOptions = {},
): Promise<void> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
    throw new Error(
      `socket ${path} is longer than the ${SOCKET_PATH_BYTES_MAX} bytes that Linux allows; give a shorter ${flag}`,
    );
  }
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  await removeStale(path, flag);
  const umask = process.umask(0o177);
  try {
    await server.listen({ path, backlog: BACKLOG });
  } finally {
    process.umask(umask);
  }
  if (gid === null) chmodSync(path, 0o600);
  else openToGroup(path, gid, flag);
}

function openToGroup(path: string, gid: number, flag: string): void {
  try {
    chownSync(path, process.geteuid?.() ?? 0, gid);
  } catch (error) {
    throw new Error(
      `${path} cannot be given to group ${gid} (${(error as Error).message}): that takes a member of the group, or CAP_CHOWN; with systemd add it to SupplementaryGroups= of the unit, or give another group beside ${flag}`,
    );
  }
  chmodSync(path, 0o660);
}

/** Removes a dead socket. Throws for a live one, and for another kind of file. */
export async function removeStale(path: string, flag: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket()) throw new Error(`${path} exists and is not a socket; remove it or give another ${flag}`);
  if (await isServed(path)) throw new Error(`another daemon is serving ${path}; stop it or give another ${flag}`);
  rmSync(path, { force: true });
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(true);
    });
    probe.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED" || error.code === "ENOENT") resolve(false);
      else reject(new Error(`${path} cannot be looked at: ${error.message}`));
    });
  });
}

/**
 * Hears the errors of the request's connection for as long as it lives. Between the end of an answer and the return of
 * the connection to its agent, Node's client listens no more; an error that is reported then, such as the reason for
 * which the request was destroyed, or a reset, would end the process. Nothing is lost: the request reports each error
 * that concerns it.
 */
export function hearSocketErrors(request: ClientRequest): ClientRequest {
  return request.on("socket", hear);
}

function hear(socket: Socket): void {
  // A connection that is kept serves many requests.
  if (!socket.listeners("error").includes(ignore)) socket.on("error", ignore);
}

function ignore(): void {}
