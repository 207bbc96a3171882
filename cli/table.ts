import { type Colour, paint, printable } from "./terminal.ts";

/** Between columns, as kubectl has it. */
const GAP = "   ";
/** An empty value: a column that is never empty can be cut with awk. */
const NOTHING = "-";

export interface Column<T> {
  readonly header: string;
  cell(item: T): string;
  /** Only in `-o table`, or only in `-o wide`; default: in both. */
  readonly only?: "table" | "wide";
  readonly colour?: (item: T) => Colour | null;
}

/**
 * Borderless columns under upper-case headers. Our own few lines, because the `table` package adds 30 ms to every query
 * (half of node's own start) and 12 s to one of 100,000 lines.
 * See docs/decisions/0011.
 */
export function formatTable<T>(items: readonly T[], columns: readonly Column<T>[]): string {
  const rows = items.map((item) => columns.map((column) => printable(column.cell(item)) || NOTHING));
  const widths = columns.map((column, at) =>
    rows.reduce((widest, row) => Math.max(widest, (row[at] as string).length), column.header.length),
  );
  const pad = (text: string, at: number) =>
    at === columns.length - 1 ? "" : " ".repeat((widths[at] as number) - text.length) + GAP;
  const lines = [columns.map(({ header }, at) => header + pad(header, at)).join("")];
  for (const [index, row] of rows.entries()) {
    const item = items[index] as T;
    lines.push(
      row
        .map((text, at) => paint(text, columns[at]?.colour?.(item) ?? null, process.stdout) + pad(text, at))
        .join(""),
    );
  }
  return `${lines.join("\n")}\n`;
}
