import { join } from "node:path";
import { type ApiAnswer, call, type TestDaemon } from "../harness/daemon.ts";

export function identitySocket(daemon: Pick<TestDaemon, "folder">): string {
  return join(daemon.folder, "identity.sock");
}

/** One question to the read-only socket, on a connection of its own. */
export function askIdentity(daemon: Pick<TestDaemon, "folder">, query: string): Promise<ApiAnswer> {
  return askSocket(identitySocket(daemon), "GET", `/v1/identity?${query}`);
}

export function askSocket(
  socketPath: string,
  method: string,
  path: string,
  body?: string,
): Promise<ApiAnswer> {
  return call(socketPath, method, path, body);
}
