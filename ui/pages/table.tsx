import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { CopyButton } from "./parts.tsx";
import { useSignal } from "./signal.ts";

export interface Column<Row> {
  readonly head: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** For CSV; also what the column sorts by, unless `order` says otherwise. */
  readonly text: (row: Row) => string;
  readonly order?: (row: Row) => number | bigint;
  readonly isNumber?: boolean;
}

interface TableProps<Row> {
  /** What it is a list of, for people who do not see it. */
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** When the row changed, ms of performance.now(); 0: not lately. */
  readonly changedMs?: (row: Row) => number;
  /** What to do where there is no row. */
  readonly empty: ComponentChildren;
}

/** As the style sheet has it. */
const ROW_PX = 32;
/** Longer lists show what is in sight, and so many rows above and below. */
const WHOLE_ROWS_MAX = 120;
const MARGIN_ROWS = 20;
/** Rows that the widths of columns are guessed from: those in sight would change them at each scroll. */
const SAMPLE_ROWS = 200;
const WIDTH_MIN_CHARS = 8;
const WIDTH_MAX_CHARS = 36;
/** More rows are sorted by plain text: numbers within names take too long to compare. */
const COLLATED_ROWS_MAX = 5_000;
/** Where the reader was in a list, for when he comes back to it. */
const PLACES = new Map<string, { readonly sorting: Sorting; readonly scrolled: number }>();
/** How long a change is news, ms. */
const NEWS_MS = 2_000;

/** A list that sorts by its heads and can be copied as CSV. 100,000 rows are as quick as 100. */
export function Table<Row>({ caption, columns, rows, keyOf, changedMs, empty }: TableProps<Row>) {
  const key = `${location.pathname}${location.search} ${caption}`;
  const kept = PLACES.get(key);
  const sorting = useSignal<Sorting>(kept?.sorting ?? null);
  const scrolled = useSignal(kept?.scrolled ?? 0);
  const height = useSignal(600);
  const box = useRef<HTMLElement>(null);
  const order = sorting.value;
  const sorted = useMemo(() => sortRows(rows, columns, order), [rows, columns, order]);
  const isLong = sorted.length > WHOLE_ROWS_MAX;
  useLayoutEffect(() => {
    if (box.current === null) return;
    height.value = box.current.clientHeight;
    box.current.scrollTop = scrolled.value;
  }, [isLong]);
  useEffect(() => void PLACES.set(key, { sorting: sorting.value, scrolled: scrolled.value }));
  const widths = useMemo(() => (isLong ? widthsOf(columns, rows) : null), [isLong, columns, rows.length]);
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  const first = isLong ? Math.max(0, Math.floor(scrolled.value / ROW_PX) - MARGIN_ROWS) : 0;
  const count = isLong ? Math.ceil(height.value / ROW_PX) + 2 * MARGIN_ROWS : sorted.length;
  const shown = sorted.slice(first, first + count);
  const nowMs = performance.now();
  return (
    <div class="table">
      <div class="table-tools">
        <span>
          {rows.length.toLocaleString("en")} {rows.length === 1 ? "row" : "rows"}
        </span>
        <CopyButton text={() => csvOf(columns, sorted)} label="Copy as CSV" />
      </div>
      <section
        ref={box}
        class={isLong ? "scroll long" : "scroll"}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard
        tabIndex={0}
        aria-label={caption}
        onScroll={(event) => {
          scrolled.value = event.currentTarget.scrollTop;
        }}
      >
        <table aria-rowcount={sorted.length + 1} class={widths === null ? undefined : "fixed"}>
          <caption>{caption}</caption>
          {widths !== null && (
            <colgroup>
              {widths.map((width, index) => (
                <col key={columns[index]?.head} style={{ width }} />
              ))}
            </colgroup>
          )}
          <thead>
            <tr>
              {columns.map((column, index) => (
                <th
                  key={column.head}
                  scope="col"
                  class={column.isNumber ? "number" : undefined}
                  aria-sort={ariaSort(sorting.value, index)}
                >
                  <button type="button" onClick={() => (sorting.value = nextSorting(sorting.value, index))}>
                    {column.head}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {first > 0 && <Spacer rows={first} columns={columns.length} />}
            {shown.map((row, index) => {
              const ago = changedMs === undefined ? 0 : changedMs(row);
              const isNews = ago > 0 && nowMs - ago < NEWS_MS;
              return (
                <tr key={keyOf(row)} aria-rowindex={first + index + 2} class={isNews ? "news" : undefined}>
                  {columns.map((column) => (
                    <td key={column.head} class={column.isNumber ? "number" : undefined}>
                      <div class="cell" title={column.text(row)}>
                        {column.cell(row)}
                      </div>
                    </td>
                  ))}
                </tr>
              );
            })}
            {first + shown.length < sorted.length && (
              <Spacer rows={sorted.length - first - shown.length} columns={columns.length} />
            )}
          </tbody>
        </table>
      </section>
    </div>
  );
}

function Spacer({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr class="spacer" style={{ height: `${rows * ROW_PX}px` }}>
      <td colSpan={columns} />
    </tr>
  );
}

type Sorting = { readonly column: number; readonly isDown: boolean } | null;

function nextSorting(sorting: Sorting, column: number): { column: number; isDown: boolean } {
  return { column, isDown: sorting?.column === column && !sorting.isDown };
}

function ariaSort(sorting: Sorting, column: number) {
  if (sorting?.column !== column) return undefined;
  return sorting.isDown ? "descending" : "ascending";
}

function sortRows<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sorting: Sorting): readonly Row[] {
  const column = sorting === null ? undefined : columns[sorting.column];
  if (column === undefined) return rows;
  const { text, order } = column;
  const keyed = rows.map((row) => ({ row, key: order === undefined ? text(row) : order(row) }));
  const { compare } = new Intl.Collator("en", { numeric: true });
  const isCollated = order === undefined && rows.length <= COLLATED_ROWS_MAX;
  const sign = sorting?.isDown ? -1 : 1;
  keyed.sort(({ key: a }, { key: b }) => {
    // What is empty is last in both directions.
    if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;
    if (isCollated) return sign * compare(a as string, b as string);
    return a < b ? -sign : a > b ? sign : 0;
  });
  return keyed.map(({ row }) => row);
}

function widthsOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string[] {
  const step = Math.max(1, Math.floor(rows.length / SAMPLE_ROWS));
  const sample = rows.filter((_, index) => index % step === 0);
  return columns.map(({ head, text }) => {
    const longest = sample.reduce((chars, row) => Math.max(chars, text(row).length), head.length + 2);
    return `calc(${Math.min(WIDTH_MAX_CHARS, Math.max(WIDTH_MIN_CHARS, longest))}ch + 24px)`;
  });
}

/** RFC 4180; a text that a spreadsheet would run as a formula is not one any more. */
function csvOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const quote = (text: string) => {
    const harmless = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
  };
  const lines = rows.map((row) => columns.map(({ text }) => quote(text(row))).join(","));
  return [columns.map(({ head }) => quote(head)).join(","), ...lines].map((line) => `${line}\r\n`).join("");
}
