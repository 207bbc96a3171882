import type { Address, Family } from "../ipam/space/address.ts";
import { type Interval, IntervalSet } from "../ipam/space/interval-set.ts";
import { addressOfAllocationName } from "../kube/object-names.ts";
import { LABEL_STATE, type ObjectMeta } from "../kube/objects.ts";
import type { PublishedSpace } from "../kube/views/published-space.ts";

/**
 * The picture of a network from the metadata of its allocations. Malformed metadata is left out: it is only a belief.
 */
export function spaceOf(metas: readonly ObjectMeta[], listVersion: string): Omit<PublishedSpace, "observedMs"> {
  const runs = {
    used: { 4: [] as Interval[], 6: [] as Interval[] },
    retained: { 4: [] as Interval[], 6: [] as Interval[] },
  };
  const cooling: { readonly address: Address; readonly version: bigint }[] = [];
  for (const { name, labels, resourceVersion } of metas) {
    const address = addressOfAllocationName(name);
    if (address === null) continue;
    const { family, value } = address;
    const state = labels?.[LABEL_STATE];
    if (state === "Cooling") cooling.push({ address, version: BigInt(resourceVersion) });
    else runs.used[family].push({ first: value, last: value });
    if (state === "Retained") runs.retained[family].push({ first: value, last: value });
  }
  // The last write of one that cools down was its release.
  cooling.sort((a, b) => (a.version < b.version ? -1 : 1));
  const setsOf = (all: Record<Family, Interval[]>) => ({
    4: IntervalSet.from(all[4]),
    6: IntervalSet.from(all[6]),
  });
  return {
    version: BigInt(listVersion),
    used: setsOf(runs.used),
    retained: setsOf(runs.retained),
    cooling: cooling.map(({ address }) => address),
    unlisted: new Map(),
  };
}
