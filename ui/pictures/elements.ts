import { barLabel, barSegments, type StateCounts } from "./bar.ts";
import { AddressMapElement } from "./map-element.ts";
import { patternDefinitions, styledRoot, svg } from "./shadow.ts";
import { cssColour, STATE_SWATCHES } from "./states.ts";
import { periodTitle, type TimeBar, type TimeLine, type TimePeriod, type TimeWindow, timeLine } from "./time-line.ts";

declare global {
  interface HTMLElementTagNameMap {
    "address-bar": AddressBarElement;
    "address-map": AddressMapElement;
    "time-line": TimeLineElement;
  }
}

/** Registers the elements; may be called again. */
export function defineElements(): void {
  if (customElements.get("address-bar") !== undefined) return;
  customElements.define("address-bar", AddressBarElement);
  customElements.define("address-map", AddressMapElement);
  customElements.define("time-line", TimeLineElement);
}

const BAR_CSS = ":host{height:12px;border-radius:2px;overflow:hidden}svg{display:block;width:100%;height:100%}";

/** `<address-bar>`: how the addresses of a network are divided between the states. */
class AddressBarElement extends HTMLElement {
  readonly #root = styledRoot(this, BAR_CSS);
  readonly #sizes = new ResizeObserver(() => this.#draw());
  #counts: StateCounts | null = null;
  #widthPx = 0;

  connectedCallback(): void {
    this.role = "img";
    this.#sizes.observe(this);
  }

  disconnectedCallback(): void {
    this.#sizes.disconnect();
    this.#widthPx = 0;
  }

  get counts(): StateCounts | null {
    return this.#counts;
  }

  set counts(counts: StateCounts | null) {
    this.#counts = counts;
    this.ariaLabel = counts === null ? "" : barLabel(counts);
    // Before its first size is known there is nothing to draw on.
    if (this.#widthPx > 0) this.#draw();
  }

  #draw(): void {
    this.#widthPx = Math.floor(this.clientWidth);
    this.#root.replaceChildren();
    if (this.#counts === null || this.#widthPx === 0) return;
    const segments = barSegments(this.#counts, this.#widthPx);
    const rectangles = segments.map(({ state, count, x, width }) => {
      const { label, pattern } = STATE_SWATCHES[state];
      const box = { x, width, height: "100%" };
      return svg(
        "g",
        {},
        svg("title", {}, `${count.toLocaleString("en")} ${label}`),
        svg("rect", { ...box, fill: cssColour(STATE_SWATCHES[state]) }),
        svg("rect", { ...box, fill: `url(#${pattern})` }),
      );
    });
    const patterns = segments.map(({ state }) => STATE_SWATCHES[state].pattern);
    this.#root.append(svg("svg", {}, patternDefinitions(patterns), ...rectangles));
  }
}

const TIME_LINE_CSS = `svg{display:block;width:100%;font:12px/1 inherit;font-size:12px;fill:currentColor}
line{stroke:currentColor;opacity:.2}
text{paint-order:stroke;stroke:var(--ground,#fff);stroke-width:4px}
[tabindex]:focus{outline:2px solid currentColor;outline-offset:2px}`;

/** A lane: its name in a row of text, the bar, and space below. */
const NAME_PX = 16;
const BAR_PX = 14;
const LANE_PX = NAME_PX + BAR_PX + 10;
const AXIS_PX = 20;
/** How far the end of a bar that goes on points. */
const POINT_PX = 6;
/** A tick's label closer to an end than this is aligned to the end. */
const LABEL_HALF_PX = 36;

/** `<time-line>`: who had an address when; each bar can be focused. */
class TimeLineElement extends HTMLElement {
  readonly #root = styledRoot(this, TIME_LINE_CSS);
  readonly #sizes = new ResizeObserver(() => this.#draw());
  #periods: readonly TimePeriod[] = [];
  #window: TimeWindow | null = null;
  #utcOffsetMs = 0;
  #widthPx = 0;

  connectedCallback(): void {
    this.role = "group";
    this.ariaLabel ??= "time line";
    this.#sizes.observe(this);
  }

  disconnectedCallback(): void {
    this.#sizes.disconnect();
    this.#widthPx = 0;
  }

  get periods(): readonly TimePeriod[] {
    return this.#periods;
  }

  set periods(periods: readonly TimePeriod[]) {
    this.#periods = periods;
    this.#redraw();
  }

  get window(): TimeWindow | null {
    return this.#window;
  }

  set window(window: TimeWindow | null) {
    this.#window = window;
    this.#redraw();
  }

  get utcOffsetMs(): number {
    return this.#utcOffsetMs;
  }

  /** How far the shown time is ahead of UTC. */
  set utcOffsetMs(ms: number) {
    this.#utcOffsetMs = ms;
    this.#redraw();
  }

  #redraw(): void {
    // Before its first size is known there is nothing to draw on.
    if (this.#widthPx > 0) this.#draw();
  }

  #draw(): void {
    this.#widthPx = this.clientWidth;
    const focused = this.#root.activeElement?.getAttribute("data-index");
    this.#root.replaceChildren();
    if (this.#window === null || this.#widthPx === 0) return;
    const line = timeLine({
      periods: this.#periods,
      window: this.#window,
      widthPx: this.#widthPx,
      utcOffsetMs: this.#utcOffsetMs,
    });
    const lanesPx = line.lanes.length * LANE_PX;
    const patterns = this.#periods.map(({ state = "in-use" }) => STATE_SWATCHES[state].pattern);
    const picture = svg(
      "svg",
      { height: lanesPx + AXIS_PX },
      patternDefinitions(patterns),
      ...this.#axis(line, lanesPx),
      ...line.lanes.map((name, lane) => svg("text", { x: 0, y: lane * LANE_PX + NAME_PX - 4 }, name)),
      ...line.bars.map((bar) => this.#bar(bar)),
    );
    this.#root.append(picture);
    if (focused != null) picture.querySelector<SVGElement>(`[data-index="${focused}"]`)?.focus();
  }

  #axis({ ticks }: TimeLine, lanesPx: number): SVGElement[] {
    return ticks.flatMap(({ x, label }) => {
      const atStart = x < LABEL_HALF_PX;
      const atEnd = x > this.#widthPx - LABEL_HALF_PX;
      const anchor = atStart ? "start" : atEnd ? "end" : "middle";
      return [
        svg("line", { x1: x, x2: x, y1: 0, y2: lanesPx + 4 }),
        svg("text", { x, y: lanesPx + AXIS_PX - 4, "text-anchor": anchor }, label),
      ];
    });
  }

  #bar(bar: TimeBar): SVGElement {
    const period = this.#periods[bar.index] as TimePeriod;
    const state = STATE_SWATCHES[period.state ?? "in-use"];
    const title = periodTitle(period, this.#utcOffsetMs);
    const d = barOutline(bar, bar.lane * LANE_PX + NAME_PX);
    return svg(
      "g",
      { tabindex: 0, role: "img", "aria-label": title, "data-index": bar.index },
      svg("title", {}, title),
      svg("path", { d, fill: cssColour(state) }),
      svg("path", { d, fill: `url(#${state.pattern})` }),
    );
  }
}

/** A rectangle; where the bar goes on it ends in a point, and where it began before it begins with a notch. */
function barOutline({ x, width, startsBefore, endsAfter }: TimeBar, y: number): string {
  const point = Math.min(POINT_PX, width / 2);
  const right = endsAfter
    ? `H${x + width - point}l${point} ${BAR_PX / 2}l${-point} ${BAR_PX / 2}`
    : `H${x + width}v${BAR_PX}`;
  const left = startsBefore ? `l${point} ${-BAR_PX / 2}` : "";
  return `M${x} ${y}${right}H${x}${left}Z`;
}
