/**
 * Order of two mapping keys, as Go's YAML libraries have it: letters by code point and after everything else, runs of
 * digits as numbers, so that `nic2` stands before `nic10`. Negative: `a` comes first. As theirs it is not transitive:
 * 1a is before 2_, 2_ before 10, and 10 before 1a.
 */
export function compareKeys(a: string, b: string): number {
  const at = firstDifference(a, b);
  const [x, y] = [a.codePointAt(at), b.codePointAt(at)];
  if (x === undefined || y === undefined) return a.length - b.length;
  const [xIsLetter, yIsLetter] = [isLetter(x), isLetter(y)];
  if (xIsLetter !== yIsLetter) return xIsLetter ? 1 : -1;
  if (isDigit(x) || isDigit(y)) {
    const difference = compareDigits(a, b, at);
    if (difference !== 0) return difference;
  }
  return x - y;
}

function firstDifference(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  // Two characters beyond U+FFFF may share their first half.
  return isFirstHalf(a.charCodeAt(at - 1)) ? at - 1 : at;
}

/** false for NaN, where a text has no such character. */
function isFirstHalf(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/** Of the runs of digits that begin at the first difference; an empty run counts as 0. */
function compareDigits(a: string, b: string, at: number): number {
  // After a digit that counts, a 0 does: 100 and 10 differ by their lengths, 01 and 1 by their numbers.
  const zeroCounts = (a[at] === "0" || b[at] === "0") && followsNumber(a, at);
  const [x, y] = [digitsFrom(a, at, zeroCounts), digitsFrom(b, at, zeroCounts)];
  if (x.number !== y.number) return x.number < y.number ? -1 : 1;
  return x.count - y.count;
}

function followsNumber(text: string, at: number): boolean {
  for (let i = at - 1; i >= 0 && isDigit(text.charCodeAt(i)); i--) if (text[i] !== "0") return true;
  return false;
}

/** Numbers wrap around at 64 bits, as upstream's do. */
function digitsFrom(
  text: string,
  from: number,
  zeroCounts: boolean,
): { readonly number: bigint; readonly count: number } {
  let number = zeroCounts ? 1n : 0n;
  let count = 0;
  for (let at = from; at < text.length; count++) {
    const code = text.codePointAt(at) as number;
    if (!isDigit(code)) break;
    number = BigInt.asIntN(64, number * 10n + BigInt(code - ZERO));
    at += code > 0xffff ? 2 : 1;
  }
  return { number, count };
}

const ZERO = 0x30;
const ASCII_END = 0x80;

function isLetter(code: number): boolean {
  if (code < ASCII_END) return (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
  return /\p{L}/u.test(String.fromCodePoint(code));
}

function isDigit(code: number): boolean {
  if (code < ASCII_END) return code >= ZERO && code <= ZERO + 9;
  return /\p{Nd}/u.test(String.fromCodePoint(code));
}
