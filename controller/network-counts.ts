import type { CachedAllocation } from "../claims/reasons/caches.ts";
import { parseAddress } from "../ipam/space/address.ts";
import { formatCidr } from "../ipam/space/cidr.ts";
import { Pool } from "../ipam/space/pool.ts";
import { TurnBudget } from "../kube/turn-budget.ts";
import type { CountingDefinition } from "../networks/nad-verdict.ts";
import type { Clock } from "../platform/time.ts";
import { fill } from "../store/network-space.ts";

/** A network in its IPNetwork and the metrics. `size` is the sum of allocated, retained, cooling, free and excluded. */
export interface NetworkCounts {
  readonly subnets: string;
  /** `namespace/name` of the NAD, or `AddressPool namespace/name`. */
  readonly definedBy: string;
  readonly size: bigint;
  readonly allocated: bigint;
  readonly retained: bigint;
  readonly cooling: bigint;
  readonly free: bigint;
  /** Allocated addresses of claims without attachments: of stopped VMs. */
  readonly idleCount: number;
}

/** Counts one network. Other work runs in between; its input must not change meanwhile. */
export async function countNetwork(
  { definition, by }: CountingDefinition,
  allocations: readonly CachedAllocation[],
  clock: Clock,
): Promise<NetworkCounts> {
  const pools = definition.rangeSets.map((rangeSet) => new Pool(rangeSet));
  const budget = new TurnBudget(clock);
  let idleCount = 0;
  for (const { object, address } of allocations) {
    if (address === null) continue;
    const cooling = object.status?.state === "Cooling";
    const retained = object.status?.state === "Retained";
    // Counted as cooling for as long as its object says so.
    fill(pools, { address: parseAddress(address), cooling, retained }, null, 0);
    if (object.status?.state === "Bound" && object.spec.owner.kind === "IPAMClaim" && isUnattached(object))
      idleCount += 1;
    if (budget.isSpent) await budget.nextTurn();
  }
  const counts = pools.map((pool) => pool.counts());
  const sum = (key: "size" | "allocated" | "retained" | "cooling" | "free") =>
    counts.reduce((total, one) => total + one[key], 0n);
  return {
    subnets: definition.rangeSets
      .flatMap(({ subnets }) => subnets.map(({ cidr }) => formatCidr(cidr)))
      .join(","),
    definedBy: by,
    size: sum("size"),
    allocated: sum("allocated"),
    retained: sum("retained"),
    cooling: sum("cooling"),
    free: sum("free"),
    idleCount,
  };
}

function isUnattached({ status }: CachedAllocation["object"]): boolean {
  return Object.keys(status?.attachments ?? {}).length === 0;
}
