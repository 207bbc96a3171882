import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Refusal, refuse } from "../../ipam/refusals.ts";
import { type Clock, nextTurn } from "../../platform/time.ts";
import { byHolder, type JudgedLease } from "./judged-lease.ts";
import type { Lease } from "./lease-files.ts";
import type { LeaseStore, LeaseVerdict } from "./lease-store.ts";

/** Containers recorded in one transaction: a sync takes longer than all of them, and other requests wait for both. */
const HOLDERS_PER_TRANSACTION = 100;

export interface Progress {
  readonly directory: string;
  readonly done: number;
  readonly total: number;
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
