import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MUTANTS } from "../mutants/all.ts";
import found from "../mutants/found.json" with { type: "json" };
import { editsOf, type Mutants } from "../mutants/mutant.ts";
import { PATIENCE_MS, Simulation } from "../simulate.ts";

const ROOT = join(import.meta.dirname, "../../..");
const patience = { timeout: PATIENCE_MS };

interface FoundBy {
  /** The first of those that are tried. */
  readonly seed: number;
  /** Before the last time of peace. */
  readonly steps: number;
  /** With it, until something was wrong. */
  readonly took: number;
  /** What the oracle called it: what comes first depends on the seed. */
  readonly kind: string;
  /** What happens more often than usually in it. */
  readonly more?: string;
  readonly nodes?: number;
}
const FOUND: Readonly<Record<string, FoundBy>> = found;
/** The world changes, and with it what a seed means: one of so many in a row finds the fault. */
const SEEDS = 4;
const NODES = 5;

/** One in so many is tried in each run, others with each commit. */
const TENTH = 10;
const TURN = Number(git("rev-list", "--count", "HEAD") ?? 0) % TENTH;
const CHANGED = changedFiles();
const ALL = process.env.HOLDFAST_TEST_MUTANTS === "all" || CHANGED.some((file) => /^test\/simulation\//.test(file));

/** Whether the simulation finds a fault depends on the simulation and on the files that the fault is in. */
function isTried(name: string, at: number): boolean {
  const edits = editsOf(MUTANTS[name] as Mutants[string]);
  return ALL || at % TENTH === TURN || edits.some(({ file }) => CHANGED.includes(file));
}

/** By this branch; where it is the main one, by its last commit. */
function changedFiles(): string[] {
  const head = git("rev-parse", "HEAD");
  const base = git("merge-base", "HEAD", "origin/main") ?? head;
  return git("diff", "--name-only", base === head ? "HEAD~1" : (base as string))?.split("\n") ?? [];
}

/** null: it failed, as without a repository or in a shallow clone. */
function git(...args: string[]): string | null {
  try {
    return execFileSync("git", args, {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return null;
  }
}

let sound: Simulation;
beforeAll(() => {
  sound = new Simulation();
}, PATIENCE_MS);
afterAll(() => sound.remove());

test.each(Object.entries(FOUND).filter(([name], at) => isTried(name, at)))(
  "%s is found, and nothing is wrong with the sound product in the same history",
  patience,
  async (name, first) => {
    const spoiled = new Simulation(name);
    const seen: string[] = [];
    try {
      for (let seed = first.seed; seed < first.seed + SEEDS; seed += 1) {
        const [kind, otherwise] = await Promise.all([spoiled, sound].map((one) => kindIn(one, { ...first, seed })));
        seen.push(`seed ${seed}: ${kind ?? "nothing"}, and ${otherwise ?? "nothing"} without it`);
        if (kind != null && otherwise === null) return;
      }
      expect.fail(`expected ${first.kind} of ${name}: ${seen.join("; ")}`);
    } finally {
      spoiled.remove();
    }
  },
);

/** What is wrong in a history; null: nothing. */
async function kindIn(simulation: Simulation, one: FoundBy): Promise<string | null> {
  const { seed, steps, more = "", nodes = NODES } = one;
  const { result, stderr } = await simulation.run({ seed, steps, more, nodes });
  if (result === null) throw new Error(`the run did not come to an end: ${stderr.slice(-2_000)}`);
  return result.violation?.kind ?? null;
}
