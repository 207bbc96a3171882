import { readFileSync } from "node:fs";

const GID_MAX = 0xffff_fffe;

/** The user and group that haproxy runs as: its own, so that no other haproxy of the node can speak for guests. */
export const HAPROXY_ACCOUNT = "holdfast-haproxy";
/** Of the distributions' package: where nobody has made the other one (deploy/systemd/holdfast.sysusers). */
export const HAPROXY_ACCOUNT_SHARED = "haproxy";

/** The GID of a group, by name or number; null: there is no such group. */
export function findGid(group: string): number | null {
  if (/^\d+$/.test(group)) return Number(group) <= GID_MAX ? Number(group) : null;
  const gid = entryOf("/etc/group", group)?.[2];
  return gid === undefined || gid === "" ? null : Number(gid);
}

export function isUser(name: string): boolean {
  return entryOf("/etc/passwd", name) !== undefined;
}

function entryOf(file: string, name: string): readonly string[] | undefined {
  return readFileSync(file, "utf8")
    .split("\n")
    .find((line) => line.startsWith(`${name}:`))
    ?.split(":");
}
