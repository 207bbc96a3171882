import { createHash } from "node:crypto";
import type { PortAddress } from "../../kernel/port-address.ts";

export interface TableForm {
  readonly family: "netdev" | "bridge";
  readonly sets: Readonly<Record<string, SetForm>>;
}

export interface SetForm {
  readonly kind: "map" | "set";
  /** `iface_index . mark`, and for a map ` : ` and the type of its data. */
  readonly type: string;
  readonly says: string;
}

export interface Ruleset {
  readonly chains: ReadonlyMap<string, ChainText>;
  /** Data by key, for each set of the form; the data of a plain set is empty. Keys and data as nft reads them. */
  readonly elements: Elements;
}

export type Elements = ReadonlyMap<string, ReadonlyMap<string, string>>;

export interface ChainText {
  readonly name: string;
  /** Declaration of the hook; empty: others jump to it. */
  readonly hook: string;
  readonly rules: readonly string[];
  /** In the rules' comments, others with each change: so they are compared however a version of nft prints rules. */
  readonly digests: readonly string[];
  /** The port that it is for; null: all. */
  readonly address: PortAddress | null;
}

export function chainText(
  name: string,
  hook: string,
  rules: readonly string[],
  address: PortAddress | null = null,
): ChainText {
  const digests = rules.map((rule) => createHash("sha256").update(`${hook}\n${rule}`).digest("base64url").slice(0, 12));
  return { name, hook, rules, digests, address };
}

/** One element of a set: its name, the key, and the data, which is empty in a plain set. */
export type Element = readonly [set: string, key: string, data: string];

/** Elements by set; a later one takes the place of an earlier one with the same key. */
export function elementsOf(form: TableForm, elements: Iterable<Element>): Elements {
  const bySet = new Map(Object.keys(form.sets).map((name) => [name, new Map<string, string>()]));
  for (const [set, key, data] of elements) bySet.get(set)?.set(key, data);
  return bySet;
}
