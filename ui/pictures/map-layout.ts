/** Where the cells of a map are. Device pixels are whole, so that edges are sharp; `ratio` of them make a CSS pixel. */
export interface MapLayout {
  readonly columns: number;
  readonly rows: number;
  readonly count: number;
  readonly ratio: number;
  /** From a cell to the next, and the gap within it: device pixels. */
  readonly pitch: number;
  readonly gap: number;
}

/** Large enough for a letter and a finger; a /24 stays smaller than a screen. */
const CELL_MAX_PX = 28;
/** Smaller cells need all of their pixels. */
const CELL_WITH_GAP_MIN_PX = 4;
/** A quarter of the rows of 1,024 addresses. */
const PAGE_ROWS = 8;

export function mapLayout(map: {
  readonly count: number;
  readonly columns: number;
  readonly widthPx: number;
  readonly ratio: number;
}): MapLayout {
  const { count, columns, widthPx, ratio } = map;
  const widest = Math.floor((widthPx * ratio) / columns);
  const pitch = Math.max(1, Math.min(widest, Math.round(CELL_MAX_PX * ratio)));
  const gap = pitch < CELL_WITH_GAP_MIN_PX * ratio ? 0 : Math.max(1, Math.round(ratio));
  return { columns, rows: Math.ceil(count / columns), count, ratio, pitch, gap };
}

/** The cell at a place in CSS pixels; -1: none. */
export function cellAt({ columns, count, ratio, pitch }: MapLayout, xPx: number, yPx: number): number {
  const column = Math.floor((xPx * ratio) / pitch);
  const index = Math.floor((yPx * ratio) / pitch) * columns + column;
  return column >= 0 && column < columns && index >= 0 && index < count ? index : -1;
}

/** A cell's corner and size in CSS pixels. */
export function cellBox(
  { columns, ratio, pitch, gap }: MapLayout,
  index: number,
): { readonly x: number; readonly y: number; readonly size: number } {
  const row = Math.floor(index / columns);
  const x = ((index % columns) * pitch) / ratio;
  return { x, y: (row * pitch) / ratio, size: (pitch - gap) / ratio };
}

/** Home and End: to the ends of the row, with Control to those of the map. null: the key moves nothing. */
export function moveCursor(
  key: string,
  withControl: boolean,
  index: number,
  { columns, count }: { readonly columns: number; readonly count: number },
): number | null {
  const rowStart = index - (index % columns);
  const lastRowStart = count - 1 - ((count - 1) % columns);
  const moveRows = (rows: number) => {
    const row = Math.max(0, Math.min(rowStart + rows * columns, lastRowStart));
    return Math.min(row + (index % columns), count - 1);
  };
  switch (key) {
    case "ArrowLeft":
      return Math.max(0, index - 1);
    case "ArrowRight":
      return Math.min(index + 1, count - 1);
    case "ArrowUp":
      return moveRows(-1);
    case "ArrowDown":
      return moveRows(1);
    case "PageUp":
      return moveRows(-PAGE_ROWS);
    case "PageDown":
      return moveRows(PAGE_ROWS);
    case "Home":
      return withControl ? 0 : rowStart;
    case "End":
      return withControl ? count - 1 : Math.min(rowStart + columns, count) - 1;
    default:
      return null;
  }
}
