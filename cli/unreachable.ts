import { DAEMON_SETTINGS } from "../platform/settings/daemon.ts";
import { SOCKET_PATH_BYTES_MAX } from "../platform/socket.ts";
import { CommandError, EXIT } from "./failure.ts";
export const SOCKET_DEFAULT = DAEMON_SETTINGS.socket.default;

const OTHER_PATH = "or name its socket with --socket or HOLDFAST_SOCKET";
const START = `start it (systemctl start holdfast, or holdfast daemon), ${OTHER_PATH}`;

const REASONS: Readonly<Record<string, readonly [why: string, remedy: string]>> = {
  ENOENT: ["socket not found: the daemon is not running, or listens on another path", START],
  ENOTDIR: ["a part of this path is not a directory", `correct the path, ${OTHER_PATH}`],
  ECONNREFUSED: ["nobody listens there; the daemon has ended", START],
  EACCES: [
    "permission denied; the socket is its owner's alone",
    "run this as root (sudo); to look without being root, join the group holdfast (usermod -aG holdfast NAME), then log in again",
  ],
  ENOTSOCK: ["this is not a socket", `correct the path, ${OTHER_PATH}`],
  ETIMEDOUT: ["", "see the daemon's log (journalctl -u holdfast); --timeout waits longer"],
  ECONNRESET: ["it hung up without an answer", "see the daemon's log (journalctl -u holdfast), then try again"],
  EPROTO: ["what answers there is not holdfast", `correct the path, ${OTHER_PATH}`],
};

export function unreachable(socket: string, error: NodeJS.ErrnoException): CommandError {
  const [why, remedy] = explain(socket, error);
  return new CommandError(`the daemon is not reachable at ${socket}: ${why}`, {
    hint: remedy,
    exitCode: EXIT.unreachable,
  });
}

function explain(socket: string, error: NodeJS.ErrnoException): readonly [string, string] {
  if (Buffer.byteLength(socket) > SOCKET_PATH_BYTES_MAX) {
    return [`the path is longer than the ${SOCKET_PATH_BYTES_MAX} bytes of a unix socket`, "give a shorter --socket"];
  }
  const code = error.code?.startsWith("HPE_") ? "EPROTO" : (error.code ?? "");
  const [why, remedy] = REASONS[code] ?? ["", START];
  return [why === "" ? error.message : why, remedy];
}
