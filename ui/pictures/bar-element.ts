import { barLabel, barSegments, type StateCounts } from "./bar.ts";
import { patternDefinitions, styledRoot, svg } from "./shadow.ts";
import { cssColour, STATE_SWATCHES } from "./states.ts";

const CSS = ":host{height:12px;border-radius:2px;overflow:hidden}svg{display:block;width:100%;height:100%}";

/** `<address-bar>`: how the addresses of a network are divided between the states. */
export class AddressBarElement extends HTMLElement {
  readonly #root = styledRoot(this, CSS);
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
