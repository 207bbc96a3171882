import { type Command, Option } from "commander";
import { type Column, formatTable } from "./table.ts";
import { escaped, note, print, UNPRINTABLE_IN_DOCUMENT } from "./terminal.ts";

const FORMATS = ["table", "wide", "json", "yaml"] as const;
export type Format = (typeof FORMATS)[number];

/** Adds `-o` to a command. */
export function withOutput(command: Command): Command {
  return command.addOption(
    new Option("-o, --output <format>", "how the answer is shown").choices(FORMATS).default("table"),
  );
}

export function formatOf(command: Command): Format {
  return command.opts<{ output: Format }>().output;
}

export interface Listing<T> {
  readonly items: readonly T[];
  readonly columns: readonly Column<T>[];
  /** Printed on stderr instead of an empty table. */
  readonly empty: string;
  /** The data for json and yaml; default: `{ items }`. */
  readonly document?: object;
}

/** Prints a list in the requested format. stdout has only data. */
export async function printList<T>(format: Format, listing: Listing<T>): Promise<void> {
  const { items, columns, empty, document = { items } } = listing;
  if (format === "json" || format === "yaml") await printDocument(format, document);
  else if (items.length === 0) note(empty);
  else
    print(
      formatTable(
        items,
        columns.filter(({ only }) => only === undefined || only === format),
      ),
    );
}

/** Sorted keys and kubectl's indentation, so that files compare with those of kubectl. */
export async function printDocument(format: "json" | "yaml", document: object): Promise<void> {
  const sorted = sortKeys(document);
  if (format === "json") {
    // Control characters can only be inside strings: JSON itself has none of these.
    print(`${JSON.stringify(sorted, null, 4)}\n`.replace(UNPRINTABLE_IN_DOCUMENT, escaped));
    return;
  }
  const { Document, visit } = await import("yaml");
  // Kubernetes reads YAML 1.1: a string such as `on` must be quoted for it.
  const yaml = new Document(sorted, { version: "1.1", aliasDuplicateObjects: false });
  visit(yaml, {
    Scalar(_key, node) {
      if (typeof node.value === "string" && new RegExp(UNPRINTABLE_IN_DOCUMENT).test(node.value))
        node.type = "QUOTE_DOUBLE";
    },
  });
  const text = yaml.toString({ indentSeq: false, lineWidth: 0 });
  print(text.replace(UNPRINTABLE_IN_DOCUMENT, inYaml));
}

/** YAML has no surrogates: one escape for each character. */
function inYaml(found: string): string {
  return found.length === 1
    ? escaped(found)
    : `\\U${(found.codePointAt(0) as number).toString(16).padStart(8, "0")}`;
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, one]) => [key, sortKeys(one)]));
}
