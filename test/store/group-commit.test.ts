import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { GroupCommit, type Transaction } from "../../store/journal/group-commit.ts";
import { ManualClock } from "../harness/manual-clock.ts";

let db: Database.Database;
let commits: GroupCommit;
let memory: string[];

beforeEach(() => {
  db = new Database(":memory:");
  db.exec("CREATE TABLE rows (name TEXT PRIMARY KEY) STRICT");
  memory = [];
  commits = new GroupCommit(db, { clock: new ManualClock() }, (fault) => {
    throw fault;
  });
});
afterEach(() => db.close());

/** Writes a row and its image in memory, then fails where it is told to. Counts how often it is run. */
function writing(name: string, problem?: string) {
  const runs = { count: 0 };
  const work = (transaction: Transaction) => {
    runs.count += 1;
    db.prepare("INSERT INTO rows VALUES (?)").run(name);
    memory.push(name);
    transaction.onRollback(() => expect(memory.pop()).toBe(name));
    if (problem !== undefined) throw new Error(problem);
    return `${name} is written`;
  };
  return { runs, work };
}

const rows = () => db.prepare<[], string>("SELECT name FROM rows ORDER BY rowid").pluck().all();

test("repeatable requests run once when none of them fails", async () => {
  const works = ["a", "b", "c"].map((name) => writing(name));
  const answers = await Promise.all(works.map(({ work }) => commits.submit(work, { canRepeat: true })));
  expect(answers).toEqual(["a is written", "b is written", "c is written"]);
  expect(works.map(({ runs }) => runs.count)).toEqual([1, 1, 1]);
  expect(rows()).toEqual(["a", "b", "c"]);
  expect(memory).toEqual(["a", "b", "c"]);
});

test.each([
  [true, [2, 2, 1], "all are run again, those behind it for the first time"],
  [false, [1, 1, 1], "nothing may be run twice"],
])(
  "a request that fails leaves nothing behind and the others are committed; repeatable: %s",
  async (canRepeat, counts) => {
    const works = [writing("a"), writing("b", "b is refused"), writing("c")];
    const outcomes = await Promise.allSettled(works.map(({ work }) => commits.submit(work, { canRepeat })));
    expect(outcomes.map((one) => (one.status === "fulfilled" ? one.value : one.reason.message))).toEqual([
      "a is written",
      "b is refused",
      "c is written",
    ]);
    expect(works.map(({ runs }) => runs.count)).toEqual(counts);
    expect(rows()).toEqual(["a", "c"]);
    expect(memory).toEqual(["a", "c"]);
  },
);

test("no request runs twice beside one that must not be repeated", async () => {
  const works = [writing("a"), writing("b", "b is refused"), writing("c")];
  const outcomes = await Promise.allSettled(
    works.map(({ work }, index) => commits.submit(work, { canRepeat: index < 2 })),
  );
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(works.map(({ runs }) => runs.count)).toEqual([1, 1, 1]);
  expect(rows()).toEqual(["a", "c"]);
});
