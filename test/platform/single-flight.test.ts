import { expect, test } from "vitest";
import { SingleFlight } from "../../platform/single-flight.ts";

/** Work that ends when the test says so. */
function controlledWork() {
  const begun: { key: string; end: (value: string) => void; fail: (error: Error) => void }[] = [];
  const work = (key: string) => () =>
    new Promise<string>((end, fail) => {
      begun.push({ key, end, fail });
    });
  return { begun, work, flights: new SingleFlight<string>() };
}

test("callers during a run share its result, and a later caller starts a new run", async () => {
  const { begun, work, flights } = controlledWork();
  const both = [flights.run(work("first")), flights.run(work("second"))];
  begun[0]?.end("one");
  expect(await Promise.all(both)).toEqual(["one", "one"]);
  expect(flights.underWay()).toBeUndefined();
  const later = flights.run(work("third"));
  begun[1]?.end("two");
  expect(await later).toBe("two");
  expect(begun.map(({ key }) => key)).toEqual(["first", "third"]);
});

test("different keys do not share a run", async () => {
  const { begun, work, flights } = controlledWork();
  const all = Promise.all([flights.run(work("a"), "a"), flights.run(work("b"), "b")]);
  for (const { key, end } of begun) end(key);
  expect(await all).toEqual(["a", "b"]);
});

test("a failure reaches every caller of its run, and is not remembered", async () => {
  const { begun, work, flights } = controlledWork();
  const both = [flights.run(work("first")), flights.run(work("second"))];
  begun[0]?.fail(new Error("no"));
  for (const one of both) await expect(one).rejects.toThrow("no");
  const later = flights.run(work("third"));
  begun[1]?.end("yes");
  expect(await later).toBe("yes");
});

test("a run that was renewed or forgotten is not shared any more, and its end does not end the newer run", async () => {
  const { begun, work, flights } = controlledWork();
  const old = flights.run(work("old"));
  const fresh = flights.renew(work("fresh"));
  begun[0]?.end("old");
  expect(await old).toBe("old");
  expect(flights.run(work("never"))).toBe(fresh);
  flights.forget();
  const next = flights.run(work("next"));
  begun[1]?.end("fresh");
  expect(await fresh).toBe("fresh");
  expect(flights.underWay()).toBe(next);
  begun[2]?.end("next");
  expect(await next).toBe("next");
  expect(begun.map(({ key }) => key)).toEqual(["old", "fresh", "next"]);
});

test("whoever comes while a run is under way shares the next one, which begins after it", async () => {
  const { begun, work, flights } = controlledWork();
  const first = flights.next(work("first"));
  await Promise.resolve();
  await Promise.resolve();
  const later = [flights.next(work("second")), flights.next(work("third"))];
  begun[0]?.end("one");
  expect(await first).toBe("one");
  await Promise.resolve();
  await Promise.resolve();
  begun[1]?.end("two");
  expect(await Promise.all(later)).toEqual(["two", "two"]);
  expect(begun.map(({ key }) => key)).toEqual(["first", "second"]);
});

test("callers that ask for the next run before any is under way share it", async () => {
  const { begun, work, flights } = controlledWork();
  const both = [flights.next(work("first")), flights.next(work("second"))];
  await Promise.resolve();
  await Promise.resolve();
  begun[0]?.end("one");
  expect(await Promise.all(both)).toEqual(["one", "one"]);
});

test("a failed run fails those that share it, and not those that wait for the next", async () => {
  const { begun, work, flights } = controlledWork();
  const first = flights.next(work("first"));
  await Promise.resolve();
  await Promise.resolve();
  const second = flights.next(work("second"));
  begun[0]?.fail(new Error("no"));
  await expect(first).rejects.toThrow("no");
  await Promise.resolve();
  await Promise.resolve();
  begun[1]?.end("two");
  expect(await second).toBe("two");
});

test("the next run of one key does not wait for that of another", async () => {
  const { begun, work, flights } = controlledWork();
  const all = [flights.next(work("a"), "a"), flights.next(work("b"), "b")];
  await Promise.resolve();
  await Promise.resolve();
  for (const { key, end } of begun.toReversed()) end(key);
  expect(await Promise.all(all)).toEqual(["a", "b"]);
});
