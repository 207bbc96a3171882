import { fstatSync, writeFileSync, writeSync } from "node:fs";
import { CommandError, EXIT } from "./failure.ts";

export const STDOUT = 1;
const PAGE_COLUMNS = 80;

/** Texts from outside (pod names, container IDs, error messages) must not control the reader's terminal. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

/**
 * Control characters, characters that change the direction of text or have no width (U+202E turns `exe.jpg` into
 * `gpj.exe`), and line separators: the name of an object must not change how a terminal shows others.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The same in a document (JSON, YAML), whose own line breaks are not part of a value. */
export const UNPRINTABLE_IN_DOCUMENT = /[\p{Cf}\p{Zl}\p{Zp}\u007f-\u009f]/gu;

/** As JSON and YAML write it between double quotes: `\u202e`; two of these beyond U+FFFF. */
export function escaped(found: string): string {
  return found
    .split("")
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
}

const COLOURS = { red: 31, green: 32, yellow: 33, grey: 90 } as const;

export type Colour = keyof typeof COLOURS;

/** Colours a text if the stream is a terminal, unless NO_COLOR (no-color.org) is set. */
export function paint(text: string, colour: Colour | null, stream: NodeJS.WriteStream): string {
  if (colour === null || !stream.isTTY || process.env.NO_COLOR || process.env.TERM === "dumb") return text;
  return `\u001b[${COLOURS[colour]}m${text}\u001b[0m`;
}

/** Never on stdout. */
export function note(text: string): void {
  errors().write(`${text}\n`);
}

/** `error: …` and `hint: …`, the form of every refusal. */
export function printError(message: string, hint: string): void {
  note(`${paint("error:", "red", process.stderr)} ${printLinesOf(message)}`);
  if (hint !== "") note(`${paint("hint:", "yellow", process.stderr)} ${printLinesOf(hint)}`);
}

export function printLinesOf(text: string): string {
  return text.split("\n").map(printable).join("\n");
}

/** Standard error. Notes that cannot be written are no failure. */
export function errors(): NodeJS.WriteStream {
  return watched(process.stderr, () => {});
}

/**
 * `| head` reads what it wants and closes: then the command ends quietly, with the code that it has reached so far.
 * Data that cannot be written otherwise (a full disk) is an error.
 */
function endOutput(error: NodeJS.ErrnoException): never {
  if (error.code === "EPIPE") process.exit();
  const { message, hint } = writeFailure(error);
  printError(message, hint);
  process.exit(EXIT.refused);
}

/** Node makes a stream when it is asked for, which takes as long as a command needs for its work. */
function watched(stream: NodeJS.WriteStream, onError: (error: Error) => void): NodeJS.WriteStream {
  if (stream.listenerCount("error") === 0) stream.on("error", onError);
  return stream;
}

/** Throws CommandError when it cannot be written completely. */
export function print(text: string): void {
  if (!fstatSync(STDOUT).isFile()) {
    watched(process.stdout, endOutput).write(text);
    return;
  }
  // On a disk that becomes full, process.stdout takes a partial write for a complete one and does not report it.
  try {
    writeFileSync(STDOUT, text);
  } catch (error) {
    throw writeFailure(error as Error);
  }
}

/** `print` for a text that is all there is, so that it may go past the stream where the other end takes it at once. */
export function printPage(text: string): void {
  const bytes = Buffer.from(text);
  let at = 0;
  try {
    while (at < bytes.length) at += writeSync(STDOUT, bytes, at);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EAGAIN") endOutput(error as Error);
    watched(process.stdout, endOutput).write(bytes.subarray(at));
  }
}

/** Whether stdout is a terminal: it gets colours, and no more of a name than a reader wants. */
export function isTerminal(): boolean {
  return fstatSync(STDOUT).isCharacterDevice() && process.stdout.isTTY === true;
}

/** Columns of the terminal that stdout is, or of one that fits every page. */
export function pageWidth(): number {
  return (fstatSync(STDOUT).isCharacterDevice() ? process.stdout.columns : undefined) ?? PAGE_COLUMNS;
}

function writeFailure({ message }: Error): CommandError {
  return new CommandError(`the answer cannot be written: ${message}`, {
    hint: "do not use what was written so far: it is not whole",
  });
}
