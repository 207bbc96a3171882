/** Levels of nesting in JSON from outside: more than any real one has; recursion over thousands overflows the stack. */
export const JSON_LEVELS_MAX = 64;
export const TOO_DEEP = `it is nested deeper than ${JSON_LEVELS_MAX} levels`;

/** Limit of the API server for all annotations of an object together, bytes. */
export const ANNOTATION_CHARS_MAX = 262_144;

/** Parses JSON that somebody else has written, once length and depth are checked. Throws an Error with a sentence. */
export function parseBoundedJson(text: string, charsMax: number): unknown {
  const tooLong = lengthProblem(text, charsMax);
  if (tooLong !== null) throw new Error(tooLong);
  if (nestsDeeper(text)) throw new Error(TOO_DEEP);
  return JSON.parse(text);
}

/** null: a text is no longer than what is read. */
export function lengthProblem({ length }: { readonly length: number }, charsMax: number): string | null {
  return length > charsMax ? `it has ${length} characters, and at most ${charsMax} are read` : null;
}

export function isTooDeep(value: unknown, levels: number = JSON_LEVELS_MAX): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((one) => isTooDeep(one, levels - 1));
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Whether brackets in a text are nested deeper than JSON_LEVELS_MAX, whatever else is in it. */
function nestsDeeper(text: string): boolean {
  // Too short for it.
  if (text.length <= 2 * JSON_LEVELS_MAX) return false;
  let level = 0;
  let inString = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === BACKSLASH) at += 1;
      else if (code === QUOTE) inString = false;
    } else if (code === QUOTE) inString = true;
    else if (code === OPEN_BRACKET || code === OPEN_BRACE) {
      level += 1;
      if (level > JSON_LEVELS_MAX) return true;
    } else if (code === CLOSE_BRACKET || code === CLOSE_BRACE) level -= 1;
  }
  return false;
}
