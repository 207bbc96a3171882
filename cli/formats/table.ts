import { type Colour, isTerminal, paint, printable } from "../terminal.ts";

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
/** A cell of a narrow terminal is still recognised by so many. */
const CUT_CHARS_MIN = 10;
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
  /** What lines are sorted by where the text is not it, such as an age. */
  readonly order?: (item: T) => string;
  /** What programs read where the text is rounded, such as a count. */
  readonly exact?: (item: T) => string;
  /** Never cut to fit a terminal: what people copy. */
  readonly isWhole?: boolean;
}

export interface Order<T> {
  readonly column: Column<T>;
  readonly isBackwards: boolean;
}

interface TableOptions<T> {
  /** null: as they come. */
  readonly order?: Order<T> | null;
  readonly headers?: boolean;
  /** Values separated by commas, quoted as RFC 4180 has it, in full and for no terminal. */
  readonly isCsv?: boolean;
  /** Lines that are left out, as `lines` has them; null: none. */
  readonly known?: ReadonlySet<string> | null;
  /** Columns of the terminal that lines are cut to; null: they are as long as they are. */
  readonly fitTo?: number | null;
}

/** They change by themselves. */
const AGES = ["AGE", "SINCE"];

/**
 * Borderless columns under upper-case headers. Our own few lines, because the `table` package adds 30 ms to every query
 * (half of node's own start) and 12 s to one of 100,000 lines. Of a row its cells are kept, in one text.
 * See docs/decisions/0011.
 */
export class Table<T> {
  readonly #columns: readonly Column<T>[];
  /** Of everything that was added. */
  readonly #widths: number[];
  /** Those that are not in any text yet. */
  #rows: Row[] = [];
  #isEmpty = true;
  #isBegun = false;
  readonly #terminal: boolean;
  readonly #order: Order<T> | null;
  readonly #headers: boolean;
  readonly #isCsv: boolean;
  readonly #known: ReadonlySet<string> | null;
  readonly #fitTo: number | null;
  readonly #lines = new Set<string>();

  constructor(columns: readonly Column<T>[], options: TableOptions<T> = {}, terminal = isTerminal()) {
    const { order = null, headers = true, isCsv = false, known = null, fitTo = null } = options;
    this.#columns = columns;
    this.#widths = columns.map(({ header }) => (headers ? header.length : 0));
    this.#terminal = terminal && !isCsv;
    this.#order = order;
    this.#headers = headers;
    this.#isCsv = isCsv;
    this.#known = known;
    this.#fitTo = this.#terminal ? fitTo : null;
  }

  /** All that were added, also those that are left out, without their ages. */
  get lines(): ReadonlySet<string> {
    return this.#lines;
  }

  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  add(item: T): void {
    const cells = this.#columns.map((column) => {
      const text = printable((this.#isCsv ? (column.exact ?? column.cell) : column.cell)(item));
      if (this.#isCsv) return quoted(text);
      return this.#terminal ? cut(text || NOTHING, CELL_CHARS_MAX) : text || NOTHING;
    });
    const line = cells.filter((_, at) => !AGES.includes(this.#columns[at]?.header ?? "")).join(SEPARATOR);
    this.#lines.add(line);
    if (this.#known?.has(line)) return;
    this.#isEmpty = false;
    for (const [at, { length }] of cells.entries())
      this.#widths[at] = Math.max(this.#widths[at] as number, Math.min(length, CELL_CHARS_MAX));
    const colours = this.#terminal ? this.#columns.map(({ colour }) => colour?.(item) ?? null) : null;
    const by = this.#order?.column;
    const key = by === undefined ? "" : (by.order ?? by.cell)(item);
    this.#rows.push({ cells: cells.join(SEPARATOR), colours, key });
  }

  /**
   * The lines that were added since it was called before, in pieces of some lines, under the column names if it is the
   * first time. Columns are as wide as what was added until now needs: they may become wider, and never narrower.
   */
  *text(): Generator<string> {
    const widths = this.#fitTo === null ? this.#widths : this.#fitted(this.#fitTo);
    const headers = this.#columns.map(({ header }) => header);
    if (this.#headers && !this.#isBegun) yield this.#line(headers, null, widths);
    this.#isBegun = true;
    if (this.#order !== null) {
      const sign = this.#order.isBackwards ? -1 : 1;
      // `pod-9` before `pod-10`, and 10.0.0.9 before 10.0.0.10.
      const { compare } = new Intl.Collator("en", { numeric: true });
      this.#rows.sort((a, b) => sign * compare(a.key, b.key));
    }
    const rows = this.#rows;
    this.#rows = [];
    for (let from = 0; from < rows.length; from += PIECE_LINES) {
      yield rows
        .slice(from, from + PIECE_LINES)
        .map(({ cells, colours }) => this.#line(cells.split(SEPARATOR), colours, widths))
        .join("");
    }
  }

  /** The widest columns cut, one character after another, until a line fits or none can be cut any more. */
  #fitted(columns: number): number[] {
    const widths = [...this.#widths];
    const least = this.#columns.map(({ header, isWhole }, at) =>
      isWhole === true ? (widths[at] as number) : Math.max(header.length, CUT_CHARS_MIN),
    );
    let excess = widths.reduce((sum, width) => sum + width, 0) + GAP.length * (widths.length - 1) - columns;
    for (; excess > 0; excess -= 1) {
      let widest: number | null = null;
      for (const [at, width] of widths.entries())
        if (width > (least[at] as number) && width > (widest === null ? 0 : (widths[widest] as number))) widest = at;
      if (widest === null) break;
      widths[widest] = (widths[widest] as number) - 1;
    }
    return widths;
  }

  #line(cells: readonly string[], colours: readonly (Colour | null)[] | null, widths: readonly number[]): string {
    if (this.#isCsv) return `${cells.join(",")}\r\n`;
    const last = cells.length - 1;
    const padded = cells.map((whole, at) => {
      const text = this.#fitTo === null ? whole : cut(whole, Math.max(widths[at] as number, 1));
      const shown = colours === null ? text : paint(text, colours[at] ?? null, process.stdout);
      return at === last ? shown : shown + " ".repeat(Math.max(0, (widths[at] as number) - text.length)) + GAP;
    });
    return `${padded.join("")}\n`;
  }
}

interface Row {
  readonly cells: string;
  readonly colours: readonly (Colour | null)[] | null;
  /** Of the column that lines are sorted by. */
  readonly key: string;
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function cut(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  // Not within a character of two units.
  return text.slice(0, charsMax - CUT.length).replace(/[\ud800-\udbff]$/, "") + CUT;
}
