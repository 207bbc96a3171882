import type { Pattern } from "./states.ts";

/** Side of the square that a pattern repeats. */
export const PATTERN_PX = 6;
/** Darkens what is below it, by as much as can be seen on each of the colours. */
export const PATTERN_INK = "#0009";

/** Strokes within a square of PATTERN_PX, for SVG and canvas alike. */
export const PATTERN_STROKES: Readonly<Record<Pattern, string>> = {
  solid: "",
  diagonal: "M-1 1L1-1M0 6L6 0M5 7L7 5",
  "back-diagonal": "M-1 5L1 7M0 0L6 6M5-1L7 1",
  cross: "M0 0L6 6M0 6L6 0",
  dots: "M1 1h2v1h-2M4 4h2v1h-2",
  rows: "M0 1.5h6M0 4.5h6",
};

const BASE_CSS = ":host{display:block}:host([hidden]){display:none}";

/** A shadow root with a style sheet that `style-src 'self'` permits: built by the script, without a <style>. */
export function styledRoot(host: HTMLElement, css: string): ShadowRoot {
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(BASE_CSS + css);
  root.adoptedStyleSheets = [sheet];
  return root;
}

export function boxOf(className: string, ...content: Node[]): HTMLElement {
  const box = document.createElement("div");
  box.className = className;
  box.append(...content);
  return box;
}

/** An SVG element; text is set as text. */
export function svg(
  name: string,
  attributes: Readonly<Record<string, string | number>>,
  ...content: (Node | string)[]
): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...content);
  return element;
}

/** What `fill="url(#…)"` in the same shadow root refers to; its id is the pattern's name. */
export function patternDefinitions(patterns: Iterable<Pattern>): SVGElement {
  const definitions = [...new Set(patterns)].map((id) =>
    svg(
      "pattern",
      { id, width: PATTERN_PX, height: PATTERN_PX, patternUnits: "userSpaceOnUse" },
      svg("path", { d: PATTERN_STROKES[id], stroke: PATTERN_INK, fill: "none" }),
    ),
  );
  return svg("defs", {}, ...definitions);
}
