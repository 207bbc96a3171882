import { chmodSync, lstatSync, mkdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { dirname } from "node:path";
import type { FastifyInstance } from "fastify";

/** Longest path of a unix socket, bytes: sun_path of Linux less its terminator. */
const SOCKET_PATH_BYTES_MAX = 107;

/** Listens on a unix socket with mode 0600. A socket nobody serves is replaced; a served one, or another kind of file, is refused. */
export async function listenOnSocket(server: FastifyInstance, path: string): Promise<void> {
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
    throw new Error(
      `socket ${path} is longer than the ${SOCKET_PATH_BYTES_MAX} bytes that Linux allows; give a shorter --socket`,
    );
  }
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  await removeStale(path);
  const umask = process.umask(0o177);
  try {
    await server.listen({ path });
  } finally {
    process.umask(umask);
  }
  chmodSync(path, 0o600);
}

async function removeStale(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return;
  if (!found.isSocket())
    throw new Error(`${path} exists and is not a socket; remove it or give another --socket`);
  if (await isServed(path))
    throw new Error(`another daemon is serving ${path}; stop it or give another --socket`);
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
