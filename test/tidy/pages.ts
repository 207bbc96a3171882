import { read } from "./tracked.ts";

/**
 * Items of lists, rows of tables and paragraphs of a section, each as one line; what only leads to a list and sections
 * within it are left out.
 */
export function statementsIn(page: string, section: string): string[] {
  const [, text] = read(page).split(`\n## ${section}\n`);
  if (text === undefined) throw new Error(`${page} has no section "${section}"`);
  const [own = ""] = text.split(/\n##+ /);
  const blocks = own.replaceAll(/```[\s\S]*?```/g, "").split(/\n\s*\n/);
  return blocks.flatMap(statementsOf).map((one) => one.replaceAll(/\s+/g, " ").trim());
}

function statementsOf(block: string): string[] {
  const text = block.trim();
  if (text === "") return [];
  if (text.startsWith("|"))
    return text
      .split("\n")
      .slice(2)
      .map((row) => row.replaceAll(/^\|\s*|\s*\|$/g, ""));
  if (/^(- |\d+\. )/m.test(text))
    return text
      .slice(text.search(/^(- |\d+\. )/m))
      .split(/^(?:- |\d+\. )/m)
      .filter((item) => item.trim() !== "" && !item.trim().endsWith(":"));
  return text.endsWith(":") ? [] : [text];
}
