import type { Command } from "commander";

type Evaluate = (path: string, json: unknown) => unknown[];

/** A piece of a template of kubectl: https://kubernetes.io/docs/reference/kubectl/jsonpath/ */
type Piece =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "path"; readonly path: string }
  | { readonly kind: "range"; readonly path: string; readonly pieces: readonly Piece[] };

/** The text that a template of kubectl makes of a document. A template that cannot be read is a usage error. */
export async function jsonpathText(command: Command, template: string, document: object): Promise<string> {
  const { JSONPath } = await import("jsonpath-plus");
  // Scripts of filters are interpreted, with no access to anything else.
  const evaluate: Evaluate = (path, json) =>
    JSONPath({ path, json: json as object, wrap: true, eval: "safe" }) as unknown[];
  try {
    const { pieces, rest } = parse(template, false);
    if (rest !== "") throw new Error("{end} without {range}");
    return render(pieces, document, evaluate);
  } catch (error) {
    return command.error(
      `error: -o jsonpath: ${(error as Error).message}\nhint: as kubectl has it, such as -o jsonpath='{range .items[*]}{.address}{"\\n"}{end}'`,
    );
  }
}

function render(pieces: readonly Piece[], json: unknown, evaluate: Evaluate): string {
  return pieces
    .map((piece) => {
      if (piece.kind === "text") return piece.text;
      const found = evaluate(piece.path, json);
      if (piece.kind === "path") return found.map(textOf).join(" ");
      return found.map((one) => render(piece.pieces, one, evaluate)).join("");
    })
    .join("");
}

function textOf(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** `rest`: what follows the `{end}` of a range, with a mark before it where there was one. */
function parse(template: string, isInRange: boolean): { pieces: Piece[]; rest: string } {
  const pieces: Piece[] = [];
  let rest = template;
  while (rest !== "") {
    const open = rest.indexOf("{");
    if (open !== 0) {
      const text = open < 0 ? rest : rest.slice(0, open);
      pieces.push({ kind: "text", text });
      rest = rest.slice(text.length);
      continue;
    }
    const close = closingBrace(rest);
    const inside = rest.slice(1, close).trim();
    rest = rest.slice(close + 1);
    if (inside === "end") {
      if (!isInRange) throw new Error("{end} without {range}");
      return { pieces, rest };
    }
    if (/^range\s/.test(inside)) {
      const inner = parse(rest, true);
      pieces.push({ kind: "range", path: pathOf(inside.slice("range".length)), pieces: inner.pieces });
      rest = inner.rest;
    } else if (/^["']/.test(inside)) pieces.push({ kind: "text", text: literal(inside) });
    else pieces.push({ kind: "path", path: pathOf(inside) });
  }
  if (isInRange) throw new Error("{range} without {end}");
  return { pieces, rest };
}

/** Not one within quotes. */
function closingBrace(text: string): number {
  let quote = "";
  for (let at = 1; at < text.length; at += 1) {
    const one = text[at] as string;
    if (quote !== "") {
      if (one === "\\") at += 1;
      else if (one === quote) quote = "";
    } else if (one === '"' || one === "'") quote = one;
    else if (one === "}") return at;
  }
  throw new Error(`${text} has no closing }`);
}

function pathOf(text: string): string {
  const path = text.trim().replace(/^[@$]/, "");
  if (path !== "" && !/^[.[]/.test(path)) throw new Error(`${text.trim()} begins with neither . nor [`);
  return `$${path === "." ? "" : path}`;
}

function literal(text: string): string {
  const inside = text.slice(1, -1);
  if (text.length < 2 || text.at(-1) !== text[0]) throw new Error(`${text} has no closing quote`);
  return text[0] === "'" ? inside : (JSON.parse(`"${inside}"`) as string);
}
