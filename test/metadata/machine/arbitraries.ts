/** Random values with a liking for what a writer of YAML gets wrong. */
import fc from "fast-check";

const WORDS = (
  "yes Yes NO y N on OFF true FALSE null ~ = << .inf -.INF .nan 0x1F 0x_ 0o17 017 08 1_000 1e3 1e999 1.5 .5 1:20 " +
  "12:34:56:18:20:12 2024-01-02 2024-1-2 2024-99-99 2001-12-14T21:59:43.10Z - -a ? ?x : a: #a 'a \" *x &x !x %x @x `x " +
  "{a [a a,b --- ... 0b1 0b-1 0b_ 1. . 10.0.0.1 ::1 fe80::1 52:54:00:de:5b:bf 802.3ad +1 -- __proto__ constructor"
).split(" ");
const PIECES = [..."ab01-_.:#'\"\\!&*?|>%@`{}[], =~<+eExX", " ", "  ", ": ", " #", "\t", "\n", "\n\n", "\r\n"];
const ODD = ["", "\0", "\x07", "\x1b", "\x7f", "\x85", "\xa0", "\ufeff", "\u2028", "\u2029", "\ufffe", "é", "😀"];

export const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(...WORDS, ...ODD),
  fc.string({ unit: fc.constantFrom(...PIECES, ...ODD), maxLength: 12 }),
  fc.string({ unit: fc.constantFrom(...PIECES), minLength: 60, maxLength: 300 }),
  fc.string({ unit: fc.constantFrom(..."0123456789_-+.:eExbo TZ"), maxLength: 12 }),
  fc.array(fc.constantFrom(...WORDS, ...ODD), { maxLength: 30 }).map((words) => words.join(" ")),
  fc.string({ unit: "binary", maxLength: 40 }),
);

/**
 * 1e+21 is a string to PyYAML, which wants a point in a float. Go's library writes it, and a bond's parameter may be
 * one.
 */
const anyFloat = fc
  .double({ noNaN: true, noDefaultInfinity: true })
  .filter((number) => !/^-?\de/.test(number.toString()));

/** What JSON can say. */
export const { anyValue } = fc.letrec<{ anyValue: unknown }>((tie) => ({
  anyValue: fc.oneof(
    { depthSize: "small" },
    { weight: 5, arbitrary: anyText },
    fc.oneof(fc.integer(), anyFloat, fc.boolean(), fc.constant(null)),
    fc.array(tie("anyValue"), { maxLength: 4 }),
    fc.dictionary(anyText, tie("anyValue"), { maxKeys: 4 }),
  ),
}));
