import { atMost, type Measurement, number } from "./line.ts";
import { median } from "./statistics.ts";
import { HOLDFAST, type Side, Workbench } from "./workbench.ts";

const ROUNDS = 40;
const LIST_ROUNDS = 10;
const ALLOCATIONS = 5_000;
const NOTHING = "/dev/null";

/** How long a person waits for the command line, beside what Node.js needs to start. */
export const commandLine: Measurement = () =>
  Workbench.with(async (bench) => {
    await bench.exec([bench.holdfast], { rounds: 1, undo: false });
    const sides: Side[] = [
      { stdin: NOTHING, command: ["node", "-e", "0"] },
      { stdin: NOTHING, command: [HOLDFAST, "--help"] },
      { stdin: NOTHING, command: [HOLDFAST, "completion", "bash"] },
      { stdin: NOTHING, command: [HOLDFAST, "networks"] },
    ];
    const [bare = [], help = [], completion = [], query = []] = await bench.exec(sides, {
      rounds: ROUNDS,
      undo: false,
    });
    const against = `\`node -e 0\`; ${ROUNDS} of each, by turns`;
    const line = (what: string, ms: readonly number[], bound: number) =>
      atMost(median(ms) / median(bare), bound, "×", {
        what,
        against,
        beside: `${number(median(ms))} ms, node ${number(median(bare))} ms`,
      });
    await bench.load(ALLOCATIONS);
    const list = (format: string): Side => ({
      stdin: NOTHING,
      command: [HOLDFAST, "list", "-o", format],
    });
    const [json = [], yaml = []] = await bench.exec([list("json"), list("yaml")], {
      rounds: LIST_ROUNDS,
      undo: false,
    });
    return [
      line("`holdfast --help`", help, 1.3),
      line("`holdfast completion bash`", completion, 1.3),
      line("`holdfast networks`, one network", query, 1.5),
      atMost(median(yaml) / median(json), 1.2, "×", {
        what: "`holdfast list -o yaml`",
        against: `\`-o json\`, ${ALLOCATIONS} allocations; ${LIST_ROUNDS} of each, by turns`,
        beside: `${number(median(yaml))} ms, json ${number(median(json))} ms`,
      }),
    ];
  });
