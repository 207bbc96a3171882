import { expect, test } from "vitest";
import { quietPart } from "../../controller/quiet-part.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const signal = new AbortController().signal;

/** A part that runs every ten seconds, and what tells it to. */
class Passes {
  readonly clock = new ManualClock();
  revision = 0;
  idle: string | null = null;
  waits = false;
  fails = false;
  count = 0;
  readonly #part = quietPart(
    {
      ...{ name: "passes", everyMs: 10_000 },
      work: async () => {
        this.count += 1;
        if (this.fails) throw new Error("the test says so");
      },
    },
    {
      ...{ clock: this.clock, revision: () => this.revision, idle: () => this.idle },
      waits: () => this.waits,
    },
  );

  /** Returns how many passes there were in a hundred seconds. */
  async run(): Promise<number> {
    const before = this.count;
    for (let turn = 0; turn < 10; turn += 1) {
      await this.#part.work(signal).catch(() => {});
      this.clock.nowMs += 10_000;
    }
    return this.count - before;
  }
}

test("three passes follow a change, and then one each minute", async () => {
  const passes = new Passes();
  expect(await passes.run()).toBe(4);
  passes.clock.nowMs = 10_000_000;
  expect(await passes.run()).toBe(2);
  passes.revision += 1;
  expect(await passes.run()).toBe(4);
});

test.each(["fails", "waits"] as const)(
  "a pass that %s is followed by the next one at the usual pace",
  async (why) => {
    const passes = new Passes();
    passes[why] = true;
    expect(await passes.run()).toBe(10);
  },
);

test("passes of a controller that does not lead do not count", async () => {
  const passes = new Passes();
  passes.idle = "another controller works";
  expect(await passes.run()).toBe(10);
  passes.idle = null;
  expect(await passes.run()).toBe(4);
});
