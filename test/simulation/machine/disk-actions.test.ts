import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { VirtualTime } from "../../harness/virtual-time.ts";
import { Chance } from "../engine/chance.ts";
import type { World } from "../world.ts";
import { Disk } from "./disk.ts";
import { diskActions } from "./disk-actions.ts";

/** Two machines without anything but power and disks, and the names of those whose journal the oracle was told of. */
function fleet() {
  const root = mkdtempSync(join(tmpdir(), "disks-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const machines = ["node-1", "node-2"].map((name) => ({
    name,
    isUp: true,
    daemon: null,
    interfaces: new Map(),
    disk: new Disk(join(root, name)),
    losePower() {
      this.isUp = false;
    },
    boot() {
      this.isUp = true;
    },
  }));
  for (const { disk } of machines) disk.backUp();
  const lost: string[] = [];
  const time = new VirtualTime(1);
  const nothing = () => {};
  const world = {
    clock: time.clock(),
    counts: { add: nothing },
    story: { tell: nothing },
    machines,
    oracle: { journalLost: (node: string) => lost.push(node) },
  } as unknown as World;
  return { world, time, machines, lost };
}

test.each([
  ["disk-old", 1],
  ["node-clone", 1],
  ["node-rename", 2],
] as const)("%s reports each lost journal to the oracle", async (kind, count) => {
  const { world, time, machines, lost } = fleet();
  const done = diskActions[kind]?.run(world, new Chance(1));
  await time.pass(20_000);
  await done;
  expect(new Set(lost).size).toBe(count);
  expect(machines.every(({ isUp }) => isUp)).toBe(true);
});
