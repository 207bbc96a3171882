import { readFileSync } from "node:fs";
import { join } from "node:path";

const PROJECT = join(import.meta.dirname, "../..");

/** The blocks of one language below a heading of a document, up to the next heading, as they are written there. */
export function codeBlocks(file: string, heading: string, language = "sh"): string[] {
  const text = readFileSync(join(PROJECT, file), "utf8");
  const parts = text.split(/^(?=#{1,6} )/m);
  const section = parts.find((part) => part.replace(/^#+ /, "").startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`${file} has no heading "${heading}"`);
  const blocks = [...section.matchAll(/^```(\w*)\n(.*?)^```$/gms)].filter(([, name]) => name === language);
  if (blocks.length === 0) throw new Error(`${file}, "${heading}": no block in ${language}`);
  return blocks.map(([, , block]) => block as string);
}
