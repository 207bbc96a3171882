import { useRef } from "preact/hooks";
import type { NetworkWithClaims } from "../../admin/admin-api.ts";
import type { RangeView } from "../../allocations/records.ts";
import { type CooldownDefinition, hasCooledDown } from "../../ipam/space/cooldown.ts";
import { type Cidr, parseCidr } from "../pictures/addresses.ts";
import type { StateCounts } from "../pictures/bar.ts";
import type { AddressState } from "../pictures/states.ts";
import type { Entry, Ledger } from "./ledger.ts";
import { now } from "./parts.tsx";
import { eachSliced, useSliced } from "./sliced.ts";
import { vmOf } from "./words.ts";

export interface RangeCounts {
  readonly range: RangeView;
  readonly subnets: readonly Cidr[];
  readonly counts: StateCounts;
}

/** From here on a network is nearly full, and people ask why and until when. */
export const NEARLY_FULL = 0.8;

interface NetworkCounts {
  readonly ranges: readonly RangeCounts[];
  readonly vms: number;
}

/** What an allocation's address is now; "free": its cool-down is over. */
export function stateOf({ row }: Entry, definition: CooldownDefinition, nowMs: number): AddressState {
  const [, , state, , , since, , uses] = row;
  if (state === "Retained") return "reserved";
  if (state === "Bound") return uses.length > 0 ? "in-use" : "idle";
  return hasCooledDown(definition, nowMs - Date.parse(since)) ? "free" : "cooling";
}

/**
 * Counted from the allocations; where there is none, as the source counted: networks of OVN-Kubernetes have none here.
 * The size and what is never given are the definition's. Yields where the reader may have his turn.
 */
function* countRanges(
  network: NetworkWithClaims,
  entries: ReadonlyMap<string, Entry>,
  nowMs: number,
): Generator<void, NetworkCounts> {
  const vms = new Set<string>();
  const ranges = network.ranges.map((range) => ({
    range,
    subnets: range.subnets.map(parseCidr).filter((subnet) => subnet !== null),
    found: { "in-use": 0, idle: 0, cooling: 0, reserved: 0 } as Record<AddressState, number>,
  }));
  yield* eachSliced(entries.values(), (entry) => {
    const state = stateOf(entry, network, nowMs);
    const range = ranges.find(({ subnets }) => subnets.some((subnet) => has(subnet, entry)));
    if (range !== undefined && state !== "free") range.found[state] += 1;
    const vm = vmOf(entry);
    if (vm !== null) vms.add(vm);
  });
  const counted = ranges.map(({ range, subnets, found }) => {
    const isKnown = entries.size > 0;
    const inUse = isKnown ? BigInt(found["in-use"]) : BigInt(range.allocated);
    const cooling = isKnown ? BigInt(found.cooling) : BigInt(range.cooling);
    const reserved = isKnown ? BigInt(found.reserved) : BigInt(range.retained);
    const idle = BigInt(found.idle);
    const excluded = BigInt(range.excluded);
    // Gateways are among what the definition excludes.
    const gateways = BigInt(range.gateways.length);
    const gateway = gateways < excluded ? gateways : excluded;
    const free = BigInt(range.size) - inUse - idle - cooling - reserved - excluded;
    const counts = { "in-use": inUse, idle, cooling, reserved, gateway, excluded: excluded - gateway };
    return { range, subnets, counts: { ...counts, free: free < 0n ? 0n : free } };
  });
  return { ranges: counted, vms: vms.size };
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

interface Counted {
  readonly network: NetworkWithClaims;
  readonly version: number;
  readonly countedMs: number;
  readonly counts: NetworkCounts;
}

type CountsByNetwork = ReadonlyMap<string, NetworkCounts>;
const NOTHING: CountsByNetwork = new Map();

/** In short tasks; the last counts stay until then. Counted again is what has changed or still cools down. */
export function useCounts(ledger: Ledger, networks: readonly NetworkWithClaims[]): CountsByNetwork {
  const known = useRef(new Map<string, Counted>());
  const version = ledger.version.value;
  const nowMs = now.value;
  const counts = useSliced(() => count(ledger, networks, nowMs, known.current), [version, networks, nowMs]);
  return counts ?? NOTHING;
}

function* count(
  ledger: Ledger,
  networks: readonly NetworkWithClaims[],
  nowMs: number,
  known: Map<string, Counted>,
): Generator<void, CountsByNetwork> {
  for (const network of networks) {
    const version = ledger.versionOf(network.name);
    const before = known.get(network.name);
    const isCooling = before?.counts.ranges.some(({ counts }) => counts.cooling > 0n) === true;
    const isSame = before?.version === version && before.network === network;
    if (isSame && !(isCooling && before.countedMs !== nowMs)) continue;
    const counts = yield* countRanges(network, ledger.of(network.name), nowMs);
    known.set(network.name, { network, version, countedMs: nowMs, counts });
  }
  return new Map([...known].map(([name, one]) => [name, one.counts]));
}
