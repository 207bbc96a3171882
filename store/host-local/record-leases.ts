import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Refusal, refuse } from "../../ipam/refusals.ts";
import { type Clock, nextTurn } from "../../platform/time.ts";
import type { Lease } from "./lease-files.ts";
import { type LeaseStore, type LeaseVerdict, leaseHolderOf } from "./lease-store.ts";

/** Containers recorded in one transaction: a sync takes longer than all of them, and other requests wait for both. */
const HOLDERS_PER_TRANSACTION = 100;

export interface JudgedLease {
  readonly lease: Lease;
  readonly verdict: LeaseVerdict;
}

/** `container 3fa9… (eth0)`, or that it is not known. */
export function describeLease({ holder }: Lease): string {
  if (holder === null) return "a container it does not name";
  return `container ${holder.containerId}${holder.interface === "" ? "" : ` (${holder.interface})`}`;
}

export interface Progress {
  readonly directory: string;
  readonly done: number;
  readonly total: number;
}

/** Leases grouped by holder: those of one container are recorded together. */
function byHolder(leases: readonly Lease[]): [LeaseHolder, Lease[]][] {
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

export async function recordLeases(
  { leaseStore, clock }: { readonly leaseStore: Pick<LeaseStore, "take">; readonly clock: Clock },
  definition: NetworkDefinition,
  leases: readonly Lease[],
  progressed: (done: number) => void,
): Promise<JudgedLease[]> {
  const judged: JudgedLease[] = [];
  const groups: [LeaseHolder, Lease[]][] = byHolder(leases);
  for (let at = 0; at < groups.length; at += HOLDERS_PER_TRANSACTION) {
    progressed(judged.length);
    const slice = groups.slice(at, at + HOLDERS_PER_TRANSACTION);
    const verdicts = await leaseStore.take(definition, slice);
    for (const [index, [, ofHolder]] of slice.entries())
      for (const [place, lease] of ofHolder.entries())
        judged.push({ lease, verdict: verdicts[index]?.[place] as LeaseVerdict });
    await nextTurn(clock);
  }
  return judged;
}

export function stillRecording(network: string, progress: Progress | undefined): Refusal {
  const { directory = "host-local's directory", done = 0, total = 0 } = progress ?? {};
  const soFar = total === 0 ? "it is being read" : `${done} of ${total} files are recorded`;
  const reason = `addresses that host-local has given on network ${network} are being taken over from ${directory}: ${soFar}, and that goes on`;
  return refuse("NOT_READY", { reason });
}
