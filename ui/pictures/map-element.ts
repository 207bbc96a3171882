import type { MapCells } from "./address-map.ts";
import { drawMap } from "./map-canvas.ts";
import { cellAt, cellBox, type MapLayout, mapLayout, moveCursor } from "./map-layout.ts";
import { boxOf, styledRoot } from "./shadow.ts";
import { ADDRESS_STATES, cssColour, STATE_SWATCHES } from "./states.ts";
import { HEAT_SWATCHES } from "./tiles.ts";

const CSS = `:host{outline-offset:4px}
.map{display:flex;gap:8px}
.rows{position:relative;flex:none;font-size:11px;text-align:right;opacity:.75}
.rows div{position:absolute;right:0;line-height:1;white-space:nowrap;transform:translateY(-50%)}
.rows span{visibility:hidden}
.cells{position:relative}canvas{display:block}
.cursor,.flash{position:absolute;box-sizing:border-box;pointer-events:none}
.cursor{outline:2px solid currentColor;box-shadow:0 0 0 4px var(--ground,#fff)}
.flash{background:var(--flash,#F0E442)}
.label{margin-bottom:4px;min-height:1.5em}`;

/** Long enough to be noticed from the corner of the eye. */
const FLASH_MS = 1_200;
/** When more change at once, the whole map is what changed. */
const FLASHES_MAX = 256;
/** As the style has it. */
const NAMES_GAP_PX = 8;
/** Names of rows closer than this cannot be read. */
const ROW_NAME_PX = 14;
const INSTRUCTIONS = "arrow keys move, Enter opens";

/**
 * `<address-map>`. `open`: index of the cell clicked or entered; `point`: of that below pointer or cursor, -1: none.
 */
export class AddressMapElement extends HTMLElement {
  readonly #canvas = document.createElement("canvas");
  readonly #cursorBox = boxOf("cursor");
  readonly #frame = boxOf("cells", this.#canvas, this.#cursorBox);
  readonly #rows = boxOf("rows");
  readonly #label = boxOf("label");
  readonly #sizes = new ResizeObserver(() => this.#schedule());
  readonly #themes = new MutationObserver(() => this.#schedule());
  #disconnected = new AbortController();
  #cells: MapCells | null = null;
  #layout: MapLayout | null = null;
  #labelOf: (index: number) => string = String;
  #rowLabelOf: ((index: number) => string) | null = null;
  #changed: ReadonlySet<number> = new Set();
  #pending: number[] = [];
  #cursor = -1;
  /** Where the cursor was last: the keyboard goes on from there. */
  #place = 0;
  #touched = -1;
  #frameRequest = 0;

  constructor() {
    super();
    styledRoot(this, CSS).append(this.#label, boxOf("map", this.#rows, this.#frame));
    this.#label.ariaLive = "polite";
    this.#label.setAttribute("part", "label");
    this.#cursorBox.hidden = true;
  }

  connectedCallback(): void {
    this.tabIndex = 0;
    this.role = "application";
    this.ariaLabel ??= `address map: ${INSTRUCTIONS}`;
    this.#disconnected = new AbortController();
    const { signal } = this.#disconnected;
    this.addEventListener("keydown", (event) => this.#press(event), { signal });
    this.addEventListener("focus", () => this.#point(this.#place), { signal });
    this.addEventListener("blur", () => this.#point(-1), { signal });
    this.#canvas.addEventListener("pointermove", (event) => this.#point(this.#indexAt(event)), { signal });
    this.#canvas.addEventListener("pointerleave", () => this.#leave(), { signal });
    this.#canvas.addEventListener("click", (event) => this.#click(event), { signal });
    this.#sizes.observe(this);
    this.#themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#schedule(), { signal });
  }

  disconnectedCallback(): void {
    this.#disconnected.abort();
    this.#sizes.disconnect();
    this.#themes.disconnect();
    cancelAnimationFrame(this.#frameRequest);
    this.#frameRequest = 0;
  }

  get cells(): MapCells | null {
    return this.#cells;
  }

  set cells(cells: MapCells | null) {
    const last = (cells?.values.length ?? 0) - 1;
    this.#cursor = Math.min(this.#cursor, last);
    this.#place = Math.max(0, Math.min(this.#place, last));
    this.#cells = cells;
    this.#schedule();
  }

  get labelOf(): (index: number) => string {
    return this.#labelOf;
  }

  set labelOf(labelOf: (index: number) => string) {
    this.#labelOf = labelOf;
    this.#schedule();
  }

  get rowLabelOf(): ((index: number) => string) | null {
    return this.#rowLabelOf;
  }

  /** The name of the row that begins with a cell; null: rows have none. */
  set rowLabelOf(rowLabelOf: ((index: number) => string) | null) {
    this.#rowLabelOf = rowLabelOf;
    this.#schedule();
  }

  get changed(): ReadonlySet<number> {
    return this.#changed;
  }

  /** Each set that is assigned flashes its cells once. */
  set changed(changed: ReadonlySet<number>) {
    this.#changed = changed;
    this.#pending.push(...changed);
    this.#schedule();
  }

  /** Properties that are set together are drawn together. */
  #schedule(): void {
    if (!this.isConnected || this.#frameRequest !== 0) return;
    this.#frameRequest = requestAnimationFrame(() => {
      this.#frameRequest = 0;
      this.#draw();
    });
  }

  #draw(): void {
    const cells = this.#cells;
    const widthPx = this.clientWidth;
    this.#frame.hidden = cells === null || widthPx === 0;
    if (cells === null || widthPx === 0) return;
    const { columns, kind, values } = cells;
    const namesPx = this.#roomForNames(values.length, columns);
    const layout = mapLayout({
      count: values.length,
      columns,
      widthPx: Math.max(1, widthPx - namesPx),
      ratio: devicePixelRatio,
    });
    this.#layout = layout;
    drawMap(this.#canvas, layout, cells, {
      swatches: kind === "tile" ? HEAT_SWATCHES : ADDRESS_STATES.map((state) => STATE_SWATCHES[state]),
      colourOf: (swatch) => {
        // A canvas does not know which scheme the page has; an element does.
        this.#canvas.style.color = cssColour(swatch);
        return getComputedStyle(this.#canvas).color;
      },
    });
    this.#nameRows(layout);
    this.#showCursor();
    this.#flash(layout, this.#pending.splice(0));
  }

  /** How wide the names of rows are, with the space beside them. The last one is the longest. */
  #roomForNames(count: number, columns: number): number {
    const room = document.createElement("span");
    room.textContent = this.#rowLabelOf?.(count - 1 - ((count - 1) % columns)) ?? "";
    this.#rows.replaceChildren(room);
    return this.#rows.offsetWidth + NAMES_GAP_PX;
  }

  /** As many as can be read. */
  #nameRows({ rows, columns, pitch, ratio }: MapLayout): void {
    // Every second, fourth, eighth: names that people can count on with.
    const step = 2 ** Math.max(0, Math.ceil(Math.log2((ROW_NAME_PX * ratio) / pitch)));
    for (let row = 0; row < rows; row += step) {
      const name = document.createElement("div");
      name.textContent = this.#rowLabelOf?.(row * columns) ?? "";
      name.style.top = `${((row + 0.5) * pitch) / ratio}px`;
      this.#rows.append(name);
    }
  }

  #flash(layout: MapLayout, changed: readonly number[]): void {
    if (changed.length > FLASHES_MAX || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const index of changed) {
      const box = boxOf("flash");
      place(box, layout, index);
      this.#frame.append(box);
      box.animate({ opacity: [1, 0] }, FLASH_MS).onfinish = () => box.remove();
    }
  }

  #press(event: KeyboardEvent): void {
    if (this.#layout === null || event.altKey || event.metaKey) return;
    const { key, ctrlKey } = event;
    if (key === "Enter") this.#open();
    const index = moveCursor(key, ctrlKey, this.#place, this.#layout);
    if (index === null) return;
    // The page would scroll.
    event.preventDefault();
    this.#point(index);
  }

  /** A finger cannot point before it clicks: its first touch of a cell shows what it is, the next one opens it. */
  #click(event: MouseEvent): void {
    const index = this.#indexAt(event);
    const isNew = index !== this.#place || this.#touched !== index;
    this.#point(index);
    const isTouch = (event as PointerEvent).pointerType === "touch";
    this.#touched = index;
    if (!isTouch || !isNew) this.#open();
  }

  #leave(): void {
    if (!this.matches(":focus")) this.#point(-1);
  }

  #indexAt(event: MouseEvent): number {
    return this.#layout === null ? -1 : cellAt(this.#layout, event.offsetX, event.offsetY);
  }

  #open(): void {
    if (this.#cursor >= 0) this.#dispatch("open", this.#cursor);
  }

  #point(index: number): void {
    if (index === this.#cursor || index >= (this.#layout?.count ?? 0)) return;
    this.#cursor = index;
    if (index >= 0) this.#place = index;
    this.#showCursor();
    this.#dispatch("point", index);
  }

  #showCursor(): void {
    const index = this.#cursor;
    this.#cursorBox.hidden = index < 0 || this.#layout === null;
    if (index >= 0 && this.#layout !== null) place(this.#cursorBox, this.#layout, index);
    const label = index < 0 ? "" : this.#labelOf(index);
    // Assigning the same text would be announced again.
    if (this.#label.textContent !== label) this.#label.textContent = label;
  }

  #dispatch(type: "open" | "point", detail: number): void {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

function place(box: HTMLElement, layout: MapLayout, index: number): void {
  const { x, y, size } = cellBox(layout, index);
  Object.assign(box.style, { left: `${x}px`, top: `${y}px`, width: `${size}px`, height: `${size}px` });
}
