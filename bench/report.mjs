// Collects what was measured, and prints it for a terminal or as the rows of README.md's table.

export class Report {
  #rows = [];
  #markdown;

  constructor({ markdown }) {
    this.#markdown = markdown;
  }

  say(text) {
    process.stderr.write(`${text}\n`);
  }

  /** `reached` null: a number without a bound, for comparison. */
  row(what, bound, measured, reached) {
    this.#rows.push([what, bound, measured, reached === null ? "" : reached ? "reached" : "MISSED"]);
    this.say(`${what}: ${measured}${bound ? ` (bound ${bound})` : ""} ${this.#rows.at(-1)[3]}`);
  }

  print(machine) {
    if (this.#markdown) {
      process.stdout.write(`${machine}\n\n| what | bound | measured | |\n|---|---|---|---|\n`);
      for (const row of this.#rows) process.stdout.write(`| ${row.join(" | ")} |\n`);
      return;
    }
    const widths = [0, 1, 2].map((column) => Math.max(...this.#rows.map((row) => row[column].length)));
    process.stdout.write(`\n${machine}\n\n`);
    for (const row of this.#rows) {
      process.stdout.write(
        `${row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("   ")
          .trimEnd()}\n`,
      );
    }
    const missed = this.#rows.filter((row) => row[3] === "MISSED").length;
    process.stdout.write(`\n${missed === 0 ? "every bound reached" : `${missed} bounds missed`}\n`);
  }
}

export const ms = (us) => `${(us / 1000).toFixed(2)} ms`;
export const times = (ratio) => `${ratio < 0.1 ? ratio.toFixed(4) : ratio.toFixed(2)} ×`;
