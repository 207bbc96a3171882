import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PATIENCE_MS, Simulation } from "../simulate.ts";

let simulation: Simulation;
beforeAll(() => {
  simulation = new Simulation();
}, PATIENCE_MS);
afterAll(() => simulation.remove());
const patience = { timeout: PATIENCE_MS };

/** Without what it took of a processor. */
const timeless = (text: string) => text.replace(/\d+ steps\/s \([\d.]+ s of a processor\)/, "");

test("a seed gives the same history in another process, byte for byte", patience, async () => {
  const flags = { seed: 20_260_101, steps: 6_000, story: true } as const;
  const [one, other] = await Promise.all([simulation.run(flags), simulation.run(flags)]);
  expect(one.result?.steps).toBeGreaterThanOrEqual(6_000);
  expect(one.stdout.split("\n").length).toBeGreaterThan(300);
  expect(timeless(other.stdout)).toBe(timeless(one.stdout));
});

test("a long history has the same digest in another process, with or without its story printed", patience, async () => {
  const flags = { seed: 4_711, steps: 30_000 } as const;
  const [one, other] = await Promise.all([simulation.run(flags), simulation.run({ ...flags, story: true })]);
  expect(one.result?.digest).toMatch(/^[0-9a-f]{16}$/);
  expect(other.result?.digest).toBe(one.result?.digest);
  expect(other.result?.counts).toEqual(one.result?.counts);
});

test("a history with a full disk is the same in another process", patience, async () => {
  const flags = { seed: 8, steps: 6_000, nodes: 2, story: true } as const;
  const more = "*=0,disk-full=12,pod-create=30,pod-delete=20";
  const [one, other] = await Promise.all([1, 2].map(() => simulation.run({ ...flags, more })));
  expect(one?.stdout).toContain("the disk under /");
  expect(timeless(other?.stdout ?? "")).toBe(timeless(one?.stdout ?? ""));
});

test("two seeds give two histories", patience, async () => {
  const [one, other] = await Promise.all([1, 2].map((seed) => simulation.run({ seed, steps: 2_000 })));
  expect(one?.result?.digest).not.toBe(other?.result?.digest);
});

test("a saved history is replayed as it was", patience, async () => {
  const whole = await simulation.run({ seed: 815, steps: 5_000, record: simulation.file("record.json") });
  const kept = JSON.parse(readFileSync(simulation.file("record.json"), "utf8"));
  expect(kept.actions.length).toBeGreaterThan(10);
  expect(kept.faults.length).toBeGreaterThan(0);
  const again = await simulation.run({
    found: simulation.file("record.json"),
    record: simulation.file("again.json"),
  });
  const known = (text: string) => JSON.parse(readFileSync(simulation.file(text), "utf8"));
  expect(known("again.json")).toEqual(known("record.json"));
  expect(again.result?.violation).toEqual(whole.result?.violation);
  expect(again.result?.counts).toEqual(whole.result?.counts);
  // With fewer actions it is another one.
  writeFileSync(simulation.file("shorter.json"), JSON.stringify({ ...kept, actions: kept.actions.slice(5) }));
  const shorter = await simulation.run({ found: simulation.file("shorter.json") });
  expect(shorter.result?.digest).not.toBe(again.result?.digest);
});
