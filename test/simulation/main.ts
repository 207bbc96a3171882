import { mkdirSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { parseArgs } from "node:util";
import { type Found, readFound } from "./engine/found.ts";
import { PARTS, type Parts } from "./engine/parts.ts";
import { type Outcome, type RunOptions, run } from "./engine/run.ts";
import { type History, historyOf, replay, type Shrunk, shrink, stepsMaxOf } from "./engine/shrink.ts";
import { LARGE_HISTORY } from "./large/history.ts";
import { largeWorld } from "./large/large.ts";
import { missingOf } from "./story/counts.ts";
import { storyOf, summaryOf } from "./story/summary.ts";
import type { ActionKinds } from "./world.ts";

/** The fault that was put into the product when this was bundled. */
declare const MUTANT: string | null;

const NODES = 5;
const STEPS = 100_000;
/** Of a run that is long enough for everything to be exercised. */
const OWED_AFTER_STEPS = 300_000;
const SHRINK_SECONDS = 240;
/** What a shell says of a process that they have ended. */
const SIGNALS = [
  ["SIGHUP", 129],
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const;

const { values: flags } = parseArgs({
  options: {
    seed: { type: "string" },
    steps: { type: "string" },
    nodes: { type: "string" },
    /** Every line of the history goes to stdout, with each request. */
    story: { type: "boolean", default: false },
    /** A history that was kept. */
    found: { type: "string" },
    /** One fresh seed after the other, until so many seconds of a processor are spent. */
    fresh: { type: "string" },
    /** How long a history that fails is made shorter, seconds of a processor. */
    shrink: { type: "string" },
    /**
     * `etcd-restore=5,pod-create=20`: how often these come, in place of what they say themselves; `*=0.1` and
     * `guest-*=0` are all that begin so, and what is named behind them counts.
     */
    more: { type: "string", default: "" },
    /** Where a history that fails is written to. */
    keep: { type: "string" },
    /** Where the whole history is written to, whatever becomes of it. */
    record: { type: "string" },
    /** Where what became of it is written to. */
    result: { type: "string" },
    /** The history of `large/history.ts`, in a cluster with so many addresses in use already. */
    large: { type: "string" },
    /** After how many steps nothing that is owed may be missing. */
    "owed-after": { type: "string" },
  },
});

const large = flags.large === undefined ? null : largeWorld(Number(flags.large));
/** What the world is made of, with the weights that were given. */
const parts: Parts = large?.parts ?? { ...PARTS, kinds: weighted(PARTS.kinds, flags.more) };

const number = (text: string | undefined, otherwise: number) => (text === undefined ? otherwise : Number(text));
const print = (text: string) => void writeSync(1, `${text}\n`);
const progress = (text: string) => void writeSync(2, `${text}\n`);
const freshSeed = () => Math.floor(Math.random() * 2 ** 32);

/** Its own time: what else a machine does makes neither fewer histories nor longer ones. */
function spentMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

async function main(): Promise<void> {
  // An exit removes the directories of the machines, which a signal alone would leave.
  for (const [signal, code] of SIGNALS) process.once(signal, () => process.exit(code));
  const untilMs = spentMs() + number(flags.fresh, 0) * 1_000;
  const kept = flags.found === undefined ? {} : readFound(readFileSync(flags.found, "utf8"));
  do {
    const isFine = await tell({
      seed: number(flags.seed, freshSeed()),
      nodes: number(flags.nodes, NODES),
      steps: number(flags.steps, STEPS),
      ...kept,
      ...(large && { steps: Number.POSITIVE_INFINITY, actions: LARGE_HISTORY, tailMs: 0 }),
    });
    if (!isFine) process.exitCode = 1;
  } while (spentMs() < untilMs && process.exitCode !== 1);
}

/** One history. false: something is wrong with it. */
async function tell(options: RunOptions): Promise<boolean> {
  progress(`seed ${options.seed}`);
  const begunMs = spentMs();
  const outcome = await run(parts, { ...options, ...(flags.story && { onLine: print }) });
  const processorMs = spentMs() - begunMs;
  const { violation, counts, steps } = outcome;
  const isKept = flags.found !== undefined || large !== null;
  const isLong = steps >= number(flags["owed-after"], OWED_AFTER_STEPS) && !isKept;
  const missing = isLong && violation === null ? missingOf(PARTS.owed, counts) : [];
  print(summaryOf({ options, outcome, processorMs, missing }));
  if (flags.result !== undefined) writeResult(flags.result, options, outcome, missing, processorMs);
  if (flags.record !== undefined) writeHistory(flags.record, options.seed, historyOf(options.nodes, outcome), outcome);
  if (violation === null) return missing.length === 0;
  print(`\n${violation.kind}: ${violation.stack ?? violation.message}`);
  // Every part of that history needs what was before it.
  if (large !== null) return false;
  await explain(options, outcome);
  return false;
}

/** The shortest history that still fails, as a file and as a story. */
async function explain({ seed, nodes }: RunOptions, failed: Outcome): Promise<void> {
  const seconds = number(flags.shrink, SHRINK_SECONDS);
  const deadlineMs = spentMs() + seconds * 1_000;
  const isTimeUp = () => spentMs() > deadlineMs;
  const shrunk = seconds === 0 ? null : await shrink(failed, nodes, { parts, seed, isTimeUp, progress });
  if (seconds > 0 && shrunk === null)
    print("told again, it does not fail: something that the seed does not decide was in it");
  const { history, outcome }: Shrunk = shrunk ?? { history: historyOf(nodes, failed), outcome: failed };
  const path = flags.keep ?? `build/found-${seed}.json`;
  writeHistory(path, seed, history, outcome);
  const lines: string[] = [];
  if (shrunk !== null) await replay(parts, seed, history, stepsMaxOf(outcome), { onLine: (line) => lines.push(line) });
  print(storyOf(lines.length > 0 ? lines : failed.lastLines));
  print(
    `\n${outcome.violation?.kind}: ${outcome.violation?.message}\nkept in ${path}; make simulate FOUND=${path} tells it again`,
  );
}

function writeHistory(path: string, seed: number, history: History, outcome: Outcome): void {
  const { violation } = outcome;
  const found: Found = {
    why: violation?.message ?? "",
    violation: violation?.kind ?? "",
    mutant: MUTANT,
    seed,
    steps: stepsMaxOf(outcome),
    ...history,
  };
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(found, null, 1)}\n`);
}

function writeResult(
  path: string,
  options: RunOptions,
  outcome: Outcome,
  missing: readonly string[],
  processorMs: number,
): void {
  const { violation, steps, virtualMs, digest, counts } = outcome;
  const result = {
    seed: options.seed,
    violation: violation && { kind: violation.kind, message: violation.message },
    steps,
    virtualMs,
    processorMs,
    digest,
    missing,
    counts: Object.fromEntries(counts.all),
    charges: large?.charges() ?? [],
  };
  writeFileSync(path, `${JSON.stringify(result)}\n`);
}

function weighted(kinds: ActionKinds, text: string): ActionKinds {
  const given = text.split(",").flatMap((one) => {
    const [name = "", weight] = one.split("=");
    if (name === "") return [];
    const meant = name.endsWith("*") ? Object.keys(kinds).filter((kind) => kind.startsWith(name.slice(0, -1))) : [name];
    return meant.map((kind) => {
      const known = kinds[kind];
      if (known === undefined) throw new Error(`nobody does ${kind}`);
      return [kind, { ...known, weight: Number(weight), run: known.run }] as const;
    });
  });
  return { ...kinds, ...Object.fromEntries(given) };
}

void main();
