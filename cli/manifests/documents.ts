import { Composer, type CST, type Document, isMap, isSeq, LineCounter, Parser, type YAMLError } from "yaml";
import { isTooDeep, JSON_LEVELS_MAX, TOO_DEEP } from "../../ipam/definition/bounded-json.ts";
import { DocumentFault, plainValue } from "./plain-value.ts";

export interface ManifestObject {
  readonly object: unknown;
  readonly line: number;
}

/** A part of a file that is not YAML, or that no object may be. */
export interface ManifestFault {
  readonly line: number;
  readonly column: number;
  readonly problem: string;
}

/** Levels of a request around each of its objects: the object with the list, the list. */
const REQUEST_LEVELS = 2;

/** Keys are compared in plain-value.ts: the library does so in quadratic time. */
const OPTIONS = { merge: true, prettyErrors: false, stringKeys: true, uniqueKeys: false } as const;

/**
 * Objects of a text: several documents, `kind: List` expanded, JSON too (it is YAML). An unreadable document does not
 * affect the others. Takes time in proportion to the text.
 */
export function* readManifestText(text: string): Generator<ManifestObject | ManifestFault> {
  const lines = new LineCounter();
  const composer = new Composer({ ...OPTIONS, lineCounter: lines });
  for (const token of tokensOf(text, lines)) {
    // A document is complete when the next one comes.
    const isDeep = token === TOO_DEEP || isNestedDeeper(token, JSON_LEVELS_MAX + REQUEST_LEVELS);
    for (const document of isDeep ? composer.end() : composer.next(token)) yield* readDocument(document, lines);
    if (isDeep) yield faultAt(lines, token === TOO_DEEP ? (lines.lineStarts.at(-1) ?? 0) : token.offset, TOO_DEEP);
  }
  for (const document of composer.end()) yield* readDocument(document, lines);
}

/** TOO_DEEP: a document of which the library overflows the stack, and nothing after it. */
function* tokensOf(text: string, lines: LineCounter): Generator<CST.Token | typeof TOO_DEEP> {
  try {
    yield* new Parser(lines.addNewLine).parse(text);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    yield TOO_DEEP;
  }
}

function readDocument(document: Document.Parsed, lines: LineCounter): readonly (ManifestObject | ManifestFault)[] {
  const [error] = document.errors;
  if (error) return [faultOf(error, lines)];
  const { contents } = document;
  const start = contents?.range[0] ?? 0;
  try {
    const object = plainValue(contents);
    // A separator with nothing after it.
    if (object === null) return [];
    return (openList(object, document) ?? [{ object, offset: start }]).map((one) =>
      isTooDeep(one.object, JSON_LEVELS_MAX - REQUEST_LEVELS)
        ? faultAt(lines, one.offset, TOO_DEEP)
        : { object: one.object, line: lines.linePos(one.offset).line },
    );
  } catch (unreadable) {
    if (unreadable instanceof DocumentFault) return [faultAt(lines, unreadable.offset, unreadable.message)];
    throw unreadable;
  }
}

function faultOf(error: YAMLError, lines: LineCounter): ManifestFault {
  return faultAt(lines, error.pos[0], error.message);
}

function faultAt(lines: LineCounter, offset: number, problem: string): ManifestFault {
  const { line, col } = lines.linePos(offset);
  return { line, column: col, problem };
}

/** The items of a `kind: List` (or IPAMClaimList …), each with its own position; null for anything else. */
function openList(
  object: unknown,
  { contents }: Document.Parsed,
): readonly { readonly object: unknown; readonly offset: number }[] | null {
  const { kind, items } = object as { kind?: unknown; items?: unknown };
  if (typeof kind !== "string" || !kind.endsWith("List") || !Array.isArray(items)) return null;
  const list = isMap(contents) ? contents.get("items", true) : null;
  const nodes: readonly unknown[] = isSeq(list) ? list.items : [];
  return items.map((item: unknown, index) => {
    const node = nodes[index] as { range?: readonly [number, number, number] } | null | undefined;
    return { object: item, offset: node?.range?.[0] ?? contents?.range[0] ?? 0 };
  });
}

/** Asked before it is composed, which recurses: thousands of brackets would overflow the stack. */
function isNestedDeeper(document: CST.Token, levelsMax: number): boolean {
  const open: { readonly token: CST.Token | null | undefined; readonly level: number }[] = [
    { token: document, level: 0 },
  ];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { token, level } = next;
    if (token == null) continue;
    if (level > levelsMax) return true;
    if (token.type === "document") open.push({ token: token.value, level });
    else if ("items" in token)
      for (const { key, value } of token.items as CST.CollectionItem[])
        open.push({ token: key, level: level + 1 }, { token: value, level: level + 1 });
  }
  return false;
}
