import { useRef } from "preact/hooks";
import type { NetworkWithClaims } from "../../admin/admin-api.ts";
import { countRanges, type NetworkCounts } from "./counts.ts";
import type { Ledger } from "./ledger.ts";
import { now } from "./parts.tsx";
import { useSliced } from "./sliced.ts";

interface Counted {
  readonly network: NetworkWithClaims;
  readonly version: number;
  readonly countedMs: number;
  readonly counts: NetworkCounts;
}

type CountsByNetwork = ReadonlyMap<string, NetworkCounts>;
const NOTHING: CountsByNetwork = new Map();

/**
 * How the networks' addresses are divided, counted in many short tasks: until they are through, the last counts stay. A
 * network that has not changed is not counted again, unless something of it cools down.
 */
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
