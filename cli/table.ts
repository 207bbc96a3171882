import { type Colour, isTerminal, paint, printable } from "./terminal.ts";

/** Between columns, as kubectl has it. */
const GAP = "   ";
/** An empty value: a column that is never empty can be cut with awk. */
const NOTHING = "-";
/**
 * Columns are padded to their widest cell, but not beyond this: one long name must not widen all lines. A terminal gets
 * no more of a cell than this. A container ID with its owner kind and interface fits (92).
 */
const CELL_CHARS_MAX = 96;
const CUT = "…";
/** Never in a printable cell. */
const SEPARATOR = "\n";
/** Lines in one piece of the text. */
const PIECE_LINES = 1_000;

export interface Column<T> {
  readonly header: string;
  cell(item: T): string;
  /** Only in `-o table`, or only in `-o wide`; default: in both. */
  readonly only?: "table" | "wide";
  readonly colour?: (item: T) => Colour | null;
}

/**
 * Borderless columns under upper-case headers. Our own few lines, because the `table` package adds 30 ms to every query
 * (half of node's own start) and 12 s to one of 100,000 lines. Of a row its cells are kept, in one text.
 * See docs/decisions/0011.
 */
export class Table<T> {
  readonly #columns: readonly Column<T>[];
  readonly #widths: number[];
  readonly #rows: { readonly cells: string; readonly colours: readonly (Colour | null)[] | null }[] = [];
  readonly #terminal: boolean;

  constructor(columns: readonly Column<T>[], terminal = isTerminal()) {
    this.#columns = columns;
    this.#widths = columns.map(({ header }) => header.length);
    this.#terminal = terminal;
  }

  get isEmpty(): boolean {
    return this.#rows.length === 0;
  }

  add(item: T): void {
    const cells = this.#columns.map((column) => {
      const text = printable(column.cell(item)) || NOTHING;
      return this.#terminal ? cut(text) : text;
    });
    for (const [at, { length }] of cells.entries())
      this.#widths[at] = Math.max(this.#widths[at] as number, Math.min(length, CELL_CHARS_MAX));
    const colours = this.#terminal ? this.#columns.map(({ colour }) => colour?.(item) ?? null) : null;
    this.#rows.push({ cells: cells.join(SEPARATOR), colours });
  }

  /** The text, in pieces of some lines. */
  *text(): Generator<string> {
    yield this.#line(
      this.#columns.map(({ header }) => header),
      null,
    );
    for (let from = 0; from < this.#rows.length; from += PIECE_LINES) {
      yield this.#rows
        .slice(from, from + PIECE_LINES)
        .map(({ cells, colours }) => this.#line(cells.split(SEPARATOR), colours))
        .join("");
    }
  }

  #line(cells: readonly string[], colours: readonly (Colour | null)[] | null): string {
    const last = cells.length - 1;
    const padded = cells.map((text, at) => {
      const shown = colours === null ? text : paint(text, colours[at] ?? null, process.stdout);
      return at === last
        ? shown
        : shown + " ".repeat(Math.max(0, (this.#widths[at] as number) - text.length)) + GAP;
    });
    return `${padded.join("")}\n`;
  }
}

function cut(text: string): string {
  if (text.length <= CELL_CHARS_MAX) return text;
  // Not within a character of two units.
  return text.slice(0, CELL_CHARS_MAX - CUT.length).replace(/[\ud800-\udbff]$/, "") + CUT;
}
