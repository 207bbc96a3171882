import { randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { PATIENCE_MS, Simulation } from "../simulate.ts";

/** Of a processor. */
const SECONDS = 60;
const STEPS = 20_000;
/**
 * What must not happen in any history. The other kinds are printed: some are known to come once in a million steps
 * (docs/simulation.md), so that they would fail one run of this test in five.
 */
const NEVER = /^(given-twice|freed-in-use|stranger-answered|wrong-identity|answered-unheld|thrown .*)$/;

test("histories of fresh seeds have no violation", {
  timeout: PATIENCE_MS,
}, async () => {
  const simulation = new Simulation();
  try {
    let [spentMs, count] = [0, 0];
    for (; spentMs < SECONDS * 1_000; count += 1) {
      const seed = randomInt(2 ** 32);
      const { code, stdout, result } = await simulation.run({ seed, steps: STEPS });
      expect(result, `seed ${seed} ended with ${code}: ${stdout.slice(-3_000)}`).not.toBeNull();
      const { violation = null, steps = 0, processorMs = 0 } = result ?? {};
      const verdict = violation === null ? "clean" : `${violation.kind}: ${violation.message}`;
      console.log(`seed ${seed}: ${steps} steps, ${verdict}`);
      expect(violation?.kind ?? "", `seed ${seed}: ${verdict}`).not.toMatch(NEVER);
      spentMs += processorMs;
    }
    expect(count).toBeGreaterThan(2);
  } finally {
    simulation.remove();
  }
});
