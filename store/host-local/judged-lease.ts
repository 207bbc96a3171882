import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { Lease } from "./lease-files.ts";
import { type LeaseVerdict, leaseHolderOf } from "./lease-store.ts";

export interface JudgedLease {
  readonly lease: Lease;
  readonly verdict: LeaseVerdict;
}

/** `container 3fa9… (eth0)`, or that it is not known. */
export function describeLease({ holder }: Lease): string {
  if (holder === null) return "a container it does not name";
  return `container ${holder.containerId}${holder.interface === "" ? "" : ` (${holder.interface})`}`;
}

/** Leases grouped by holder: those of one container are recorded together. */
export function byHolder(leases: readonly Lease[]): [LeaseHolder, Lease[]][] {
  const groups = new Map<string, [LeaseHolder, Lease[]]>();
  for (const lease of leases) {
    const holder = leaseHolderOf(lease);
    const key = `${holder.containerId}/${holder.interface}`;
    const group = groups.get(key);
    if (group) group[1].push(lease);
    else groups.set(key, [holder, [lease]]);
  }
  return [...groups.values()];
}
