import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PATIENCE_MS, Simulation } from "../simulate.ts";
import { readFound } from "./found.ts";

let simulation: Simulation;
beforeAll(() => {
  simulation = new Simulation();
}, PATIENCE_MS);
afterAll(() => simulation.remove());
const patience = { timeout: PATIENCE_MS };

test("a run that did not exercise every action fails, and names the missing ones", patience, async () => {
  const flags = { seed: 1, steps: 600 };
  const { code, stdout, result } = await simulation.run({ ...flags, "owed-after": 500 });
  expect(code).toBe(1);
  expect(result?.violation).toBeNull();
  expect(result?.missing).toContain("vm.migrated");
  expect(stdout).toMatch(/vm\.migrated +MISSING/);
  expect((await simulation.run(flags)).code).toBe(0);
});

test("a violation is printed as a story, shrunk, saved, and can be replayed", patience, async () => {
  const spoiled = new Simulation("answered-before-published");
  try {
    const keep = spoiled.file("kept.json");
    const failed = await spoiled.run({ seed: 1, steps: 8_000, nodes: 2, shrink: 20, keep });
    expect(failed.code).toBe(1);
    expect(failed.result?.violation?.kind).toBe("answered-unpublished");
    expect(failed.stdout).toMatch(/ kubelet node-\d: ADD \S+ \S+ on \S+: [\da-f]+[.:]/);

    const kept = readFound(readFileSync(keep, "utf8"));
    expect(kept).toMatchObject({ violation: "answered-unpublished", mutant: "answered-before-published" });
    expect(kept.actions?.length).toBeLessThan(4);
    const again = await spoiled.run({ found: keep });
    expect(again.result?.violation?.kind).toBe("answered-unpublished");
    const sound = await simulation.run({ found: keep });
    expect(sound.code, sound.stdout).toBe(0);
  } finally {
    spoiled.remove();
  }
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("a run that %s ends leaves nothing behind", patience, async (signal, code) => {
  let directories: string[] = [];
  const ended = await simulation.run({ seed: 1, steps: 10_000_000 }, (child) => {
    const look = setInterval(() => {
      directories = directoriesOf(child.pid ?? 0);
      if (directories.length === 0) return;
      clearInterval(look);
      child.kill(signal);
    }, 50);
    child.once("exit", () => clearInterval(look));
  });
  expect(ended.code).toBe(code);
  expect(ended.result).toBeNull();
  expect(directories).toHaveLength(1);
  const left = readdirSync("/dev/shm");
  expect(directories.filter((directory) => left.includes(directory))).toEqual([]);
});

/** In memory, where a process has files open. */
function directoriesOf(pid: number): string[] {
  const at = `/proc/${pid}/fd`;
  const open = readdirSync(at).flatMap((name) => {
    try {
      return [readlinkSync(`${at}/${name}`)];
    } catch {
      return [];
    }
  });
  return [...new Set(open.flatMap((path) => /^\/dev\/shm\/([^/]+)\//.exec(path)?.[1] ?? []))];
}
