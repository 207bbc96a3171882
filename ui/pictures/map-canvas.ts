import type { MapCells } from "./address-map.ts";
import type { MapLayout } from "./map-layout.ts";
import { PATTERN_INK, PATTERN_PX, PATTERN_STROKES } from "./shadow.ts";
import type { Pattern, Swatch } from "./states.ts";

/** How each value of a cell looks; `colourOf`: its colour in the scheme that the page has now. */
export interface MapPaint {
  readonly swatches: readonly Swatch[];
  readonly colourOf: (swatch: Swatch) => string;
}

/** Smaller letters cannot be read; smaller cells show the pattern instead. */
const LETTER_CELL_MIN_PX = 12;
const PATTERN_CELL_MIN_PX = 8;
/** Three digits have room from here on. */
const NUMBER_CELL_MIN_PX = 22;

/** One state after the other, 65,536 cells in a few ms: a canvas is slow to change its colour, and quick to fill. */
export function drawMap(canvas: HTMLCanvasElement, layout: MapLayout, cells: MapCells, paint: MapPaint): void {
  const { columns, rows, pitch, gap, ratio } = layout;
  // Setting the size clears the canvas.
  canvas.width = columns * pitch - gap;
  canvas.height = Math.max(0, rows * pitch - gap);
  canvas.style.width = `${canvas.width / ratio}px`;
  canvas.style.height = `${canvas.height / ratio}px`;
  const context = canvas.getContext("2d");
  if (context === null) return;
  const cellPx = pitch / ratio;
  paint.swatches.forEach((swatch, value) => {
    context.fillStyle = paint.colourOf(swatch);
    const ink = inkOn(String(context.fillStyle));
    fillCells(context, layout, cells.values, value);
    const numbers = cellPx >= NUMBER_CELL_MIN_PX ? cells.numbers : undefined;
    if (cellPx >= LETTER_CELL_MIN_PX && (swatch.letter !== "" || numbers !== undefined)) {
      context.fillStyle = ink;
      writeLetters(context, layout, cells.values, value, numbers ?? swatch.letter);
    } else if (cellPx >= PATTERN_CELL_MIN_PX && swatch.pattern !== "solid") {
      context.fillStyle = canvasPattern(context, swatch.pattern, ratio);
      fillCells(context, layout, cells.values, value);
    }
  });
  if (gap === 0) return;
  for (let column = 1; column < columns; column++) context.clearRect(column * pitch - gap, 0, gap, canvas.height);
}

/** Neighbours of one value in a row are one rectangle; the gaps between them are cleared at the end. */
function fillCells(
  context: CanvasRenderingContext2D,
  { columns, pitch, gap }: MapLayout,
  values: Uint8Array,
  value: number,
): void {
  for (let index = 0; index < values.length; ) {
    if (values[index] !== value) {
      index += 1;
      continue;
    }
    const column = index % columns;
    const y = ((index - column) / columns) * pitch;
    let length = 1;
    while (column + length < columns && values[index + length] === value) length += 1;
    context.fillRect(column * pitch, y, length * pitch - gap, pitch - gap);
    index += length;
  }
}

function writeLetters(
  context: CanvasRenderingContext2D,
  { columns, pitch, gap }: MapLayout,
  values: Uint8Array,
  value: number,
  text: string | Uint16Array,
): void {
  context.font = `${Math.round(pitch * (typeof text === "string" ? 0.5 : 0.4))}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const middle = (pitch - gap) / 2;
  values.forEach((one, index) => {
    if (one !== value) return;
    const row = Math.floor(index / columns);
    const letter = typeof text === "string" ? text : String(text[index] || "");
    // Capitals have nothing below the line: a little lower they are in the middle.
    context.fillText(letter, (index % columns) * pitch + middle, row * pitch + middle * 1.08);
  });
}

function canvasPattern(context: CanvasRenderingContext2D, pattern: Pattern, ratio: number): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(PATTERN_PX * ratio);
  const pen = tile.getContext("2d");
  if (pen === null) return PATTERN_INK;
  pen.scale(tile.width / PATTERN_PX, tile.width / PATTERN_PX);
  pen.strokeStyle = PATTERN_INK;
  pen.stroke(new Path2D(PATTERN_STROKES[pattern]));
  return context.createPattern(tile, "repeat") ?? PATTERN_INK;
}

/** Black or white, whichever has more contrast. A canvas names each opaque colour as #rrggbb. */
function inkOn(colour: string): string {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
  // WCAG's relative luminance, with the square instead of its power of 2.4; at 0.18 both contrasts are equal.
  return 0.2126 * red ** 2 + 0.7152 * green ** 2 + 0.0722 * blue ** 2 > 0.2 ? "#000" : "#fff";
}
