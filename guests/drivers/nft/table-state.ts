import type { PortAddress } from "../../kernel/port-address.ts";
import { linkIndex } from "./links.ts";
import type { ChainText, Elements, Ruleset, SetForm, TableForm } from "./ruleset.ts";

/** What a table has, as far as it is compared: the digests of the rules of each chain, and the elements. */
export interface TableState {
  readonly chains: ReadonlyMap<string, string>;
  readonly elements: Elements;
}

export interface Line {
  readonly text: string;
  /** Port for which it is; null: several. */
  readonly address: PortAddress | null;
}

/** Elements in one command. */
const CHUNK = 500;

export function stateOf({ chains, elements }: Ruleset): TableState {
  return { chains: new Map([...chains.values()].map((chain) => [chain.name, digestsOf(chain)])), elements };
}

export function sameState(one: TableState, other: TableState): boolean {
  const same = (a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string> | undefined) =>
    a.size === b?.size && [...a].every(([key, value]) => b.get(key) === value);
  return same(one.chains, other.chains) && [...one.elements].every(([set, all]) => same(all, other.elements.get(set)));
}

/** Commands that lead from one state to another; from null: whatever is there is replaced. */
export function linesBetween(
  { form, table }: { readonly form: TableForm; readonly table: string },
  before: TableState | null,
  after: Ruleset,
): readonly Line[] {
  const where = `${form.family} ${table}`;
  const lines: Line[] = [];
  const add = (text: string, address: PortAddress | null = null) => lines.push({ text, address });
  if (before === null) for (const text of declarations(form, table)) add(text);
  for (const [set, wanted] of after.elements) {
    const gone = [...(before?.elements.get(set) ?? [])].filter(([key, data]) => wanted.get(key) !== data);
    for (const keys of chunks(gone.map(([key]) => key))) add(`delete element ${where} ${set} { ${keys.join(", ")} }`);
  }
  const had = before?.chains ?? new Map<string, string>();
  const changed = [...after.chains.values()].filter((chain) => had.get(chain.name) !== digestsOf(chain));
  for (const name of had.keys()) if (!after.chains.has(name)) add(`delete chain ${where} ${name}`);
  // A chain for a hook is made anew, since its link cannot be changed; the others are referred to.
  for (const { name, hook, address } of changed) {
    if (had.has(name)) add(`${hook === "" ? "flush" : "delete"} chain ${where} ${name}`, address);
    if (hook !== "" || !had.has(name)) add(`add chain ${where} ${name} { ${hook} }`, address);
  }
  for (const chain of changed)
    for (const [at, rule] of chain.rules.entries())
      add(`add rule ${where} ${chain.name} ${rule} comment "${chain.digests[at]}"`, chain.address);
  for (const [set, wanted] of after.elements) {
    const known = before?.elements.get(set);
    const fresh = [...wanted].filter(([key, data]) => known?.get(key) !== data);
    for (const elements of chunks(fresh.map(([key, data]) => (data === "" ? key : `${key} : ${data}`))))
      add(`add element ${where} ${set} { ${elements.join(", ")} }`);
  }
  return lines;
}

interface Listed {
  readonly chain?: { readonly name: string };
  readonly rule?: { readonly chain: string; readonly comment?: string };
  readonly set?: ListedSet;
  readonly map?: ListedSet;
}
interface ListedSet {
  readonly name: string;
  readonly type: string | readonly string[];
  readonly map?: string;
  readonly elem?: readonly unknown[];
}

/** `nft -j list table` as a state; null: the table has sets of another form. */
export function parseTable(form: TableForm, json: string): TableState | null {
  const chains = new Map<string, string>();
  const elements = new Map<string, ReadonlyMap<string, string>>();
  for (const { chain, rule, set, map } of listedIn(json)) {
    if (chain !== undefined) chains.set(chain.name, "");
    if (rule !== undefined) {
      const before = chains.get(rule.chain) ?? "";
      chains.set(rule.chain, `${before}${rule.comment ?? "?"} `);
    }
    const found = set ?? map;
    if (found === undefined) continue;
    const read = readElements(form.sets[found.name], found);
    if (read === null) return null;
    elements.set(found.name, read);
  }
  return elements.size === Object.keys(form.sets).length ? { chains, elements } : null;
}

/** How nft begins a rule in a list. */
const RULE = '{"rule": {"family": ';

/** What is listed. Rules are read one by one: as one value, those of a thousand ports would take 10 MB. */
function* listedIn(json: string): Generator<Listed> {
  const pieces = json.trimEnd().split(`, ${RULE}`);
  if (pieces.length === 1) return yield* (JSON.parse(json) as { nftables: readonly Listed[] }).nftables;
  const last = pieces.length - 1;
  for (const [at, piece] of pieces.entries()) {
    const text = at === 0 ? `${piece}]}` : `{"nftables": [${RULE}${piece}${at === last ? "" : "]}"}`;
    yield* (JSON.parse(text) as { nftables: readonly Listed[] }).nftables;
  }
}

function readElements(form: SetForm | undefined, found: ListedSet): ReadonlyMap<string, string> | null {
  const { type, map, elem = [] } = found;
  const key = typeof type === "string" ? type : type.join(" . ");
  if (form?.type !== (map === undefined ? key : `${key} : ${map}`)) return null;
  const keyTypes = key.split(" . ");
  const read = new Map<string, string>();
  for (const one of elem) {
    const [left, right] = map === undefined ? [one, ""] : (one as readonly [unknown, unknown]);
    // A text has a method of that name.
    const { concat } = left as { concat?: unknown };
    const values: readonly unknown[] = Array.isArray(concat) ? concat : [left];
    const texts = values.map((value, at) => plain(value, keyTypes[at]));
    const data = map === undefined ? "" : plain(right, map);
    if (data === null || texts.includes(null)) return null;
    read.set(texts.join(" . "), data);
  }
  return read;
}

/** null: it has more than a value, such as a timeout, which none of ours has. */
function plain(value: unknown, type: string | undefined): string | null {
  if (typeof value !== "string" && typeof value !== "number") return null;
  // nft prints an index as the name of the link that has it, and as a number when there is none.
  return type === "iface_index" ? String(linkIndex(String(value)) ?? value) : String(value);
}

function declarations(form: TableForm, table: string): readonly string[] {
  const where = `${form.family} ${table}`;
  const remedy = `nft delete table ${where}`;
  return [
    `table ${where} {}`,
    `delete table ${where}`,
    `table ${where} { comment "holdfast metadata-net; stays when that stops; to remove: ${remedy}"; }`,
    ...Object.entries(form.sets).map(
      ([name, { kind, type, says }]) => `add ${kind} ${where} ${name} { type ${type}; comment "${says}"; }`,
    ),
  ];
}

function digestsOf(chain: ChainText): string {
  return chain.digests.map((digest) => `${digest} `).join("");
}

function chunks<T>(all: readonly T[]): readonly (readonly T[])[] {
  const parts: T[][] = [];
  for (let at = 0; at < all.length; at += CHUNK) parts.push(all.slice(at, at + CHUNK));
  return parts;
}
