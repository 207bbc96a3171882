import { isoTime, parseTime } from "../platform/time.ts";

/** More are not remembered, whatever is written into a cluster: texts are then packed as they are. */
const WORDS_MAX = 65_536;
/** A longer text is no word. */
const WORD_CHARS_MAX = 253;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const UUID_CHARS = 36;
/** The whole of a hexadecimal text, or one that begins so, as `<container ID>/<interface>` does. */
const HEX_AND_MORE = /^((?:[0-9a-f]{2}){8,255})(?:\/(.*))?$/s;
const HEX_CHARS_MIN = 16;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const TIME_CHARS = 20;
const DECIMAL_CHARS_MAX = 15;
const DECIMAL = /^(?:0|[1-9]\d{0,14})$/;
const LATIN1 = /^[\0-\xff]*$/;

/** How a text is packed. From BACK on: it is the text that came so many places before in this object. */
const AS_UUID = 1;
const AS_HEX = 2;
const AS_PAIR = 3;
const AS_TIME = 4;
const AS_DECIMAL = 5;
const AS_WORD = 6;
const AS_LATIN1 = 7;
const AS_UTF16 = 8;
const BACK = 16;
const BACK_MAX = 255 - BACK;

/** Texts that many objects share, by number. */
export class Words {
  readonly #texts: string[] = [];
  readonly #numbers = new Map<string, number>();

  /** null: it is none of them, and there are too many already. */
  numberOf(text: string): number | null {
    const known = this.#numbers.get(text);
    if (known !== undefined) return known;
    if (this.#texts.length >= WORDS_MAX || text.length > WORD_CHARS_MAX) return null;
    this.#texts.push(text);
    this.#numbers.set(text, this.#texts.length - 1);
    return this.#texts.length - 1;
  }

  at(number: number): string {
    return this.#texts[number] as string;
  }
}

/** Not of a day or an hour that there is not, nor before 1970. */
function isTime(text: string): boolean {
  if (!TIME.test(text)) return false;
  const ms = parseTime(text);
  return ms >= 0 && isoTime(ms) === text;
}

const HYPHEN = 0x2d;
const DIGIT_0 = 0x30;
const LETTER_A = 0x61;

/** Packs texts, one after the other, into one with a byte for each character. None is there twice. */
export class TextPacker {
  readonly #words: Words;
  #bytes = Buffer.alloc(4_096);
  #length = 0;
  #texts: string[] = [];

  constructor(words: Words) {
    this.#words = words;
  }

  /** `known`: what comes later may be this text again. */
  begin(known: string): this {
    this.#length = 0;
    this.#texts = [known];
    return this;
  }

  mark(): readonly [length: number, texts: number] {
    return [this.#length, this.#texts.length];
  }

  reset([length, texts]: readonly [length: number, texts: number]): void {
    this.#length = length;
    this.#texts.length = texts;
  }

  /** A text of its own, not a part of a longer one. */
  end(): string {
    return this.#bytes.toString("latin1", 0, this.#length);
  }

  text(text: string, mayBeWord: boolean): void {
    const back = this.#backTo(text);
    if (back !== null) this.#byte(BACK + back);
    else this.#newText(text, mayBeWord);
    this.#texts.push(text);
  }

  #newText(text: string, mayBeWord: boolean): void {
    const { length } = text;
    const [, hex, more] = length < HEX_CHARS_MIN ? [] : (HEX_AND_MORE.exec(text) ?? []);
    if (length === UUID_CHARS && UUID.test(text)) this.#byte(AS_UUID).#hex(text);
    else if (length === TIME_CHARS && isTime(text)) this.#byte(AS_TIME).#number(parseTime(text) / 1_000);
    else if (length <= DECIMAL_CHARS_MAX && DECIMAL.test(text)) this.#byte(AS_DECIMAL).#number(Number(text));
    else if (hex === text)
      this.#byte(AS_HEX)
        .#byte(length / 2)
        .#hex(text);
    else if (hex !== undefined && more !== undefined) {
      this.#byte(AS_PAIR);
      this.text(hex, false);
      this.text(more, true);
    } else if (!mayBeWord || !this.#word(text)) this.#characters(text);
  }

  /** false: it is none, and cannot become one. */
  #word(text: string): boolean {
    const number = this.#words.numberOf(text);
    if (number !== null) this.#byte(AS_WORD).#number(number);
    return number !== null;
  }

  #characters(text: string): void {
    if (LATIN1.test(text)) this.#byte(AS_LATIN1).#number(text.length).#latin1(text);
    else this.#byte(AS_UTF16).#number(text.length).#utf16(text);
  }

  /** How many texts before the next one it was; null: it was not, or too long before. */
  #backTo(text: string): number | null {
    const last = this.#texts.length - 1;
    // Not by lastIndexOf, which would look through all of an object that has a hundred thousand.
    for (let back = 0; back <= BACK_MAX && back <= last; back += 1) if (this.#texts[last - back] === text) return back;
    return null;
  }

  #byte(byte: number): this {
    this.#grow(1);
    this.#bytes[this.#length] = byte;
    this.#length += 1;
    return this;
  }

  /** A natural number below 2^53: seven bits a byte. */
  #number(number: number): this {
    let left = number;
    for (; left >= 0x80; left = Math.floor(left / 0x80)) this.#byte((left % 0x80) + 0x80);
    return this.#byte(left);
  }

  /** Of an even number of digits; hyphens are left out. */
  #hex(text: string): void {
    this.#grow(text.length / 2);
    let high = -1;
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code === HYPHEN) continue;
      const digit = code < LETTER_A ? code - DIGIT_0 : code - LETTER_A + 10;
      if (high === -1) high = digit;
      else {
        this.#bytes[this.#length] = high * 16 + digit;
        this.#length += 1;
        high = -1;
      }
    }
  }

  #latin1(text: string): void {
    this.#grow(text.length);
    for (let at = 0; at < text.length; at += 1) this.#bytes[this.#length + at] = text.charCodeAt(at);
    this.#length += text.length;
  }

  #utf16(text: string): void {
    for (let at = 0; at < text.length; at += 1) this.#number(text.charCodeAt(at));
  }

  #grow(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    this.#bytes = Buffer.concat([this.#bytes], (this.#length + more) * 2);
  }
}

/** Reads what a TextPacker has packed, in its order. */
export class TextUnpacker {
  readonly #from: string;
  readonly #words: Words;
  readonly #texts: string[];
  #at = 0;

  constructor(from: string, known: string, words: Words) {
    this.#from = from;
    this.#texts = [known];
    this.#words = words;
  }

  text(): string {
    const text = this.#text(this.#byte());
    this.#texts.push(text);
    return text;
  }

  #text(how: number): string {
    if (how >= BACK) return this.#texts[this.#texts.length - 1 - (how - BACK)] as string;
    if (how === AS_UUID) {
      const hex = this.#hex(16);
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
    }
    if (how === AS_HEX) return this.#hex(this.#byte());
    if (how === AS_PAIR) return `${this.text()}/${this.text()}`;
    if (how === AS_TIME) return isoTime(this.#number() * 1_000);
    if (how === AS_DECIMAL) return `${this.#number()}`;
    if (how === AS_WORD) return this.#words.at(this.#number());
    const length = this.#number();
    if (how === AS_LATIN1) {
      this.#at += length;
      return this.#from.slice(this.#at - length, this.#at);
    }
    return Array.from({ length }, () => String.fromCharCode(this.#number())).join("");
  }

  #byte(): number {
    this.#at += 1;
    return this.#from.charCodeAt(this.#at - 1);
  }

  #number(): number {
    let number = 0;
    for (let factor = 1; ; factor *= 0x80) {
      const byte = this.#byte();
      number += (byte % 0x80) * factor;
      if (byte < 0x80) return number;
    }
  }

  #hex(bytes: number): string {
    this.#at += bytes;
    return Buffer.from(this.#from.slice(this.#at - bytes, this.#at), "latin1").toString("hex");
  }
}
