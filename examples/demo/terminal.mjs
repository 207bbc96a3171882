// What a person reads: as wide as the terminal is, and as it comes where there is none.
const { stdout } = process;
/** Columns of holdfast's tables that say least where there is one node and one network, least first. */
const DISPENSABLE = ["NODE", "NETWORK", "NAMESPACE", "SOURCE", "AGE", "VM", "STATE", "USED BY"];
const GAP = "   ";
const leftOut = new Set();
let isLeftOutSaid = false;

/** One line, broken between words; what follows is indented. */
export function say(text = "") {
  stdout.write(`${stdout.columns === undefined ? text : wrap(text, stdout.columns)}\n`);
}

/** The output of a command: a table loses columns until it fits, or as many as it can. */
export function sayOutput(text) {
  const lines = text.trimEnd().split("\n");
  const { columns: width = Number.POSITIVE_INFINITY } = stdout;
  const isTable = /^[A-Z]+ {3,}[A-Z]/.test(lines[0]);
  for (const line of isTable ? narrow(lines, width) : lines) say(line);
  if (leftOut.size > 0 && !isLeftOutSaid) {
    isLeftOutSaid = true;
    say(`  (columns that this terminal has no room for are left out: ${[...leftOut].join(", ")})`);
  }
}

function wrap(text, width) {
  const indent = " ".repeat(text.search(/\S|$/) + 4);
  const lines = [];
  let line = text;
  while (line.length > width) {
    const at = line.lastIndexOf(" ", width);
    // A word that is wider than the terminal is broken by the terminal.
    if (at <= indent.length) break;
    lines.push(line.slice(0, at).trimEnd());
    line = indent + line.slice(at + 1);
  }
  return [...lines, line].join("\n");
}

function narrow(lines, width) {
  let table = cells(lines);
  for (const header of DISPENSABLE) {
    if (widthOf(table) <= width) break;
    const at = table[0].indexOf(header);
    if (at === -1) continue;
    leftOut.add(header);
    table = table.map((row) => row.toSpliced(at, 1));
  }
  const widths = widthsOf(table);
  return table.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at]))
      .join(GAP)
      .trimEnd(),
  );
}

/** The header's words begin where their columns do. */
function cells(lines) {
  const starts = [...lines[0].matchAll(/\S+( \S+)*/g)].map(({ index }) => index);
  return lines.map((line) => starts.map((start, at) => line.slice(start, starts[at + 1]).trimEnd()));
}

function widthsOf(table) {
  return table[0].map((_, at) => Math.max(...table.map((row) => row[at].length)));
}

function widthOf(table) {
  return widthsOf(table).reduce((sum, width) => sum + width + GAP.length, -GAP.length);
}
