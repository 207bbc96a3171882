import { readFileSync } from "node:fs";
import { run } from "../../kernel/run.ts";
import type { PortAddress } from "../../port-address.ts";
import { type ChainText, type Ruleset, SET_NAMES, SETS, type SetName } from "./ruleset.ts";

/** What a table has, as far as it is compared: the digests of the rules of each chain, and the elements. */
export interface TableState {
  readonly chains: ReadonlyMap<string, string>;
  readonly elements: Ruleset["elements"];
}

/** One command of a transaction. */
export interface Line {
  readonly text: string;
  /** Port for which it is; null: several. */
  readonly address: PortAddress | null;
}

/** Set whose elements come and go by themselves. */
const SOLICITED = "solicited";
/** A thousand ports print 1.4 million. */
const LIST_LIMITS = { outputMax: 1 << 26 };
/** Elements in one command. */
const CHUNK = 500;

export function stateOf({ chains, elements }: Ruleset): TableState {
  return { chains: new Map([...chains.values()].map((chain) => [chain.name, digestsOf(chain)])), elements };
}

/** Commands that lead from one state to another; from null: whatever is there is replaced. */
export function linesBetween(table: string, before: TableState | null, after: Ruleset): readonly Line[] {
  const lines: Line[] = [];
  const add = (text: string, address: PortAddress | null = null) => lines.push({ text, address });
  if (before === null) for (const text of declarations(table)) add(text);
  for (const set of SET_NAMES) {
    const gone = [...(before?.elements[set] ?? [])].filter(
      ([key, data]) => after.elements[set].get(key) !== data,
    );
    for (const keys of chunks(gone.map(([key]) => key)))
      add(`delete element netdev ${table} ${set} { ${keys.join(", ")} }`);
  }
  const had = before?.chains ?? new Map<string, string>();
  const changed = [...after.chains.values()].filter((chain) => had.get(chain.name) !== digestsOf(chain));
  for (const name of had.keys()) if (!after.chains.has(name)) add(`delete chain netdev ${table} ${name}`);
  // A chain for a hook is made anew, since its link cannot be changed; the others are referred to.
  for (const { name, hook, address } of changed) {
    if (had.has(name)) add(`${hook === "" ? "flush" : "delete"} chain netdev ${table} ${name}`, address);
    if (hook !== "" || !had.has(name)) add(`add chain netdev ${table} ${name} { ${hook} }`, address);
  }
  for (const chain of changed)
    for (const [at, rule] of chain.rules.entries())
      add(`add rule netdev ${table} ${chain.name} ${rule} comment "${chain.digests[at]}"`, chain.address);
  for (const set of SET_NAMES) {
    const fresh = [...after.elements[set]].filter(([key, data]) => before?.elements[set].get(key) !== data);
    for (const elements of chunks(fresh.map(([key, data]) => (data === "" ? key : `${key} : ${data}`))))
      add(`add element netdev ${table} ${set} { ${elements.join(", ")} }`);
  }
  return lines;
}

export function sameState(one: TableState, other: TableState): boolean {
  const same = (a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>) =>
    a.size === b.size && [...a].every(([key, value]) => b.get(key) === value);
  return (
    same(one.chains, other.chains) && SET_NAMES.every((set) => same(one.elements[set], other.elements[set]))
  );
}

/** What is there; null: no table, or one that has another form. Throws an Error when nft cannot say. */
export async function readTable(table: string): Promise<TableState | null> {
  const listed = await run("nft", ["-j", "list", "table", "netdev", table], "", LIST_LIMITS);
  if (listed.code === 0) return parseTable(listed.stdout);
  if (listed.stderr.includes("No such file or directory")) return null;
  throw new Error(`nft cannot list the table ${table}: ${listed.stderr.trim().slice(0, 300)}`);
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

/** `nft -j list table` as a state; null: it has sets of another form. */
export function parseTable(json: string): TableState | null {
  const { nftables } = JSON.parse(json) as { nftables: readonly Listed[] };
  const chains = new Map<string, string>();
  const elements = new Map<string, ReadonlyMap<string, string>>();
  for (const { chain, rule, set, map } of nftables) {
    if (chain !== undefined) chains.set(chain.name, "");
    if (rule !== undefined) {
      const before = chains.get(rule.chain) ?? "";
      chains.set(rule.chain, `${before}${rule.comment ?? "?"} `);
    }
    const found = set ?? map;
    if (found === undefined || found.name === SOLICITED) continue;
    const read = readElements(found);
    if (read === null) return null;
    elements.set(found.name, read);
  }
  if (elements.size !== SET_NAMES.length || !SET_NAMES.every((name) => elements.has(name))) return null;
  return { chains, elements: Object.fromEntries(elements) as unknown as Ruleset["elements"] };
}

function readElements({ name, type, map, elem = [] }: ListedSet): ReadonlyMap<string, string> | null {
  const key = typeof type === "string" ? type : type.join(" . ");
  if (SETS[name as SetName]?.type !== (map === undefined ? key : `${key} : ${map}`)) return null;
  const keyTypes = key.split(" . ");
  const read = new Map<string, string>();
  for (const one of elem) {
    const [left, right] = map === undefined ? [one, ""] : (one as readonly [unknown, unknown]);
    const values = Array.isArray((left as { concat?: unknown }).concat)
      ? (left as { concat: readonly unknown[] }).concat
      : [left];
    const texts = values.map((value, at) => plain(value, keyTypes[at] as string));
    const data = map === undefined ? "" : plain(right, map);
    if (data === null || texts.includes(null)) return null;
    read.set(texts.join(" . "), data);
  }
  return read;
}

/** null: it has more than a value, such as a timeout, which none of ours has. */
function plain(value: unknown, type: string): string | null {
  if (typeof value !== "string" && typeof value !== "number") return null;
  return type === "iface_index" ? String(indexOf(String(value))) : String(value);
}

/** nft prints an index as the name of the link that has it, as a number when there is none. */
function indexOf(name: string): string {
  try {
    return readFileSync(`/sys/class/net/${name}/ifindex`, "utf8").trim();
  } catch {
    return name;
  }
}

function declarations(table: string): readonly string[] {
  return [
    `table netdev ${table} {}`,
    `delete table netdev ${table}`,
    `table netdev ${table} {}`,
    ...SET_NAMES.map((name) => {
      const { kind, type, says } = SETS[name];
      return `add ${kind} netdev ${table} ${name} { type ${type}; comment "${says}"; }`;
    }),
    `add set netdev ${table} ${SOLICITED} { type iface_index; size 65535; flags dynamic,timeout; timeout 1m; }`,
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
