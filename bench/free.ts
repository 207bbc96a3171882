import { atMost, type Measurement, number } from "./line.ts";
import { median } from "./statistics.ts";
import { HOLDFAST, Workbench } from "./workbench.ts";

const ALLOCATIONS = 100_000;
const ROUNDS = 20;

/** How long a person waits for the free addresses of a large network, from exec to exit. */
export const freeAddresses: Measurement = () =>
  Workbench.with(async (bench) => {
    await bench.load(ALLOCATIONS);
    const sides = [{ stdin: "/dev/null", command: [HOLDFAST, "free", "bench"] }];
    const [ms = []] = await bench.exec(sides, { rounds: ROUNDS, undo: false });
    return [
      atMost(median(ms) / 1_000, 0.3, "s", {
        what: `\`holdfast free\` on a /8 with ${number(ALLOCATIONS)} allocations`,
        against: `median of ${ROUNDS}, from exec to exit`,
        beside: `at most ${number(Math.max(...ms))} ms`,
      }),
    ];
  });
