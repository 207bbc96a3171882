import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import { holderOf, type LeaseVerdict } from "./lease-book.ts";
import type { Lease } from "./lease-files.ts";

/** A lease and what it is to Holdfast. */
export interface JudgedLease {
  readonly lease: Lease;
  readonly verdict: LeaseVerdict;
}

/** `container 3fa9… (eth0)`, or that nobody knows. */
export function describeLease({ holder }: Lease): string {
  if (holder === null) return "a container it does not name";
  return `container ${holder.containerId}${holder.interface === "" ? "" : ` (${holder.interface})`}`;
}

/** Leases by who has them: those of one container are recorded together. */
export function byHolder(leases: readonly Lease[]): [LeaseHolder, Lease[]][] {
  const groups = new Map<string, [LeaseHolder, Lease[]]>();
  for (const lease of leases) {
    const holder = holderOf(lease);
    const key = `${holder.containerId}/${holder.interface}`;
    const group = groups.get(key);
    if (group) group[1].push(lease);
    else groups.set(key, [holder, [lease]]);
  }
  return [...groups.values()];
}
