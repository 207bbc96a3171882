import { join } from "node:path";
import { type ApiAnswer, call, type RunningDaemon } from "../harness/daemon.ts";

export function identitySocket(daemon: Pick<RunningDaemon, "directory">): string {
  return join(daemon.directory, "identity.sock");
}

/** One question to the read-only socket, on a connection of its own. */
export function askIdentity(daemon: Pick<RunningDaemon, "directory" | "time">, query: string): Promise<ApiAnswer> {
  return daemon.time.run(askSocket(identitySocket(daemon), "GET", `/v1/identity?${query}`));
}

export function askSocket(socketPath: string, method: string, path: string, body?: string): Promise<ApiAnswer> {
  return call(socketPath, method, path, body);
}
