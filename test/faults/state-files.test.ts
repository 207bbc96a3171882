/**
 * Whatever has become of the files of a state directory: a start has every answer, or it is refused and names the
 * command with which an operator goes on. It is refused only where something is lost, or where no note of what was
 * answered is left.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Random, seededRandom } from "./random.ts";
import {
  type Case,
  ENDINGS,
  type Ending,
  FATES,
  type Fate,
  FILES,
  type FileName,
  NOTES,
  REMEMBERED,
  StateFiles,
} from "./state-files.ts";

const SEEDS = 20_000;
const LIMIT_MS = 600_000;
const FAULTS_SHOWN_MAX = 20;
const COUNTED = ["started", "refused", "unknown"] as const;

/** The files of each case are those of lives that are lived once. */
let files: StateFiles;
beforeAll(async () => {
  files = await StateFiles.create();
});
afterAll(() => files.remove());

function caseOf(ending: Ending, isRebooted: boolean, fates: Iterable<readonly [FileName, Fate]> = []): Case {
  return {
    ending,
    isRebooted,
    fates: new Map([...FILES.map((name) => [name, "as it was"] as const), ...fates]),
  };
}

function describeCase({ ending, isRebooted, fates }: Case): string {
  const changed = [...fates].filter(([, fate]) => fate !== "as it was").map(([name, fate]) => `${name} ${fate}`);
  return `${ending}${isRebooted ? ", rebooted" : ""}: ${changed.join(", ")}`;
}

interface Verdict {
  readonly what: (typeof COUNTED)[number];
  /** null: as it must be. */
  readonly fault: string | null;
}

function judge(one: Case): Verdict {
  const answered = files.answered(one);
  const [both, alone] = [true, false].map((withLog) => files.read(one, { withLog }));
  const notes = NOTES.filter((name) => !(name === REMEMBERED && one.isRebooted));
  const isKnown = notes.some((name) => !files.isChanged(one, name));
  const outcome = files.start(one);
  if (outcome.kind === "started") {
    if (outcome.rows === answered) return { what: "started", fault: null };
    if (isKnown) return { what: "started", fault: "an answer is lost in silence" };
    // What is left agrees with itself, as if it were the whole directory of an earlier time, or there is nothing left.
    const hasNotes = notes.some((name) => files.has(one, name));
    const isEmpty = FILES.every((name) => !files.has(one, name) || (name === REMEMBERED && one.isRebooted));
    return { what: "unknown", fault: hasNotes || isEmpty ? null : "a database without notes is believed" };
  }
  // Of another file in place of the database nobody can tell that it happens to have all that counts.
  const isWhole = [both, alone].includes(answered) && !files.isChanged(one, "state/holdfast.db");
  // Two notes of two databases, and nothing outside of the directory that says which of them was here.
  const remembers = !one.isRebooted && ["as it was", "older", "opening"].includes(one.fates.get(REMEMBERED) as Fate);
  const isContested = !remembers && NOTES.some((name) => one.fates.get(name) === "foreign");
  if (isKnown && isWhole && !isContested) return { what: "refused", fault: `nothing is lost, but ${outcome.says}` };
  const isBackup = outcome.command.includes("--from BACKUP,");
  const expected = isBackup ? [files.backedUp(one)] : [both, alone];
  const isRestored = expected.includes(outcome.rows);
  return {
    what: "refused",
    fault: isRestored ? null : `${outcome.command} does not bring back what there is`,
  };
}

class Counts {
  readonly #counts = new Map<string, number>();
  readonly #faults: string[] = [];

  judge(one: Case): void {
    const { what, fault } = judge(one);
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
    if (fault !== null) this.#faults.push(`${describeCase(one)}: ${fault}`);
  }

  /** At least so many of each that was started or refused, so that the test has seen both. */
  expectBoth(least: number, what: string): void {
    console.log(`${what}: ${COUNTED.map((one) => `${this.#counts.get(one) ?? 0} ${one}`).join(", ")}`);
    expect(this.#faults.slice(0, FAULTS_SHOWN_MAX), `${this.#faults.length} faults`).toEqual([]);
    expect(Math.min(this.#counts.get("started") ?? 0, this.#counts.get("refused") ?? 0)).toBeGreaterThanOrEqual(least);
  }
}

function* starts(): Generator<readonly [Ending, boolean]> {
  for (const ending of ENDINGS) for (const isRebooted of [false, true]) yield [ending, isRebooted];
}

test(
  "every subset of the files is missing",
  () => {
    const counts = new Counts();
    for (const start of starts())
      for (let subset = 0; subset < 2 ** FILES.length; subset += 1)
        counts.judge(
          caseOf(
            ...start,
            FILES.filter((_, index) => subset & (1 << index)).map((name) => [name, "missing"]),
          ),
        );
    counts.expectBoth(50, "missing files");
  },
  LIMIT_MS,
);

test(
  "every two files have every two fates",
  () => {
    const counts = new Counts();
    for (const start of starts())
      for (const [index, one] of FILES.entries())
        for (const other of FILES.slice(index + 1))
          for (const fate of FATES)
            for (const otherFate of FATES)
              counts.judge(
                caseOf(...start, [
                  [one, fate],
                  [other, otherFate],
                ]),
              );
    counts.expectBoth(500, "pairs of fates");
  },
  LIMIT_MS,
);

test(
  `any files have any fates (${SEEDS} times)`,
  () => {
    const random = seededRandom("fates");
    const counts = new Counts();
    for (let left = SEEDS; left > 0; left -= 1) counts.judge(anyCase(random));
    counts.expectBoth(SEEDS / 20, "any fates");
  },
  LIMIT_MS,
);

function anyCase(random: Random): Case {
  const fates = FILES.map((name) => [name, random.chance(0.4) ? "as it was" : random.pick([...FATES])] as const);
  return caseOf(random.pick([...ENDINGS]), random.chance(0.5), fates);
}
