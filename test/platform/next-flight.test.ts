import { expect, test } from "vitest";
import { NextFlight } from "../../platform/next-flight.ts";

/** Work that ends when the test says so; `begun` counts its runs. */
function work() {
  const ends: ((how: "done" | "failed") => void)[] = [];
  const run = () =>
    new Promise<number>((resolve, reject) => {
      const number = ends.length + 1;
      ends.push((how) => (how === "done" ? resolve(number) : reject(new Error(`run ${number}`))));
    });
  return {
    run,
    end: (index: number, how: "done" | "failed" = "done") => ends[index]?.(how),
    get begun() {
      return ends.length;
    },
  };
}

test("whoever comes while a run is under way shares the next one, which begins after it", async () => {
  const flight = new NextFlight();
  const shared = work();
  const { run, end } = shared;
  const first = flight.run("a", run);
  const second = flight.run("a", run);
  const third = flight.run("a", run);
  expect(shared.begun).toBe(1);
  end(0);
  expect(await first).toBe(1);
  await Promise.resolve();
  end(1);
  expect(await Promise.all([second, third])).toEqual([2, 2]);
});

test("a failed run fails those that share it, and nobody else", async () => {
  const flight = new NextFlight();
  const { run, end } = work();
  const first = flight.run("a", run);
  const second = flight.run("a", run);
  end(0, "failed");
  await expect(first).rejects.toThrow("run 1");
  end(1);
  expect(await second).toBe(2);
});

test("keys are independent, and nothing is kept of what has ended", async () => {
  const flight = new NextFlight();
  const { run, end } = work();
  const runs = [flight.run("a", run), flight.run("b", run)];
  end(1);
  end(0);
  expect(await Promise.all(runs)).toEqual([1, 2]);
  const again = flight.run("a", run);
  end(2);
  expect(await again).toBe(3);
});
