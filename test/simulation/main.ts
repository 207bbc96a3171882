import { readFileSync, writeSync } from "node:fs";
import { parseArgs } from "node:util";
import { readFound } from "./engine/found.ts";
import { PARTS } from "./engine/parts.ts";
import { type RunOptions, run } from "./engine/run.ts";
import { summaryOf } from "./story/summary.ts";

const NODES = 5;
const STEPS = 100_000;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seed: { type: "string" },
      steps: { type: "string" },
      nodes: { type: "string" },
      /** Every line of the history goes to stdout. */
      story: { type: "boolean", default: false },
      /** A history that was kept. */
      found: { type: "string" },
    },
  });

  const options: RunOptions = {
    seed: values.seed ? Number(values.seed) : Math.floor(Math.random() * 2 ** 32),
    nodes: Number(values.nodes ?? NODES),
    steps: Number(values.steps ?? STEPS),
    ...(values.found === undefined ? {} : readFound(readFileSync(values.found, "utf8"))),
    ...(values.story && { onLine: (line) => void writeSync(1, `${line}\n`) }),
  };
  const begunMs = performance.now();
  const outcome = await run(PARTS, options);
  console.log(summaryOf({ options, outcome, elapsedMs: performance.now() - begunMs }));
  if (outcome.violation) {
    console.log(outcome.lastLines.join("\n"));
    console.log(`\n${outcome.violation.stack}`);
    process.exitCode = 1;
  }
}

void main();
