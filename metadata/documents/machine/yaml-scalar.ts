export type ScalarStyle = "plain" | "single" | "double" | "literal";

/** What readers of YAML 1.1 take as it stands. They, unlike those of 1.2, break lines at U+2028 and U+2029. */
const UNPRINTABLE = /[^\n\x20-\x7e\u00a0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]/;
const INDICATORS = /^(?:---|\.\.\.|[#,[\]{}&*!|>'"%@`]|[?:-](?: |$))|: |:$| #/;

/** Most of what is written: nothing in it but a word can need quotes. */
const IDENTIFIER = /^[A-Za-z_][\w-]*$/;

/** The style in which Go's libraries write a string. */
export function scalarStyle(text: string): ScalarStyle {
  if (IDENTIFIER.test(text)) return readsAsString(text) ? "plain" : "double";
  if (UNPRINTABLE.test(text)) return "double";
  if (text.includes("\n")) return / \n| $/.test(text) ? "double" : "literal";
  if (!readsAsString(text)) return "double";
  return /^ | $/.test(text) || INDICATORS.test(text) ? "single" : "plain";
}

const SHORT_ESCAPES: ReadonlyMap<string, string> = new Map([
  ["\0", "\\0"],
  ["\x07", "\\a"],
  ["\b", "\\b"],
  ["\t", "\\t"],
  ["\n", "\\n"],
  ["\v", "\\v"],
  ["\f", "\\f"],
  ["\r", "\\r"],
  ["\x1b", "\\e"],
  ['"', '\\"'],
  ["\\", "\\\\"],
  ["\x85", "\\N"],
  ["\u2028", "\\L"],
  ["\u2029", "\\P"],
]);

const ESCAPED = new RegExp(`["\\\\\\n]|${UNPRINTABLE.source}`, "gu");

/** Text as it stands between the quotes of its style, in one line. */
export function insideQuotes(text: string, style: ScalarStyle): string {
  if (style === "double") return text.replaceAll(ESCAPED, escaped);
  return style === "single" ? text.replaceAll(/'/g, "''") : text;
}

function escaped(character: string): string {
  const short = SHORT_ESCAPES.get(character);
  if (short !== undefined) return short;
  const code = (character.codePointAt(0) as number).toString(16).toUpperCase();
  if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
  return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
}

/** Indentation and line breaks at the end, as the header of a literal block says them: `|2-`. */
export function literalHeader(text: string): string {
  const indentation = /^[ \n]/.test(text) ? "2" : "";
  if (!text.endsWith("\n")) return `|${indentation}-`;
  return text === "\n" || text.endsWith("\n\n") ? `|${indentation}+` : `|${indentation}`;
}

/** A number of JSON in its shortest digits: with an exponent below 0.0001, and from a million on if no integer. */
export function numberText(value: number): string {
  if (Number.isInteger(value) && value >= -(2 ** 63) && value < 2 ** 64) return String(value);
  const [digits = "", exponentText = "0"] = value.toExponential().split("e");
  const exponent = Number(exponentText);
  if (exponent >= -4 && exponent < 6) return String(value);
  return `${digits}e${exponent < 0 ? "-" : "+"}${Math.abs(exponent).toString().padStart(2, "0")}`;
}

/** What a reader of YAML 1.1 takes for null, a boolean, a float, a merge or a default value. */
const WORDS: ReadonlySet<string> = new Set([
  "",
  "~",
  "<<",
  "=",
  ...["null", "true", "false", "yes", "no", "on", "off", "y", "n"].flatMap((word) => [
    word,
    `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`,
    word.toUpperCase(),
  ]),
  ...["nan", "NaN", "NAN"].map((word) => `.${word}`),
  ...["", "+", "-"].flatMap((sign) => ["inf", "Inf", "INF"].map((word) => `${sign}.${word}`)),
]);

const NUMBERS: readonly RegExp[] = [
  // Decimal, octal with a leading zero, and floats. Underscores may stand anywhere after the first character.
  /^[-+]?_*(?:\d[\d_]*(?:\.[\d_]*)?|\._*\d[\d_]*)(?:[eE]_*(?:[-+]_*)?\d[\d_]*)?$/,
  /^[-+]?_*0_*[xX][\da-fA-F_]+$/,
  /^[-+]?_*0_*[oO][0-7_]+$/,
  /^[-+]?_*0_*[bB][-+]?[01_]+$/,
  // Base 60: 1:20 is 80, and 12:34:56:18:20:12 no MAC address.
  /^[-+]?\d[\d_]*(?::[0-5]?\d)+(?:\.[\d_]*)?$/,
];

const DATE = /^\d{4}-(\d{1,2})-(\d{1,2})$/;
const TIMES: readonly RegExp[] = [
  /^\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?$/,
  /^\d{4}-\d\d?-\d\d?(?:[Tt ])\d\d?:\d\d?:\d\d?(?:[.,]\d+)?(?:Z|[-+]\d\d:\d\d)?$/,
];

/**
 * Does every reader of YAML 1.1 take this text for a string when it stands there without quotes? Stricter than Go's
 * libraries where PyYAML, the reader in a guest, sees another type: `=`, 2024-99-99, hexadecimal of more than 64 bits.
 */
function readsAsString(text: string): boolean {
  if (WORDS.has(text)) return false;
  if (!/^[-+.\d]/.test(text)) return true;
  return !NUMBERS.some((form) => form.test(text)) && !isDate(text) && !TIMES.some((form) => form.test(text));
}

const DAYS_MAX = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** With two digits each, readers do not look whether there is such a day before they decide on the type. */
function isDate(text: string): boolean {
  const [, month = "", day = ""] = DATE.exec(text) ?? [];
  if (month === "") return false;
  if (month.length === 2 && day.length === 2) return true;
  return Number(day) >= 1 && Number(day) <= (DAYS_MAX[Number(month) - 1] ?? 0);
}
