import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type Database from "better-sqlite3";
import { expect, it } from "vitest";
import { systemClock } from "../../platform/time.ts";
import { openDatabase } from "../../store/journal/files/database-file.ts";
import { Notes } from "../../store/journal/files/notes.ts";
import { migrate } from "../../store/journal/migrations.ts";
import { prepareStatements } from "../../store/journal/statements.ts";

const EXECUTIONS = 40;
const ROUNDS = 25;

/** Columns by which a request looks for uses, of which a node has as many as containers. */
const LOOKED_FOR_BY = /\b(container_id|owner_uid|pod_uid) = /;

it("no query of a request is prepared anew by each of its executions", () => {
  withQueries((queries, db) => {
    expect(queries.length).toBeGreaterThan(30);
    // Of an empty database an execution costs a fraction of a preparation, whatever the machine does meanwhile: the
    // shortest of many rounds of each.
    const shares = queries.map(([name, query]) => {
      const { source } = query;
      const executed = shortest(() => query.all(...parametersOf(source)));
      const prepared = shortest(() => db.prepare(source));
      return { name, share: executed / prepared };
    });
    expect(shares.filter(({ share }) => share > 0.5)).toEqual([]);
  });
});

it("uses are looked for through an index of what the query names", () => {
  withQueries((queries, db) => {
    const plans = queries.flatMap(([name, { source }]) => {
      const [, column] = /\bFROM uses\b/.test(source) ? (LOOKED_FOR_BY.exec(source) ?? []) : [];
      if (column === undefined) return [];
      return [{ name, column, plan: planOf(db, source) }];
    });
    expect(plans.length).toBeGreaterThan(7);
    const wrong = plans.filter(({ column, plan }) => !plan.includes(`(${column}=?`));
    expect(wrong).toEqual([]);
  });
});

it("the attachments of all networks are counted in the order of an index", () => {
  withQueries((queries, db) => {
    const counts = queries.filter(([, { source }]) => /GROUP BY network_id/.test(source));
    expect(counts).not.toEqual([]);
    for (const [name, { source }] of counts) expect(planOf(db, source), name).not.toContain("TEMP B-TREE");
  });
});

function planOf(db: Database.Database, source: string): string {
  const steps = db.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${source}`).all(...parametersOf(source));
  return steps.map(({ detail }) => detail).join("; ");
}

function withQueries(look: (queries: [string, Database.Statement<unknown[]>][], db: Database.Database) => void): void {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-statements-"));
  const log = { info: () => {}, error: () => {} };
  const file = openDatabase(directory, {
    clock: systemClock,
    notes: new Notes(directory, { bootRecord: null, bootId: "any", log }),
    log,
    isRelaxed: false,
    isSound: () => false,
    migrate,
  });
  try {
    const queries = Object.entries(prepareStatements(file.db)).filter(
      (entry): entry is [string, Database.Statement<unknown[]>] => entry[1].reader,
    );
    look(queries, file.db);
  } finally {
    file.close();
    rmSync(directory, { recursive: true });
  }
}

function parametersOf(source: string): number[] {
  return Array.from(source.matchAll(/\?/g), () => 1);
}

/** The shortest round of executions, ms. */
function shortest(work: () => void): number {
  const rounds = Array.from({ length: ROUNDS }, () => {
    const startMs = performance.now();
    for (let execution = 0; execution < EXECUTIONS; execution += 1) work();
    return performance.now() - startMs;
  });
  return Math.min(...rounds);
}
