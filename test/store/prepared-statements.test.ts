import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { expect, it } from "vitest";
import { systemClock } from "../../platform/time.ts";
import { openDatabase } from "../../store/journal/files/database-file.ts";
import { migrate } from "../../store/journal/migrations.ts";
import { prepareStatements } from "../../store/journal/statements.ts";

const EXECUTIONS = 40;
const ROUNDS = 25;

it("no query of a request is prepared anew by each of its executions", () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-statements-"));
  const file = openDatabase(directory, {
    clock: systemClock,
    bootId: "boot",
    isRelaxed: false,
    boot: null,
    migrate,
  });
  const { db } = file;
  try {
    const queries = Object.entries(prepareStatements(db)).filter(
      (entry): entry is [string, Database.Statement<unknown[]>] => entry[1].reader,
    );
    expect(queries.length).toBeGreaterThan(30);
    // Of an empty database an execution costs a fraction of a preparation, whatever the machine does meanwhile: the
    // shortest of many rounds of each.
    const shares = queries.map(([name, query]) => {
      const { source } = query;
      const parameters = Array.from(source.matchAll(/\?/g), () => 1);
      const executed = shortest(() => query.all(...parameters));
      const prepared = shortest(() => db.prepare(source));
      return { name, share: executed / prepared };
    });
    expect(shares.filter(({ share }) => share > 0.5)).toEqual([]);
  } finally {
    file.close();
    rmSync(directory, { recursive: true });
  }
});

/** The shortest round of executions, ms. */
function shortest(work: () => void): number {
  const rounds = Array.from({ length: ROUNDS }, () => {
    const startMs = performance.now();
    for (let execution = 0; execution < EXECUTIONS; execution += 1) work();
    return performance.now() - startMs;
  });
  return Math.min(...rounds);
}
