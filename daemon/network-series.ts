import { createHash } from "node:crypto";
import type { NetworkView } from "../allocations/records.ts";

/**
 * Ranges with time series of their own. Anybody who may write NetworkAttachmentDefinitions creates networks, and a
 * monitoring system keeps every series for long. A node serves tens of networks.
 */
const RANGES_SHOWN_MAX = 500;
/** Longest list of subnets in a label, characters; a longer one is cut and distinguished by its hash. */
const LABEL_CHARS_MAX = 200;
/** No network can have this name. */
export const OTHERS = "(others)";

export const ADDRESS_STATES = ["allocated", "retained", "cooling", "free", "excluded"] as const;

interface RangeSeries {
  readonly network: string;
  readonly subnets: string;
  readonly size: number;
  readonly states: Readonly<Record<(typeof ADDRESS_STATES)[number], number>>;
}

export interface NetworkSeries {
  readonly attachments: ReadonlyMap<string, number>;
  readonly ranges: readonly RangeSeries[];
}

/** The metrics of networks. Those used by containers of this node come first; the rest beyond the limit is one sum. */
export function seriesOf(networks: readonly NetworkView[]): NetworkSeries {
  const attachments = new Map<string, number>();
  const ranges: RangeSeries[] = [];
  const others: RangeSeries[] = [];
  const ordered = networks.toSorted(
    (a, b) => Number(b.attachments > 0) - Number(a.attachments > 0) || (a.name < b.name ? -1 : 1),
  );
  for (const { name, attachments: count, ranges: own } of ordered) {
    const fits = ranges.length + own.length <= RANGES_SHOWN_MAX && attachments.size < RANGES_SHOWN_MAX;
    const network = fits ? name : OTHERS;
    attachments.set(network, (attachments.get(network) ?? 0) + count);
    for (const { subnets, size, ...counts } of own) {
      const states = Object.fromEntries(ADDRESS_STATES.map((state) => [state, Number(counts[state])]));
      (fits ? ranges : others).push({
        network,
        subnets: fits ? labelOf(subnets.join(",")) : "",
        size: Number(size),
        states: states as RangeSeries["states"],
      });
    }
  }
  return { attachments, ranges: others.length === 0 ? ranges : [...ranges, others.reduce(sum)] };
}

function sum(a: RangeSeries, b: RangeSeries): RangeSeries {
  const states = Object.fromEntries(ADDRESS_STATES.map((state) => [state, a.states[state] + b.states[state]]));
  return { ...a, size: a.size + b.size, states: states as RangeSeries["states"] };
}

function labelOf(subnets: string): string {
  if (subnets.length <= LABEL_CHARS_MAX) return subnets;
  const hash = createHash("sha256").update(subnets).digest("hex").slice(0, 16);
  return `${subnets.slice(0, LABEL_CHARS_MAX)}… ${hash}`;
}
