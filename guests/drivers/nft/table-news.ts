import type { Line } from "./table-state.ts";

/** Name of a chain that is made and deleted again in each transaction of ours. */
const MARK = "own_change";

/** Tells from the lines of `nft monitor` whether somebody else has changed a table. */
export class TableNews {
  readonly #inTable: string;
  /** What was heard of the transaction that is being printed. */
  #concerns = false;
  #isOwn = false;

  constructor(table: { readonly family: string; readonly name: string }) {
    this.#inTable = ` ${table.family} ${table.name} `;
  }

  /**
   * Lines that make a transaction known as one of ours: they leave nothing behind, and everybody hears of them. The
   * number of the process that nft prints is no help in a container, where it is another one.
   */
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
