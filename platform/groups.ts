import { readFileSync } from "node:fs";

const GID_MAX = 0xffff_fffe;

/** The GID of a group, by name or number; null: there is no such group. */
export function findGid(group: string): number | null {
  if (/^\d+$/.test(group)) return Number(group) <= GID_MAX ? Number(group) : null;
  const line = readFileSync("/etc/group", "utf8")
    .split("\n")
    .find((one) => one.startsWith(`${group}:`));
  const gid = line?.split(":")[2];
  return gid === undefined || gid === "" ? null : Number(gid);
}
