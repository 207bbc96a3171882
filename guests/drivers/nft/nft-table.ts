/*
 * guests/drivers/nft/: what the drivers share that work by nftables
 *
 *   nft-table    a table that is brought to what it should be
 *   ruleset      what it should be; claims: the rules that every driver has
 *   table-state  what it is, and the commands between the two
 *   links        the links of ports
 *   follower     hears of changes
 */

import type { Clock } from "../../../platform/time.ts";
import type { PortAddress } from "../../kernel/port-address.ts";
import { run } from "../../kernel/run.ts";
import type { AdmittedPort, PortRef, SyncResult } from "../driver.ts";
import { Follower } from "./follower.ts";
import { choosePorts, concernsLinks, type WatchedLinks } from "./links.ts";
import type { Ruleset, TableForm } from "./ruleset.ts";
import { type Line, linesBetween, parseTable, sameState, stateOf, type TableState } from "./table-state.ts";

/** How often ports that nft refuses are left out and the rest is tried again. */
const ATTEMPTS_MAX = 5;
/** A thousand ports print 1.4 million. */
const LIST_LIMITS = { outputMax: 1 << 26 };
const NO_LINKS: WatchedLinks = { byIndex: new Map(), names: new Set() };

/** Name of a chain that is made and deleted again in each transaction of ours. */
const MARK = "own_change";

type LinkRef = Pick<PortRef, "link" | "ifindex">;

export interface TableContent {
  /** Makes what the table should have for these ports, no two of which have the same link. */
  readonly build: (ports: readonly AdmittedPort[]) => Ruleset;
  /** Other links in the rules. */
  readonly links: readonly LinkRef[];
  /** Replaces whatever is there, in one transaction. */
  readonly fresh?: boolean;
}

/** A table of nftables that belongs to us. One call after the other. */
export class NftTable {
  readonly form: TableForm;
  readonly table: string;
  /** What was last carried out; null: not known. */
  #applied: TableState | null = null;
  #links: WatchedLinks = NO_LINKS;
  readonly #news: TableNews;
  #followers: readonly Follower[] = [];

  constructor(form: TableForm, table: string) {
    this.form = form;
    this.table = table;
    this.#news = new TableNews({ family: form.family, name: table });
  }

  /** `again`: compares with what is really there, and changes what differs. See DatapathDriver.sync. */
  async sync(
    ports: readonly AdmittedPort[],
    { build, links, fresh = false }: TableContent,
    again: boolean,
    hurry?: AbortSignal,
  ): Promise<SyncResult> {
    const known = this.#applied;
    const inTable = ({ link, ifindex }: PortRef) => !again && this.#links.byIndex.get(ifindex) === link;
    const { admitted, failed } = choosePorts(ports, inTable);
    const names = new Set([...links, ...ports.map(({ port }) => port)].map(({ link }) => link));
    this.#links = { ...this.#links, names };
    let present: TableState | null = known;
    if (fresh) present = null;
    else if (again || known === null) present = await this.#readUnless(hurry, known);
    const repaired = !fresh && again && known !== null && (present === null || !sameState(known, present));
    for (let attempt = 1; ; attempt += 1) {
      const wanted = admitted.filter(({ address }) => !failed.has(address));
      const ruleset = build(wanted);
      const refused = await change(linesBetween(this, present, ruleset), this.#news.mark());
      if (refused === null) {
        this.#applied = stateOf(ruleset);
        const there: readonly LinkRef[] = [...links, ...wanted.map(({ port }) => port)];
        this.#links = { names, byIndex: new Map(there.map(({ ifindex, link }) => [ifindex, link])) };
        return { failed, repaired };
      }
      this.#applied = null;
      for (const [address, why] of refused.ports) failed.set(address, why);
      if (attempt === ATTEMPTS_MAX || (refused.ports.size === 0 && present === null))
        throw new Error(`nft refuses the rules of table ${this.table}: ${refused.text}`);
      // What was believed to be there is not; or what is there cannot be changed, and is replaced.
      if (refused.ports.size === 0) present = attempt === 1 ? await this.#read() : null;
    }
  }

  watch(clock: Clock, lost: () => void): void {
    const follow = (words: readonly string[], concerns: (line: string) => boolean) =>
      new Follower(words, clock, {
        heard: (line) => {
          if (concerns(line)) lost();
        },
        ended: lost,
      });
    this.#followers = [
      follow(["nft", "monitor"], (line) => this.#news.heard(line)),
      follow(["ip", "-o", "monitor", "link"], (line) => concernsLinks(line, this.#links)),
    ];
  }

  close(): void {
    for (const follower of this.#followers) follower.close();
    this.#followers = [];
  }

  /** As DatapathDriver.shut, with what the table has then. */
  async shut(ports: readonly AdmittedPort[], build: TableContent["build"], unlessThere: boolean): Promise<void> {
    if (unlessThere && (ports.length === 0 || (await this.#isThere()))) return;
    if (ports.length === 0) return this.remove();
    await this.sync(ports, { build, links: [], fresh: true }, true);
    this.#links = NO_LINKS;
  }

  async remove(): Promise<void> {
    this.#applied = null;
    this.#links = NO_LINKS;
    // Others who watch would hear of a table that is made and deleted.
    if (!(await this.#isThere())) return;
    const ran = await run("nft", ["delete", "table", this.form.family, this.table]);
    if (ran.code !== 0 && (await this.#isThere()))
      throw new Error(`nft cannot delete the table ${this.table}: ${ran.stderr.trim().slice(0, 300)}`);
  }

  async #isThere(): Promise<boolean> {
    return (await run("nft", ["-t", "list", "table", this.form.family, this.table])).code === 0;
  }

  /** What is there, or what is known when that is to be hurried: a list of a thousand ports takes a second. */
  async #readUnless(hurry: AbortSignal | undefined, known: TableState | null): Promise<TableState | null> {
    if (known === null) return this.#read();
    try {
      return await this.#read(hurry);
    } catch (error) {
      if (hurry?.aborted) return known;
      throw error;
    }
  }

  /** null: no table, or one of another form. Throws an Error when nft cannot say, or `signal` aborts. */
  async #read(signal?: AbortSignal): Promise<TableState | null> {
    const { form, table } = this;
    const limits = { ...LIST_LIMITS, signal };
    const listed = await run("nft", ["-j", "list", "table", form.family, table], "", limits);
    if (listed.code === 0) return parseTable(form, listed.stdout);
    if (listed.stderr.includes("No such file or directory")) return null;
    throw new Error(`nft cannot list the table ${table}: ${listed.stderr.trim().slice(0, 300)}`);
  }
}

interface Refused {
  readonly text: string;
  /** By the lines that nft complains of. */
  readonly ports: ReadonlyMap<PortAddress, string>;
}

/** One transaction. null: it was carried out. */
async function change(lines: readonly Line[], mark: readonly Line[]): Promise<Refused | null> {
  if (lines.length === 0) return null;
  const text = [...lines, ...mark].map((line) => `${line.text}\n`).join("");
  const ran = await run("nft", ["-f", "-"], text);
  return ran.code === 0 ? null : readRefusal(ran.stderr, lines);
}

/** `/dev/stdin:12:1-60: Error: Could not process rule: No such file or directory` */
export function readRefusal(stderr: string, lines: readonly Line[]): Refused {
  const ports = new Map<PortAddress, string>();
  for (const [, line, why] of stderr.matchAll(/^[^:\n]*:(\d+):\d+-\d+: Error: (.*)$/gm)) {
    const address = lines[Number(line) - 1]?.address ?? null;
    if (address !== null) ports.set(address, `nft refuses the rules of its link: ${why}`);
  }
  return { ports, text: stderr.trim().slice(0, 300) };
}

export class TableNews {
  readonly #inTable: string;
  /** What was heard of the transaction that is being printed. */
  #concerns = false;
  #isOwn = false;

  constructor(table: { readonly family: string; readonly name: string }) {
    this.#inTable = ` ${table.family} ${table.name} `;
  }

  /** They mark a transaction as ours and leave nothing. nft's number of the process is another one in a container. */
  mark(): readonly Line[] {
    const chain = `chain${this.#inTable}${MARK}`;
    return ["add", "delete"].map((verb) => ({ text: `${verb} ${chain}`, address: null }));
  }

  /** Resolves to true at the end of each transaction of somebody else that has changed the table. */
  heard(line: string): boolean {
    // "# new generation 7 by process 123 (nft)" ends a transaction; "# ERROR: We lost some netlink events!" may be any.
    if (line.startsWith("#")) {
      const isLost = line.startsWith("# ERROR") || (this.#concerns && !this.#isOwn);
      this.#concerns = false;
      this.#isOwn = false;
      return isLost;
    }
    if (!`${line} `.includes(this.#inTable)) return false;
    this.#concerns = true;
    this.#isOwn ||= line.includes(`${this.#inTable}${MARK}`);
    return false;
  }
}
