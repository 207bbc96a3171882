import { expect, test } from "vitest";
import type { Log } from "../../platform/log.ts";
import { RecentKeys, WarnOnce } from "../../platform/warn-once.ts";

test("a warning is new once, and again after it was over", () => {
  const said = new RecentKeys();
  expect([said.addIfNew("a"), said.addIfNew("b"), said.addIfNew("a")]).toEqual([true, true, false]);
  said.forget("a");
  expect([said.addIfNew("a"), said.addIfNew("b")]).toEqual([true, false]);
});

test("a full memory forgets its oldest warning only", () => {
  const said = new RecentKeys();
  for (let count = 0; count <= 1_000; count += 1) said.addIfNew(`${count}`);
  expect([said.addIfNew("1000"), said.addIfNew("1"), said.addIfNew("0")]).toEqual([false, false, true]);
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
