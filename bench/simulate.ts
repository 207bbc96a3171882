import { Simulation } from "../test/simulation/simulate.ts";
import { atLeast, type Measurement, number, told } from "./line.ts";
import { median } from "./statistics.ts";

const STEPS = 100_000;
const SEEDS = [1, 2, 3];
const STEPS_PER_SECOND_MIN = 2_000;

/** How fast the world in one process is: five nodes, two controllers, every actor. */
export const simulate: Measurement = async () => {
  const simulation = new Simulation();
  try {
    const rates: number[] = [];
    let virtualMs = 0;
    let processorMs = 0;
    for (const seed of SEEDS) {
      const { result, stdout } = await simulation.run({ seed, steps: STEPS });
      if (result === null) throw new Error(`seed ${seed} did not come to an end: ${stdout.slice(-2_000)}`);
      rates.push(result.steps / (result.processorMs / 1_000));
      virtualMs += result.virtualMs;
      processorMs += result.processorMs;
    }
    const against = `one process, ${SEEDS.length} seeds of ${number(STEPS)} steps, median, by what they took of a processor`;
    return [
      atLeast(median(rates), STEPS_PER_SECOND_MIN, "steps/s", {
        what: "the simulation, five nodes",
        against,
      }),
      told(`${number(virtualMs / processorMs)} ×`, {
        what: "time of the world beside that of a processor",
        against,
      }),
    ];
  } finally {
    simulation.remove();
  }
};
