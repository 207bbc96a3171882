import type { Document, LineCounter, YAMLError } from "yaml";

/** One Kubernetes object of a file, and its position. */
export interface ManifestObject {
  readonly object: unknown;
  readonly line: number;
}

/** A part of a file that is not YAML. */
export interface ManifestFault {
  readonly line: number;
  readonly column: number;
  readonly problem: string;
}

/**
 * Objects of a text: several documents, `kind: List` expanded, JSON too (it is YAML). An unreadable document does not
 * affect the others.
 */
export async function readManifestText(text: string): Promise<(ManifestObject | ManifestFault)[]> {
  const { LineCounter, parseAllDocuments } = await import("yaml");
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter: lines, merge: true, prettyErrors: false });
  return [...documents].flatMap((document) => readDocument(document as Document.Parsed, lines));
}

function readDocument(document: Document.Parsed, lines: LineCounter): (ManifestObject | ManifestFault)[] {
  const [error] = document.errors;
  if (error) return [faultOf(error, lines)];
  const start = lines.linePos(document.contents?.range[0] ?? 0);
  let object: unknown;
  try {
    object = document.toJS();
    // An alias inside the node that it names is valid YAML, and endless.
    JSON.stringify(object);
  } catch (unresolved) {
    return [{ line: start.line, column: start.col, problem: firstLine((unresolved as Error).message) }];
  }
  // A separator with nothing after it.
  if (object === null || object === undefined) return [];
  return openList(object, document, lines) ?? [{ object, line: start.line }];
}

function faultOf(error: YAMLError, lines: LineCounter): ManifestFault {
  const { line, col } = lines.linePos(error.pos[0]);
  return { line, column: col, problem: error.message };
}

/** The items of a `kind: List` (or IPAMClaimList …), each with its own line; null for anything else. */
function openList(object: unknown, document: Document.Parsed, lines: LineCounter): ManifestObject[] | null {
  const { kind, items } = object as { kind?: unknown; items?: unknown };
  if (typeof kind !== "string" || !kind.endsWith("List") || !Array.isArray(items)) return null;
  return items.map((item: unknown, index) => {
    const node = document.getIn(["items", index], true) as { range?: [number, number, number] } | undefined;
    return { object: item, line: lines.linePos(node?.range?.[0] ?? document.range[0]).line };
  });
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] as string;
}
