import { formatCidr } from "../ipam/space/cidr.ts";
import { IntervalSet } from "../ipam/space/interval-set.ts";
import type { RangeSet } from "../ipam/space/range-set.ts";
import type { UsedSpace } from "../ipam/space/used-space.ts";
import type { CountingDefinition } from "../networks/nad-verdict.ts";

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
  /** A range has no free address. */
  readonly isFull: boolean;
  /** Allocated addresses of claims without attachments: of stopped VMs. */
  readonly idleCount: number;
}

/** Counts one network, in time that follows the runs of its addresses. */
export function countNetwork(
  { definition, by }: CountingDefinition,
  space: UsedSpace,
  idleCount: number,
): NetworkCounts {
  const counts = definition.rangeSets.map((rangeSet) => countRangeSet(rangeSet, space));
  const sum = (key: "size" | "allocated" | "retained" | "cooling" | "free") =>
    counts.reduce((total, one) => total + one[key], 0n);
  return {
    subnets: definition.rangeSets.flatMap(({ subnets }) => subnets.map(({ cidr }) => formatCidr(cidr))).join(","),
    definedBy: by,
    size: sum("size"),
    allocated: sum("allocated"),
    retained: sum("retained"),
    cooling: sum("cooling"),
    free: sum("free"),
    isFull: counts.some(({ free }) => free === 0n),
    idleCount,
  };
}

/** Counted as cooling for as long as its object says so. */
function countRangeSet({ family, extent, automatic, size }: RangeSet, space: UsedSpace) {
  const resting = IntervalSet.from(
    space.resting.filter((one) => one.family === family).map(({ value }) => ({ first: value, last: value })),
  );
  const used = space.used[family];
  const retained = space.retained[family].intersect(extent).size;
  return {
    size,
    allocated: used.intersect(extent).size - retained,
    retained,
    cooling: resting.intersect(extent).size,
    free: automatic.subtract(used.union(resting)).size,
  };
}
