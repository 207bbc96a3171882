import { expect, test } from "vitest";
import type { Log } from "../../platform/log.ts";
import { SaidOnce, WarnOnce } from "../../platform/warn-once.ts";

test("a warning is new once, and again after it was over", () => {
  const said = new SaidOnce();
  expect([said.isNews("a"), said.isNews("b"), said.isNews("a")]).toEqual([true, true, false]);
  said.forget("a");
  expect([said.isNews("a"), said.isNews("b")]).toEqual([true, false]);
});

test("a full memory forgets its oldest warning only", () => {
  const said = new SaidOnce();
  for (let count = 0; count <= 1_000; count += 1) said.isNews(`${count}`);
  expect([said.isNews("1000"), said.isNews("1"), said.isNews("0")]).toEqual([false, false, true]);
});

test("the same warning of two networks is two warnings", () => {
  const lines: unknown[] = [];
  const log = { warn: (...line: unknown[]) => lines.push(line) } as unknown as Log;
  const warnings = new WarnOnce(log);
  for (const network of ["blue", "red", "blue"]) warnings.warn(network, "look here");
  expect(lines).toEqual([
    [{ network: "blue" }, "look here"],
    [{ network: "red" }, "look here"],
  ]);
});
