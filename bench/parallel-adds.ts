import { atLeast, type Measurement, number, told } from "./line.ts";
import { ratePerSecond, Workbench } from "./workbench.ts";

const IN_FLIGHT = 32;
const WARM_UP = 200;
const BLOCKS = 12;
const ROUNDS_PER_BLOCK = 2;
const FILLING_ROUNDS = 16;

/** A node that starts many pods at once: host-local serves one at a time, under its lock. */
export const parallelAdds: Measurement = () =>
  Workbench.with(async (bench) => {
    const sides = [bench.holdfast, bench.hostLocal];
    await bench.exec([bench.holdfast], { rounds: WARM_UP, undo: true });
    const ours: number[] = [];
    const theirs: number[] = [];
    for (let block = 0; block < BLOCKS; block += 1) {
      bench.emptyHostLocal();
      const [a = [], b = []] = await bench.exec(sides, {
        rounds: ROUNDS_PER_BLOCK,
        inFlight: IN_FLIGHT,
        undo: false,
      });
      ours.push(...a);
      theirs.push(...b);
    }
    bench.emptyHostLocal();
    const filling = { rounds: FILLING_ROUNDS, inFlight: IN_FLIGHT, undo: false };
    const [oursFilling = [], theirsFilling = []] = await bench.exec(sides, filling);
    const rates = { ours: ratePerSecond(ours, IN_FLIGHT), theirs: ratePerSecond(theirs, IN_FLIGHT) };
    const ratesFilling = {
      ours: ratePerSecond(oursFilling, IN_FLIGHT),
      theirs: ratePerSecond(theirsFilling, IN_FLIGHT),
    };
    const perBlock = IN_FLIGHT * ROUNDS_PER_BLOCK;
    return [
      atLeast(rates.ours / rates.theirs, 3, "×", {
        what: `${IN_FLIGHT} plugins at once, rate`,
        against: `host-local, emptied after every ${perBlock}; ${BLOCKS} × ${perBlock} each`,
        beside: `${number(rates.ours)}/s, host-local ${number(rates.theirs)}/s`,
      }),
      told(
        `${number(ratesFilling.ours / ratesFilling.theirs)} × (${number(ratesFilling.ours)}/s, host-local ${number(ratesFilling.theirs)}/s)`,
        {
          what: `${IN_FLIGHT} plugins at once, rate while the network fills`,
          against: `host-local, from 0 to ${number(IN_FLIGHT * FILLING_ROUNDS)} allocations`,
        },
      ),
    ];
  });
