import { describe, expect, test } from "vitest";
import { type Column, Table } from "../../cli/formats/table.ts";
import { count, formatAge, formatBytes, formatCount } from "../../cli/human.ts";
import { printable } from "../../cli/terminal.ts";

const NOW = "2026-06-01T12:00:00Z";
const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

test.each([
  [-30, "0s", "a clock that went backwards"],
  [0, "0s", ""],
  [119, "119s", "seconds up to two minutes"],
  [120, "2m", "a whole number of minutes has no seconds"],
  [5 * MINUTE + 30, "5m30s", "seconds still matter"],
  [10 * MINUTE + 30, "10m", "they no longer do"],
  [3 * HOUR - 1, "179m", ""],
  [3 * HOUR, "3h", ""],
  [7 * HOUR + 59 * MINUTE, "7h59m", ""],
  [8 * HOUR + 59 * MINUTE, "8h", ""],
  [2 * DAY - 1, "47h", ""],
  [2 * DAY + 5 * HOUR, "2d5h", ""],
  [8 * DAY + 5 * HOUR, "8d", ""],
  [729 * DAY, "729d", ""],
  [2 * 365 * DAY + 40 * DAY, "2y40d", ""],
  [9 * 365 * DAY, "9y", ""],
])("an age of %d s is %s, as kubectl says it", (seconds, text) => {
  expect(formatAge(new Date(Date.parse(NOW) - seconds * 1_000).toISOString(), Date.parse(NOW))).toBe(text);
});

test.each([
  ["0", "0"],
  ["254", "254"],
  ["16777216", "16777216"],
  ["4294967296", "4294967296"],
  ["9999999999", "9999999999"],
  ["17179869184", "2^34"],
  ["17179869183", "1.7e10"],
  ["18446744073709551616", "2^64"],
  ["18446744073709551613", "1.8e19"],
  [String(1n << 128n), "2^128"],
])("%s addresses read %s", (exact, text) => {
  expect(formatCount(exact)).toBe(text);
});

test.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1.0 KiB"],
  [90_112, "88 KiB"],
  [1_572_864, "1.5 MiB"],
  [5 * 1024 ** 4, "5.0 TiB"],
])("%d bytes are %s", (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test("counted things agree with their number", () => {
  expect([0, 1, 2, 0n, 1n, 7n].map((n) => count(n, "claim"))).toEqual([
    "no claims",
    "1 claim",
    "2 claims",
    "no claims",
    "1 claim",
    "7 claims",
  ]);
});

function formatTable<T>(items: readonly T[], columns: readonly Column<T>[], terminal = false): string {
  const table = new Table(columns, {}, terminal);
  for (const item of items) table.add(item);
  return [...table.text()].join("");
}

describe("tables", () => {
  const columns = [
    { header: "NAME", cell: ([name]: readonly string[]) => name ?? "" },
    { header: "NETWORK", cell: ([, network]: readonly string[]) => network ?? "" },
    { header: "AGE", cell: ([, , age]: readonly string[]) => age ?? "" },
  ];

  test("columns are as wide as their widest cell, and lines end without spaces", () => {
    expect(
      formatTable(
        [
          ["vm1", "blue", "3m"],
          ["a-longer-name", "red", "2d4h"],
        ],
        columns,
      ),
    ).toBe(
      ["NAME            NETWORK   AGE", "vm1             blue      3m", "a-longer-name   red       2d4h", ""].join(
        "\n",
      ),
    );
  });

  test("an empty cell is a dash, so that columns can be cut by awk", () => {
    expect(formatTable([["vm1", "", ""]], columns)).toBe("NAME   NETWORK   AGE\nvm1    -         -\n");
  });

  const long = "x".repeat(64 << 10);
  const rows = [[long, "blue", "3m"], ...Array.from({ length: 20 }, (_, n) => [`vm${n}`, "red", "1h"])];

  test("a name of 64 KiB is whole in a pipe, and does not widen the other lines", () => {
    const lines = formatTable(rows, columns).split("\n");
    expect(lines[1]).toBe(`${long}   blue      3m`);
    expect(lines[2]).toBe(`${"vm0".padEnd(96)}   red       1h`);
    expect(lines.join("\n").length).toBeLessThan(long.length + 22 * 200);
  });

  test("a name of 64 KiB is cut on a terminal", () => {
    const lines = formatTable(rows, columns, true).split("\n");
    expect(lines[1]).toBe(`${"x".repeat(95)}…   blue      3m`);
    expect(lines.join("\n").length).toBeLessThan(4_096);
  });

  test("a character of two units is not cut in half", () => {
    expect(formatTable([[`${"x".repeat(94)}😀😀`, "", ""]], columns, true)).toContain(`${"x".repeat(94)}…   -`);
  });

  describe("on a terminal of some columns", () => {
    const [name, network, age] = columns as [
      Column<readonly string[]>,
      Column<readonly string[]>,
      Column<readonly string[]>,
    ];
    const cells = ["virt-launcher-database-0-x7k2p", "2001:db8:1234:5678:9abc:def0:1234:5678/64", "3m"];
    const linesAt = (fitTo: number, isWhole = false) => {
      const table = new Table([name, { ...network, isWhole }, age], { fitTo }, true);
      table.add(cells);
      return [...table.text()].join("").trimEnd().split("\n");
    };

    test.each([200, 79, 60, 50, 40])("lines fit into %i", (columnsOfTerminal) => {
      for (const line of linesAt(columnsOfTerminal)) expect(line.length).toBeLessThanOrEqual(columnsOfTerminal);
    });

    test("the widest cells are cut, and a column that is copied never is", () => {
      expect(linesAt(200)[1]).toBe(cells.join("   "));
      expect(linesAt(65, true)[1]).toBe(`virt-launcher-…   ${cells[1]}   3m`);
      // Too narrow: it wraps, and nothing is lost that cannot be recognised.
      expect(linesAt(20, true)[1]).toBe(`virt-laun…   ${cells[1]}   3m`);
    });

    test("in a pipe and as csv everything is whole", () => {
      const table = new Table(columns, { fitTo: 20 }, false);
      table.add(cells);
      expect([...table.text()].join("")).toContain(cells.join("   "));
    });
  });

  test("what comes from outside cannot move the cursor or break a line", () => {
    expect(formatTable([["a\u001b[2Jb\n", "c\u202ed", "é"]], columns)).toBe(
      "NAME                NETWORK    AGE\na\\u001b[2Jb\\u000a   c\\u202ed   é\n",
    );
    expect(printable("web-0\u0007")).toBe("web-0\\u0007");
  });
});
