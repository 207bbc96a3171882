import type { NetworkWithClaims } from "../../admin/admin-api.ts";
import { type CooldownDefinition, hasCooledDown } from "../../ipam/space/rest.ts";
import type { RangeView } from "../../store/records.ts";
import { type Cidr, parseCidr } from "../pictures/addresses.ts";
import type { StateCounts } from "../pictures/bar.ts";
import type { AddressState } from "../pictures/states.ts";
import type { Entry } from "./ledger.ts";

/** How the addresses of one range set are divided. */
export interface RangeCounts {
  readonly range: RangeView;
  readonly subnets: readonly Cidr[];
  readonly counts: StateCounts;
}

/** What an allocation's address is now; "free": its cool-down is over. */
export function stateOf({ row }: Entry, definition: CooldownDefinition, nowMs: number): AddressState {
  const [, , state, , , since, , uses] = row;
  if (state === "Retained") return "reserved";
  if (state === "Bound") return uses.length > 0 ? "in-use" : "idle";
  return hasCooledDown(definition, nowMs - Date.parse(since)) ? "free" : "cooling";
}

/**
 * Counted from the allocations; where there is none, as the source counted: networks of OVN-Kubernetes have none here. The size and
 * what is never given are the definition's.
 */
export function countRanges(
  network: NetworkWithClaims,
  entries: ReadonlyMap<string, Entry>,
  nowMs: number,
): RangeCounts[] {
  const ranges = network.ranges.map((range) => ({
    range,
    subnets: range.subnets.map(parseCidr).filter((subnet) => subnet !== null),
    found: { "in-use": 0n, idle: 0n, cooling: 0n, reserved: 0n } as Record<AddressState, bigint>,
  }));
  for (const entry of entries.values()) {
    const state = stateOf(entry, network, nowMs);
    const range = ranges.find(({ subnets }) => subnets.some((subnet) => has(subnet, entry)));
    if (range !== undefined && state !== "free") range.found[state] += 1n;
  }
  return ranges.map(({ range, subnets, found }) => {
    const size = BigInt(range.size);
    const gateway = BigInt(range.gateways.length);
    const excluded = BigInt(range.excluded);
    const none = entries.size === 0;
    const inUse = none ? BigInt(range.allocated) : found["in-use"];
    const cooling = none ? BigInt(range.cooling) : found.cooling;
    const reserved = none ? BigInt(range.retained) : found.reserved;
    const taken = inUse + found.idle + cooling + reserved + excluded;
    // Gateways are among what the definition excludes.
    const shown = gateway < excluded ? gateway : excluded;
    return {
      range,
      subnets,
      counts: {
        "in-use": inUse,
        idle: found.idle,
        cooling,
        reserved,
        gateway: shown,
        excluded: excluded - shown,
        free: taken > size ? 0n : size - taken,
      },
    };
  });
}

export function has(subnet: Cidr, { family, value }: Pick<Entry, "family" | "value">): boolean {
  return subnet.family === family && value >= subnet.first && value <= subnet.last;
}

/** Of the addresses that can be given, 0 to 1. */
export function fullness({ counts }: RangeCounts): number {
  const held = counts["in-use"] + counts.idle + counts.cooling + counts.reserved;
  const all = held + counts.free;
  return all === 0n ? 0 : Number((held * 10_000n) / all) / 10_000;
}
