import { atLeast, type Measurement, number, told } from "./line.ts";
import { sum } from "./statistics.ts";
import { Workbench } from "./workbench.ts";

const IN_FLIGHT = 32;
const WARM_UP = 1_000;
const BLOCKS = 20;
/** Few enough that host-local, which reads all its files at every ADD, is not slowed down by them. */
const ADDS_PER_BLOCK = 64;
const FILLING_ADDS = 512;

/** A node that starts many pods at once: host-local serves one at a time, under its lock. */
export const parallelAdds: Measurement = () =>
  Workbench.with(async (bench) => {
    await bench.exec([bench.holdfast], { rounds: WARM_UP, undo: true });
    const block = async (count: number): Promise<Rates> => {
      bench.emptyHostLocal();
      const options = { rounds: 1, count, inFlight: IN_FLIGHT, undo: false };
      const [ours = [], theirs = []] = await bench.exec([bench.holdfast, bench.hostLocal], options);
      return { ours: (count * 1_000) / sum(ours), theirs: (count * 1_000) / sum(theirs) };
    };
    const blocks: Rates[] = [];
    for (let index = 0; index < BLOCKS; index += 1) blocks.push(await block(ADDS_PER_BLOCK));
    const rates = {
      ours: meanRate(blocks.map((one) => one.ours)),
      theirs: meanRate(blocks.map((one) => one.theirs)),
    };
    const filling = await block(FILLING_ADDS);
    return [
      atLeast(rates.ours / rates.theirs, 3, "×", {
        what: `ADDs through the plugin, ${IN_FLIGHT} at a time, rate`,
        against: `host-local, emptied after every ${ADDS_PER_BLOCK}; ${BLOCKS} × ${ADDS_PER_BLOCK} each, after ${number(WARM_UP)} ADDs`,
        beside: say(rates),
      }),
      told(`${number(filling.ours / filling.theirs)} × (${say(filling)})`, {
        what: "the same while the network fills",
        against: `host-local, from 0 to ${FILLING_ADDS} allocations`,
      }),
    ];
  });

interface Rates {
  readonly ours: number;
  readonly theirs: number;
}

/** Of blocks of equal length: all ADDs by all the time. */
function meanRate(perSecond: readonly number[]): number {
  return perSecond.length / sum(perSecond.map((rate) => 1 / rate));
}

function say({ ours, theirs }: Rates): string {
  return `${number(ours)}/s, host-local ${number(theirs)}/s`;
}
