/**
 * Order of two mapping keys, as Go's YAML libraries have it: letters by code point and after everything else, runs of
 * digits as numbers, so that `nic2` stands before `nic10`. Negative: `a` comes first.
 */
export function compareKeys(a: string, b: string): number {
  const left = Array.from(a);
  const right = Array.from(b);
  const shorter = Math.min(left.length, right.length);
  for (let at = 0; at < shorter; at++) {
    const [x, y] = [left[at] as string, right[at] as string];
    if (x === y) continue;
    const [xIsLetter, yIsLetter] = [isLetter(x), isLetter(y)];
    if (xIsLetter !== yIsLetter) return xIsLetter ? 1 : -1;
    if (!xIsLetter) {
      const difference = compareDigits(left, right, at);
      if (difference !== 0) return difference;
    }
    return codePoint(x) - codePoint(y);
  }
  return left.length - right.length;
}

/** Of the runs of digits that begin at the first difference; an empty run counts as 0. */
function compareDigits(left: readonly string[], right: readonly string[], at: number): number {
  // After a digit that counts, a 0 does: 100 and 10 differ by their lengths, 01 and 1 by their numbers.
  const zeroCounts = (left[at] === "0" || right[at] === "0") && followsNumber(left, at);
  const [x, y] = [digitsFrom(left, at, zeroCounts), digitsFrom(right, at, zeroCounts)];
  if (x.number !== y.number) return x.number < y.number ? -1 : 1;
  return x.end - y.end;
}

function followsNumber(characters: readonly string[], at: number): boolean {
  for (let i = at - 1; i >= 0 && isDigit(characters[i] as string); i--)
    if (characters[i] !== "0") return true;
  return false;
}

/** Numbers wrap around at 64 bits, as upstream's do. */
function digitsFrom(
  characters: readonly string[],
  from: number,
  zeroCounts: boolean,
): { readonly number: bigint; readonly end: number } {
  let number = zeroCounts ? 1n : 0n;
  let end = from;
  for (; end < characters.length && isDigit(characters[end] as string); end++) {
    number = BigInt.asIntN(64, number * 10n + BigInt(codePoint(characters[end] as string) - 0x30));
  }
  return { number, end };
}

function codePoint(character: string): number {
  return character.codePointAt(0) as number;
}

function isLetter(character: string): boolean {
  return /\p{L}/u.test(character);
}

function isDigit(character: string): boolean {
  return /\p{Nd}/u.test(character);
}
