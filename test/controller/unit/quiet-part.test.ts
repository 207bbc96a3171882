import { expect, test } from "vitest";
import type { ControllerPart } from "../../../controller/part.ts";
import { PartTask } from "../../../controller/part-task.ts";
import { quietPart } from "../../../controller/quiet-part.ts";
import { sleep } from "../../../platform/time.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";

const EVERY_MS = 10_000;
const LOG = { warn: () => {} };

/** A part as the controller runs it, when its passes began, and what they find. */
class Passes {
  readonly time = new VirtualTime();
  readonly begunMs: number[] = [];
  revision = 0;
  idle: string | null = null;
  waits = false;
  fails = false;
  readonly task: PartTask;

  constructor(wrap: "quiet" | "plain", more: Partial<ControllerPart> = {}) {
    const clock = this.time.clock();
    const part: ControllerPart = {
      ...{ name: "passes", everyMs: EVERY_MS, ...more },
      work: async () => {
        this.begunMs.push(this.time.nowMs);
        if (this.fails) throw new Error("the test says so");
      },
    };
    const idle = () => this.idle;
    const asked = { clock, idle, revision: () => this.revision, waits: () => this.waits };
    this.task = new PartTask(wrap === "quiet" ? quietPart(part, asked) : part, { clock, log: LOG, idle });
    this.task.start();
  }

  /** Something that the controller follows has changed. */
  change(): void {
    this.revision += 1;
    this.task.occur("changed");
  }

  /** When passes began within so many milliseconds, from now. */
  async within(ms: number): Promise<number[]> {
    const [known, fromMs] = [this.begunMs.length, this.time.nowMs];
    await this.time.pass(ms);
    return this.begunMs.slice(known).map((beganMs) => beganMs - fromMs);
  }
}

test("a change begins three passes, the first one soon, and then one comes in six intervals", async () => {
  const passes = new Passes("quiet");
  expect(await passes.within(95_000)).toEqual([0, 10_000, 20_000, 80_000]);
  passes.change();
  expect(await passes.within(95_000)).toEqual([200, 10_200, 20_200, 80_200]);
});

test("however many changes come, passes are an interval apart", async () => {
  const passes = new Passes("quiet");
  for (let change = 0; change < 300; change += 1) {
    passes.change();
    await passes.within(100);
  }
  expect(passes.begunMs.filter((ms) => ms < 30_000)).toEqual([0, 10_000, 20_000]);
});

test("a change during a pass, by what it writes itself too, begins the next one an interval later", async () => {
  const time = new VirtualTime();
  const clock = time.clock();
  const begunMs: number[] = [];
  const work = async () => {
    begunMs.push(time.nowMs);
    await sleep(clock, 500);
    if (begunMs.length < 3) task.occur("changed");
  };
  const part: ControllerPart = {
    name: "passes",
    everyMs: EVERY_MS,
    quietMs: 3_600_000,
    triggers: ["changed"],
    work,
  };
  const task = new PartTask(part, { clock, log: LOG, idle: () => null });
  task.start();
  await time.pass(60_000);
  expect(begunMs).toEqual([0, 10_500, 21_000]);
});

test.each(["fails", "waits"] as const)("a pass that %s is followed by the next one at the usual pace", async (why) => {
  const passes = new Passes("quiet");
  passes[why] = true;
  expect(await passes.within(95_000)).toHaveLength(10);
});

test("passes of a controller that does not lead do not count", async () => {
  const passes = new Passes("quiet");
  passes.idle = "another controller works";
  expect(await passes.within(95_000)).toHaveLength(10);
  passes.idle = null;
  passes.change();
  expect(await passes.within(95_000)).toEqual([5_000, 15_000, 25_000, 85_000]);
});

test.each(["fails", "idle"] as const)("a pass is pending, whatever its interval: %s", async (why) => {
  const passes = new Passes("plain", { quietMs: 3_600_000 });
  if (why === "fails") passes.fails = true;
  else passes.idle = "this controller does not lead";
  expect(await passes.within(15_000)).toEqual([0, 10_000]);
  passes.fails = false;
  passes.idle = null;
  expect(await passes.within(60_000)).toEqual([5_000]);
});

test("only its occasions begin a pass, and others than a change do so at once", async () => {
  const passes = new Passes("plain", { triggers: ["claim-listed"] });
  await passes.within(5_000);
  passes.task.occur("changed");
  passes.task.occur("owner-ended");
  expect(await passes.within(2_000)).toEqual([]);
  passes.task.occur("claim-listed");
  expect(await passes.within(2_000)).toEqual([0]);
});
