import { CommandError } from "./failure.ts";
import { errors, printable } from "./terminal.ts";

/**
 * Asks on a terminal whether to go on. Without one nobody could answer: refused with the hint `--yes`, so that a script
 * neither waits for ever nor takes what it did not mean (docs/decisions/0061).
 */
export async function confirm(what: readonly string[]): Promise<void> {
  const text = what.map((line) => `${printable(line)}\n`).join("");
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new CommandError(`nothing is deleted: ${what.join("; ")}`, {
      hint: "with --yes it is deleted without a question",
    });
  }
  errors().write(text);
  const { createInterface } = await import("node:readline/promises");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question("Delete? [y/N] ");
    if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError("nothing is deleted");
  } finally {
    lines.close();
  }
}
