import type * as Yaml from "yaml";
import { escaped, UNPRINTABLE_IN_DOCUMENT } from "../terminal.ts";

/** A list or map, block style, two columns deeper for each level, items of a list not indented, as kubectl has it. */
const STEP = "  ";

/** Beside plain words what most of our values are: addresses, subnets, names, paths. */
const PLAIN = /^[A-Za-z/](?:[\w./()@+-]| (?=[\w./(])|:(?=[\w./(:]))*$/;
/** What YAML 1.1, which Kubernetes reads, takes for something else. A word in other capitals, as oN, is a word. */
const WORDS =
  /^(?:[YyNn]|[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF|[Tt]rue|TRUE|[Ff]alse|FALSE|[Nn]ull|NULL|[Ee][-+]?\d+)$/;
const IPV4 = /^\d{1,3}(?:\.\d{1,3}){3}(?:\/\d{1,2})?$/;
const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;
/** Container IDs. With one of these letters it is no number, in whatever base. */
const HEX = /^(?=.*[acdf])[\da-f]+$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/** Thrown by `yamlText` without the library, where something needs it. */
export class NeedsYaml extends Error {}

/**
 * The same as of the library `yaml`, which takes 15 times as long for a long list: what needs no thought is written
 * here, and the rest by the library. Without it throws NeedsYaml at the first of these.
 */
export function yamlText(value: unknown, library: typeof Yaml | null): string {
  const lines: string[] = [];
  if (!isNested(value)) return ofLibrary(value, library);
  write(value, "", "", lines, library);
  return `${lines.join("\n")}\n`;
}

/** `first` goes before the first line, where it is an item of a list. */
function write(value: object, pad: string, first: string, lines: string[], library: typeof Yaml | null): void {
  let start = first === "" ? pad : first;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (isNested(item)) write(item, pad + STEP, `${start}- `, lines, library);
      else {
        const text = scalar(item);
        push(lines, pad, start, text === null ? ofLibrary([item], library) : `- ${text}`);
      }
      start = pad;
    }
    return;
  }
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue;
    const name = scalar(key);
    const text = isNested(item) ? "" : scalar(item);
    if (name === null || text === null) push(lines, pad, start, ofLibrary({ [key]: item }, library));
    else if (text !== "") lines.push(`${start}${name}: ${text}`);
    else {
      lines.push(`${start}${name}:`);
      write(item, Array.isArray(item) ? pad : pad + STEP, "", lines, library);
    }
    start = pad;
  }
}

function push(lines: string[], pad: string, start: string, text: string): void {
  for (const [index, line] of text.replace(/\n$/, "").split("\n").entries())
    lines.push(line === "" ? "" : (index === 0 ? start : pad) + line);
}

function isNested(value: unknown): value is object {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** The text of a value; null: the library knows. */
function scalar(value: unknown): string | null {
  if (typeof value === "string") {
    if (PLAIN.test(value)) return WORDS.test(value) ? `"${value}"` : value;
    if (value === "" || TIME.test(value)) return `"${value}"`;
    return IPV4.test(value) || UUID.test(value) || HEX.test(value) ? value : null;
  }
  if (value === null || typeof value === "boolean" || isWhole(value)) return String(value);
  if (typeof value === "object") return Array.isArray(value) ? "[]" : "{}";
  return null;
}

function ofLibrary(value: unknown, library: typeof Yaml | null): string {
  if (library === null) throw new NeedsYaml();
  // Kubernetes reads YAML 1.1: a string such as `on` must be quoted for it.
  const yaml = new library.Document(value, { version: "1.1", aliasDuplicateObjects: false });
  library.visit(yaml, {
    Scalar(_key, node) {
      if (typeof node.value === "string" && new RegExp(UNPRINTABLE_IN_DOCUMENT).test(node.value))
        node.type = "QUOTE_DOUBLE";
    },
  });
  return yaml.toString({ indentSeq: false, lineWidth: 0 }).replace(UNPRINTABLE_IN_DOCUMENT, inYaml);
}

/** YAML has no surrogates: one escape for each character. */
function inYaml(found: string): string {
  return found.length === 1 ? escaped(found) : `\\U${(found.codePointAt(0) as number).toString(16).padStart(8, "0")}`;
}

function isWhole(value: unknown): boolean {
  return Number.isSafeInteger(value) && !Object.is(value, -0);
}
