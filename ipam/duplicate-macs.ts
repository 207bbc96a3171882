import { canonicalMac } from "./definition/mac.ts";
import type { Finding } from "./finding.ts";

export interface MacUser {
  readonly network: string;
  /** As requested, in any spelling; null or undefined: none was. */
  readonly mac: string | null | undefined;
  /** Whose addresses it has. Source and target of a migration have those of one claim, and one MAC. */
  readonly owner: string;
  /** For people. */
  readonly who: string;
}

/** Attached interfaces of different owners with one MAC on one network: each group has two or more. */
export function duplicateMacs<User extends MacUser>(users: Iterable<User>): User[][] {
  const groups = new Map<string, Map<string, User>>();
  for (const user of users) {
    const mac = user.mac == null ? null : canonicalMac(user.mac);
    if (mac === null) continue;
    const key = `${user.network} ${mac}`;
    const owners = groups.get(key) ?? new Map<string, User>();
    if (!owners.has(user.owner)) owners.set(user.owner, user);
    groups.set(key, owners);
  }
  return [...groups.values()].filter(({ size }) => size > 1).map((owners) => [...owners.values()]);
}

/** `02:00:00:00:00:01 is the MAC address of …, and of …, on network blue` */
export function describeDuplicates(group: readonly MacUser[]): string {
  const [{ network, mac } = { network: "", mac: "" }] = group;
  const who = group.map((one) => one.who).sort();
  return `${canonicalMac(mac ?? "")} is the MAC address of ${who.join(" and of ")} on network ${network}`;
}

export const DUPLICATE_MAC_HINT =
  "where they share a link, frames reach either: give all but one another MAC address, and start them again";

export function duplicateMacFindings(users: Iterable<MacUser>): Finding[] {
  return duplicateMacs(users).map((group) => ({
    invariant: "mac",
    message: describeDuplicates(group),
    hint: DUPLICATE_MAC_HINT,
  }));
}
