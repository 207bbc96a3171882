/** What differs from run to run, by what stands for it in a golden. */
const VARIABLE: readonly (readonly [RegExp, string])[] = [
  [/\b\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d([.-]\d{3})?Z/g, "<time>"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, "<uid>"],
  [/(?<=for another )\w+$/gm, "<age>"],
  [/\b\d+m?(\d+)?s(?= ago\b|$| {3})/gm, "<age>"],
  [/\b\d+(\.\d)? [KM]iB\b/g, "<size>"],
];

/** A text of this run as it would be in any run. */
export function normalise(text: string, directory: string): string {
  const fixed = VARIABLE.reduce(
    (result, [found, name]) => result.replaceAll(found, name),
    text.replaceAll(directory, "<directory>"),
  );
  return alignTables(fixed);
}

/** Columns as wide as what stands in them now. No cell is empty, so three spaces are always a gap. */
function alignTables(text: string): string {
  const lines = text.split("\n");
  for (let first = 0; first < lines.length; first += 1) {
    if (!/^[A-Z]+( [A-Z]+)* {3,}[A-Z]/.test(lines[first] as string)) continue;
    let end = first;
    while ((lines[end] ?? "").includes("   ")) end += 1;
    const rows = lines.slice(first, end).map((line) => line.split(/ {3,}/));
    const width = (at: number) => Math.max(...rows.map((row) => row[at]?.length ?? 0));
    for (const [index, row] of rows.entries()) {
      lines[first + index] = row
        .map((cell, at) => cell.padEnd(width(at)))
        .join("   ")
        .trimEnd();
    }
    first = end;
  }
  return lines.join("\n");
}
