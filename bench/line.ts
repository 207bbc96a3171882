/** One measured value, as a row of the table in README.md. */
export interface Line {
  readonly what: string;
  /** As text; "" for a value that is only told. */
  readonly bound: string;
  readonly measured: string;
  /** What it is compared with, and how often it was repeated. */
  readonly against: string;
  /** Null where there is no bound. */
  readonly reached: boolean | null;
}

/** A measurement of its own file. It cleans up after itself, also when it throws. */
export type Measurement = () => Promise<readonly Line[]>;

/** A value that must not exceed its bound. */
export function atMost(
  value: number,
  bound: number,
  unit: string,
  rest: Pick<Line, "what" | "against"> & { readonly beside?: string },
): Line {
  return bounded(value <= bound, `≤ ${number(bound)} ${unit}`, value, unit, rest);
}

/** A value that must not fall below its bound. */
export function atLeast(
  value: number,
  bound: number,
  unit: string,
  rest: Pick<Line, "what" | "against"> & { readonly beside?: string },
): Line {
  return bounded(value >= bound, `≥ ${number(bound)} ${unit}`, value, unit, rest);
}

/** A value without a bound, for the reader. */
export function told(measured: string, rest: Pick<Line, "what" | "against">): Line {
  return { ...rest, bound: "", measured, reached: null };
}

function bounded(
  reached: boolean,
  bound: string,
  value: number,
  unit: string,
  { what, against, beside }: Pick<Line, "what" | "against"> & { readonly beside?: string },
): Line {
  const measured = `${number(value)} ${unit}${beside === undefined ? "" : ` (${beside})`}`;
  return { what, against, bound, measured, reached };
}

/** Three significant digits, thousands separated. */
export function number(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 100 || size === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}
