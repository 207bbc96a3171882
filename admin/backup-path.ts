import { statSync } from "node:fs";
import { dirname } from "node:path";
import { invalid } from "../platform/api-query.ts";

/**
 * Refuses a folder that is another one here than where the operator is: under PrivateTmp= /tmp belongs to the unit, and
 * a container has a file system of its own. `folder` is device and inode as the operator's side sees them; null: not
 * given.
 */
export function refuseOtherFolder(path: string, folder: string | null): void {
  if (folder === null) return;
  const here = folderIdentity(path);
  if (here === null || here === folder) return;
  invalid(
    "path",
    path,
    `the daemon sees another ${dirname(path)} than you do (PrivateTmp= or ProtectHome= of its unit, or a container), and the file would be hidden there; /var/backups is what its systemd unit leaves it`,
  );
}

function folderIdentity(path: string): string | null {
  try {
    const { dev, ino } = statSync(dirname(path), { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    // Writing the file will report the reason.
    return null;
  }
}
