import { Buffer } from "node:buffer";
import { compareKeys } from "./yaml-key-order.ts";
import { insideQuotes, literalHeader, numberText, type ScalarStyle, scalarStyle } from "./yaml-scalar.ts";

/** What JSON can say. */
export type YamlValue = null | boolean | number | string | readonly YamlValue[] | { readonly [key: string]: YamlValue };

const INDENT = 2;
/** At the first space after this column a scalar goes on in the next line. */
const COLUMN_MAX = 80;
/** A longer key, or one of several lines, stands after a question mark. */
const KEY_BYTES_MAX = 128;
/** Of one UTF-16 code unit. */
const UTF8_BYTES_MAX = 3;

/**
 * A mapping as YAML 1.1, in the bytes that Go's libraries (sigs.k8s.io/yaml) write: keys in the order of `compareKeys`,
 * sequences not indented below their key. Where those would be misread by another reader of YAML 1.1 or 1.2, text is in
 * double quotes. Ends with a line break. An unpaired surrogate becomes U+FFFD. Throws TextTooLong where it would have
 * more than `charsMax` UTF-16 code units, before much more than those is written.
 */
export function yamlMapping(mapping: Readonly<Record<string, YamlValue>>, charsMax = Number.POSITIVE_INFINITY): string {
  if (charsIn(mapping) > charsMax) throw new TextTooLong(charsMax);
  const writer = new YamlWriter(charsMax);
  writer.node(mapping, { indent: -1, isMappingValue: false });
  return writer.finish();
}

export class TextTooLong extends Error {
  override readonly name = "TextTooLong";

  constructor(charsMax: number) {
    super(`the text has more than ${charsMax} characters`);
  }
}

interface Place {
  /** Column of the parent's children; -1 at the top. */
  readonly indent: number;
  readonly isMappingValue: boolean;
}

/** The state that decides where a space or a line break is due: libyaml's emitter, of it what block style needs. */
class YamlWriter {
  readonly #charsMax: number;
  #text = "";
  #column = 0;
  /** Was the last character a space, or its equivalent? */
  #whitespace = true;
  /** Has the line nothing but indentation and indicators yet? */
  #indention = true;

  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  node(value: YamlValue, place: Place): void {
    if (typeof value === "string") this.#string(value, { indent: place.indent + INDENT, isKey: false });
    else if (value === null || typeof value === "boolean") this.#plain(String(value));
    else if (typeof value === "number") this.#plain(numberText(value));
    else if (Array.isArray(value)) this.#sequence(value, place);
    else this.#mapping(value as Readonly<Record<string, YamlValue>>, place);
  }

  finish(): string {
    if (this.#column > 0) this.#break();
    return this.#text;
  }

  #sequence(items: readonly YamlValue[], { indent, isMappingValue }: Place): void {
    if (items.length === 0) this.#plain("[]");
    const own = isMappingValue && !this.#indention ? indent : deeper(indent);
    for (const item of items) {
      this.#newLine(own);
      this.#indicator("-", { afterSpace: true, keepsIndention: true });
      this.node(item, { indent: own, isMappingValue: false });
    }
  }

  #mapping(mapping: Readonly<Record<string, YamlValue>>, { indent }: Place): void {
    // Sorted twice: by `compareKeys` alone the order would also depend on who put which key in first.
    const keys = Object.keys(mapping).sort().sort(compareKeys);
    if (keys.length === 0) this.#plain("{}");
    const own = deeper(indent);
    for (const key of keys) {
      this.#newLine(own);
      if (isSimpleKey(key)) {
        this.#string(key, { indent: own + INDENT, isKey: true });
        this.#indicator(":", { afterSpace: false, keepsIndention: false });
      } else {
        this.#indicator("?", { afterSpace: true, keepsIndention: true });
        this.#string(key, { indent: own + INDENT, isKey: false });
        this.#newLine(own);
        this.#indicator(":", { afterSpace: true, keepsIndention: true });
      }
      this.node(mapping[key] as YamlValue, { indent: own, isMappingValue: true });
    }
  }

  #string(given: string, { indent, isKey }: { readonly indent: number; readonly isKey: boolean }): void {
    const text = wellFormed(given);
    const style = scalarStyle(text);
    if (style === "literal") {
      this.#literal(text, indent);
      return;
    }
    if (!this.#whitespace) this.#put(" ");
    if (style !== "plain") this.#put(style === "single" ? "'" : '"');
    this.#flow(text, style, isKey ? null : indent);
    if (style !== "plain") this.#put(style === "single" ? "'" : '"');
    this.#whitespace = false;
    this.#indention = false;
  }

  /** `foldIndent` is the column at which a long text goes on in a next line; null: it stays in one. */
  #flow(text: string, style: ScalarStyle, foldIndent: number | null): void {
    const written = insideQuotes(text, style);
    if (foldIndent !== null && this.#column + written.length > COLUMN_MAX) {
      this.#folded(written, style, foldIndent);
    } else this.#put(written);
  }

  /** Escapes have no spaces in them, so that places and columns of what is written are those of the text. */
  #folded(written: string, style: ScalarStyle, indent: number): void {
    let done = 0;
    let search = 0;
    for (;;) {
      const from = Math.max(search, done + COLUMN_MAX + 1 - this.#column);
      const at = written.indexOf(" ", from);
      if (at < 0 || at === written.length - 1) break;
      search = endOfSpaces(written, at);
      const isRun = search > at + 1;
      // At the first of several spaces, which only double quotes can keep.
      if (at === 0 || written[at - 1] === " " || (isRun && style !== "double")) continue;
      this.#put(written.slice(done, at));
      this.#newLine(indent);
      if (isRun) this.#put("\\");
      done = at + 1;
    }
    this.#put(written.slice(done));
  }

  #literal(text: string, indent: number): void {
    if (!this.#whitespace) this.#put(" ");
    this.#put(literalHeader(text));
    this.#break();
    const margin = " ".repeat(indent);
    this.#put(`${text.startsWith("\n") ? "" : margin}${text.replaceAll(/\n(?!\n|$)/g, `\n${margin}`)}`);
    this.#whitespace = true;
    this.#indention = text.endsWith("\n");
    if (this.#indention) this.#column = 0;
  }

  #plain(text: string): void {
    if (!this.#whitespace) this.#put(" ");
    this.#put(text);
    this.#whitespace = false;
    this.#indention = false;
  }

  #indicator(
    indicator: string,
    { afterSpace, keepsIndention }: { readonly afterSpace: boolean; readonly keepsIndention: boolean },
  ): void {
    if (afterSpace && !this.#whitespace) this.#put(" ");
    this.#put(indicator);
    this.#whitespace = false;
    this.#indention &&= keepsIndention;
  }

  /** Goes to a column: in this line while it holds nothing but indentation and indicators, else in the next. */
  #newLine(column: number): void {
    if (!this.#indention || this.#column > column || (this.#column === column && !this.#whitespace)) {
      this.#break();
    }
    this.#put(" ".repeat(Math.max(0, column - this.#column)));
    this.#whitespace = true;
    this.#indention = true;
  }

  /** Without characters beyond U+FFFF: those are escaped, so that columns are UTF-16 code units. */
  #put(text: string): void {
    if (this.#text.length > this.#charsMax) throw new TextTooLong(this.#charsMax);
    this.#text += text;
    this.#column += text.length;
  }

  #break(): void {
    this.#text += "\n";
    this.#column = 0;
  }
}

/** Of all texts in a value, which is less than what is written of it. */
function charsIn(value: YamlValue): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return Object.entries(value).reduce(
    (sum, [key, one]) => sum + (Array.isArray(value) ? 0 : key.length) + charsIn(one as YamlValue),
    0,
  );
}

function deeper(indent: number): number {
  return indent < 0 ? 0 : indent + INDENT;
}

function isSimpleKey(key: string): boolean {
  if (key.length * UTF8_BYTES_MAX > KEY_BYTES_MAX && Buffer.byteLength(key) > KEY_BYTES_MAX) return false;
  return !/[\n\r\x85\u2028\u2029]/.test(key);
}

function wellFormed(text: string): string {
  return /[\ud800-\udfff]/.test(text) ? text.replaceAll(/\p{Cs}/gu, "\ufffd") : text;
}

function endOfSpaces(text: string, from: number): number {
  let at = from;
  while (text[at] === " ") at++;
  return at;
}
