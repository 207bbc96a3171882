import { type Command, InvalidArgumentError, Option } from "commander";
import type * as Yaml from "yaml";
import { type Clock, sleep } from "../platform/time.ts";
import { CommandError } from "./failure.ts";
import { jsonpathText } from "./formats/jsonpath.ts";
import { type Column, type Order, Table } from "./formats/table.ts";
import { NeedsYaml, yamlText } from "./formats/yaml-text.ts";
import { escaped, isTerminal, note, print, printError, UNPRINTABLE_IN_DOCUMENT } from "./terminal.ts";

const FORMATS = ["table", "wide", "json", "yaml"] as const;
/** Of lists besides. */
const LIST_FORMATS = [...FORMATS, "csv", "name"] as const;
/** Of a document: all of it, or what a template of kubectl makes of it. */
type DocumentFormat = "json" | "yaml" | `jsonpath=${string}`;
type Format = Exclude<(typeof LIST_FORMATS)[number], "json" | "yaml"> | DocumentFormat;

function outputOption(formats: readonly string[]): Option {
  const words = [...formats, "jsonpath=TEMPLATE"];
  return new Option("-o, --output <format>", "how the answer is shown, or jsonpath=TEMPLATE")
    .default("table")
    .choices(formats)
    .argParser((text) => {
      if (formats.includes(text) || /^jsonpath=./s.test(text)) return text;
      throw new InvalidArgumentError(`Expected one of ${words.join(", ")}.`);
    });
}

export function withOutput(command: Command): Command {
  return command.addOption(outputOption(FORMATS));
}

/** Adds `-o`, `--no-headers`, `--sort-by` and `-w` to a command that shows a list. */
export function withList(command: Command): Command {
  return withWatch(command)
    .addOption(outputOption(LIST_FORMATS))
    .option("--no-headers", "without the line of column names")
    .option("--sort-by <column>", "by this column of the table, as AGE; -AGE: backwards");
}

/** Between two looks of `-w`, ms. */
const LOOK_MS = 2_000;

interface Watching {
  /** Lines of the look before, without their ages; null: this is the first. */
  before: ReadonlySet<string> | null;
  again(): Promise<void>;
}

/** Adds `-w`. To be called before the command's action is set. */
function withWatch(command: Command): Command {
  command.option("-w, --watch", "go on, and show what changes");
  const setAction = command.action.bind(command);
  command.action = (run) =>
    setAction(async (...words: unknown[]) => {
      const again = async () => run.apply(command, words);
      if (command.opts<{ watch?: boolean }>().watch === true)
        command.setOptionValue("watching", { before: null, again } satisfies Watching);
      await again();
    });
  return command;
}

function watchingOf(command: Command): Watching | null {
  return command.opts<{ watching?: Watching }>().watching ?? null;
}

/** With `-w`: until the command is interrupted. A daemon that is started again is no reason to end. */
export async function goOn(command: Command, clock: Clock): Promise<void> {
  const watching = watchingOf(command);
  while (watching !== null) {
    await sleep(clock, LOOK_MS);
    try {
      await watching.again();
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      printError(error.message, error.hint);
    }
  }
}

export function formatOf(command: Command): Format {
  return command.opts<{ output: Format }>().output;
}

export function isDocument(format: Format): format is DocumentFormat {
  return format === "json" || format === "yaml" || format.startsWith("jsonpath=");
}

/** Whether people read it: notes beside the data are for them. */
export function isTable(format: Format): boolean {
  return format === "table" || format === "wide";
}

export interface Listing<T> {
  /** All of them, or page by page: then only their text is kept. */
  readonly items: readonly T[] | AsyncIterable<readonly T[]>;
  readonly columns: readonly Column<T>[];
  /** Printed on stderr instead of an empty table. */
  readonly empty: string;
  /** What is printed above a table, when all items have been read. */
  readonly above?: () => string;
  /** The data for json and yaml; default: the items. */
  readonly document?: object;
  /** What the default document has beside them. */
  readonly around?: object;
  /** Their key in the default document; default: `items`. */
  readonly key?: string;
  /** What `-o name` prints of an item; default: the first column. */
  readonly name?: (item: T) => string;
}

/**
 * Prints a list as the command's options say. A terminal gets the lines of a table page by page, a script nothing
 * before all of it is there: half an answer would look whole (docs/decisions/0053, 0076). stdout has only data.
 */
export async function printList<T>(command: Command, listing: Listing<T>): Promise<void> {
  const { columns, empty, above, document, around = {}, key = "items" } = listing;
  const format = formatOf(command);
  const { headers = true, sortBy } = command.opts<{ headers?: boolean; sortBy?: string }>();
  const pages = Symbol.asyncIterator in listing.items ? listing.items : [listing.items];
  const watching = watchingOf(command);
  const isFirst = watching === null || watching.before === null;
  if (isDocument(format)) {
    if (watching !== null) command.error(`error: --watch shows lines that change, and -o ${format} has none`);
    if (sortBy !== undefined) command.error(`error: --sort-by sorts the lines of a table, and -o ${format} has none`);
    if (document !== undefined) return printDocument(command, document);
    if (format !== "json" && format !== "yaml") {
      const items: T[] = [];
      for await (const page of pages) items.push(...page);
      return printDocument(command, { ...around, [key]: items });
    }
    const text = await textOfPages(format, { around, key, pages });
    for (const piece of text) print(piece);
    return;
  }
  const shown = columns.filter(({ only }) => only === undefined || only === (format === "table" ? "table" : "wide"));
  const order = sortBy === undefined ? null : orderBy(command, shown, sortBy);
  const { name = shown[0]?.cell ?? String } = listing;
  const table = new Table(format === "name" ? [{ header: "NAME", cell: name }] : shown, {
    order,
    headers: headers && format !== "name" && isFirst,
    isCsv: format === "csv",
    known: watching?.before ?? null,
    // -o wide is for whoever wants everything.
    fitTo: format === "table" ? (process.stdout.columns ?? null) : null,
  });
  const isStreamed = isTerminal() && order === null && above === undefined;
  let last: string | null = null;
  for await (const items of pages) {
    for (const item of items) {
      // Of lines about one thing one name.
      if (format === "name" && name(item) === last) continue;
      if (format === "name") last = name(item);
      table.add(item);
    }
    if (isStreamed && !table.isEmpty) for (const piece of table.text()) print(piece);
  }
  if (watching !== null) watching.before = table.lines;
  if (above !== undefined && isTable(format) && isFirst) print(above());
  if (!table.isEmpty) for (const piece of table.text()) print(piece);
  else if (isFirst) note(empty);
}

/** The column that `--sort-by` names, in any case, and whether backwards. */
function orderBy<T>(command: Command, columns: readonly Column<T>[], wanted: string): Order<T> {
  const isBackwards = wanted.startsWith("-");
  const header = wanted.replace(/^-/, "").toUpperCase();
  const column = columns.find((one) => one.header === header);
  if (column !== undefined) return { column, isBackwards };
  const known = columns.map((one) => one.header).join(", ");
  return command.error(`error: --sort-by ${wanted}: there is no such column\nhint: expected one of ${known}`);
}

/** Sorted keys and kubectl's indentation, so that files compare with those of kubectl. */
export async function printDocument(command: Command, document: object): Promise<void> {
  const format = formatOf(command);
  if (format.startsWith("jsonpath="))
    return print(await jsonpathText(command, format.slice("jsonpath=".length), document));
  if (format !== "json" && format !== "yaml") throw new Error(`${format} is no format of a document`);
  print(await documentText(format, document));
}

export function documentText(format: "json" | "yaml", document: object): Promise<string> {
  return rendererOf(format)(document);
}

interface Paged {
  readonly around: object;
  readonly key: string;
  readonly pages: AsyncIterable<readonly unknown[]> | Iterable<readonly unknown[]>;
}

/** What an item looks like at its place in a document does not depend on the others. */
const MARK = "the items";
const MARKED = { json: `        "${MARK}"\n`, yaml: `- ${MARK}\n` } as const;

/** The pieces of a document with many items: each page is rendered by itself, in a document that has only its items. */
async function textOfPages(format: "json" | "yaml", { around, key, pages }: Paged): Promise<string[]> {
  const render = rendererOf(format);
  const frame = (items: readonly unknown[], rest: object) => render({ ...rest, [key]: items });
  const [before, after] = cutAt(await frame([MARK], around), MARKED[format]);
  const [start, end] = cutAt(await frame([MARK], {}), MARKED[format]);
  const pieces: string[] = [];
  for await (const items of pages) {
    if (items.length === 0) continue;
    if (format === "json" && pieces.length > 0) pieces.push(",\n");
    const whole = await frame(items, {});
    const text = whole.slice(start.length, whole.length - end.length);
    pieces.push(format === "json" ? text.trimEnd() : text);
  }
  if (pieces.length === 0) return [await frame([], around)];
  return [before, ...pieces, ...(format === "json" ? ["\n"] : []), after];
}

function cutAt(text: string, mark: string): [before: string, after: string] {
  const at = text.indexOf(mark);
  return [text.slice(0, at), text.slice(at + mark.length)];
}

type Render = (document: object) => Promise<string>;

function rendererOf(format: "json" | "yaml"): Render {
  if (format === "json")
    // Control characters can only be inside strings: JSON itself has none of these.
    return async (document) =>
      `${JSON.stringify(sortKeys(document), null, 4)}\n`.replace(UNPRINTABLE_IN_DOCUMENT, escaped);
  let library: typeof Yaml | null = null;
  return async (document) => {
    const sorted = sortKeys(document);
    try {
      return yamlText(sorted, library);
    } catch (error) {
      if (!(error instanceof NeedsYaml)) throw error;
      library = await import("yaml");
      return yamlText(sorted, library);
    }
  };
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, one]) => [key, sortKeys(one)]));
}
