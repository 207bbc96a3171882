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
export function readsAsString(text: string): boolean {
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
