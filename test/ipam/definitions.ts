import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { type Refusal, RefusalError } from "../../ipam/refusals.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import type { IntervalSet } from "../../ipam/space/interval-set.ts";
import type { RangeSet } from "../../ipam/space/range-set.ts";

/** A plugin configuration whose `ipam` block has these keys. */
export function pluginConfig(ipam: object, topLevel: object = {}): Record<string, unknown> {
  return {
    cniVersion: "1.0.0",
    name: "blue",
    type: "bridge",
    ...topLevel,
    ipam: { type: "holdfast-ipam", ...ipam },
  };
}

export function define(ipam: object, topLevel: object = {}): NetworkDefinition {
  return parsePluginConfig(pluginConfig(ipam, topLevel));
}

/** The range sets of a definition that is known to have at least one. */
export function firstRangeSet(ipam: object, topLevel: object = {}): RangeSet {
  const [set] = define(ipam, topLevel).rangeSets;
  if (set === undefined) throw new Error("no range set");
  return set;
}

/** Runs as `10.0.0.1-10.0.0.9`, to compare with a text. */
export function runs(set: RangeSet, part: IntervalSet): string {
  const text = (value: bigint) => formatAddress({ family: set.family, value });
  return [...part.intervals()].map(({ first, last }) => `${text(first)}-${text(last)}`).join(" ");
}

/** The number of an address. */
export function ip(text: string): bigint {
  return parseAddress(text).value;
}

/** The refusal that a parser throws. */
export function refusalOf(parse: () => unknown): Refusal {
  try {
    parse();
  } catch (error) {
    if (error instanceof RefusalError) return error.refusal;
    throw error;
  }
  throw new Error("nothing was refused");
}
