import { readFileSync } from "node:fs";
import { join } from "node:path";

const PROJECT = join(import.meta.dirname, "../..");

/** The blocks of one language below a heading of a document, up to the next heading, as they are written there. */
export function codeBlocks(file: string, heading: string, language = "sh"): string[] {
  const blocks = blocksOf(sectionOf(file, heading, 6)).filter((one) => one.language === language);
  if (blocks.length === 0) throw new Error(`${file}, "${heading}": no block in ${language}`);
  return blocks.map(({ text }) => text);
}

/** A block that a reader types, and what he is told to see then; null: the page says nothing. */
export interface Step {
  readonly typed: string;
  readonly shown: string | null;
}

/**
 * The commands below a heading of the second level and its subheadings, in their order: each `sh` block with the `text`
 * after it.
 */
export function walkthrough(file: string, heading: string): Step[] {
  const blocks = blocksOf(sectionOf(file, heading, 2));
  return blocks.flatMap(({ language, text }, index) => {
    if (language !== "sh") return [];
    const next = blocks[index + 1];
    return [{ typed: text, shown: next?.language === "text" ? next.text : null }];
  });
}

/** The commands of a row of a page's first table: what its second cell has in backticks, one command on each line. */
export function commandsInRow(file: string, row: string): string {
  const lines = readFileSync(join(PROJECT, file), "utf8").split("\n");
  const [, , cell = ""] = lines.find((line) => line.startsWith(`| ${row} `))?.split("|") ?? [];
  const commands = [...cell.matchAll(/`([^`]+)`/g)].map(([, command]) => command);
  if (commands.length === 0) throw new Error(`${file} has no row "${row}" with commands`);
  return commands.join("\n");
}

/** What stands below a heading, up to the next one of at most this level. */
export function sectionOf(file: string, heading: string, level: number): string {
  const text = readFileSync(join(PROJECT, file), "utf8");
  const parts = text.split(new RegExp(`^(?=#{1,${level}} )`, "m"));
  const section = parts.find((part) => part.replace(/^#+ /, "").startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`${file} has no heading "${heading}"`);
  return section;
}

function blocksOf(section: string): { readonly language: string; readonly text: string }[] {
  const blocks = section.matchAll(/^```(\w*)\n(.*?)^```$/gms);
  return [...blocks].map(([, language = "", text = ""]) => ({ language, text }));
}
