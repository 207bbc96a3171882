import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Chance } from "../engine/chance.ts";
import { Disk } from "./disk.ts";

const LOG = "holdfast.db-wal";

function newDisk(): Disk {
  const root = mkdtempSync(join(tmpdir(), "disk-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  return new Disk(root);
}

const put = (disk: Disk, name: string, bytes: number) => writeFileSync(join(disk.state, name), Buffer.alloc(bytes, 1));
const sizeOf = (disk: Disk, name: string) => statSync(join(disk.state, name)).size;

test("writes of a killed daemon are not visible to its successor", () => {
  const disk = newDisk();
  put(disk, LOG, 100);
  const former = disk.fork();
  writeFileSync(join(former, LOG), "late");
  expect(sizeOf(disk, LOG)).toBe(100);
});

test("lost power keeps what was synced when the database was opened, and may lose what came later", () => {
  const sizes = new Set<number>();
  for (let seed = 0; seed < 20; seed += 1) {
    const disk = newDisk();
    put(disk, LOG, 1_000);
    disk.noteSynced();
    put(disk, LOG, 5_000);
    disk.loseUnsynced(new Chance(seed));
    sizes.add(sizeOf(disk, LOG));
  }
  expect(Math.min(...sizes)).toBeGreaterThanOrEqual(1_000);
  expect(Math.max(...sizes)).toBe(5_000);
  expect(sizes.size).toBeGreaterThan(5);
});

test("a DEL whose file was removed from the spool may be there again after lost power", () => {
  const found: string[] = [];
  for (let seed = 0; seed < 20; seed += 1) {
    const disk = newDisk();
    disk.spool(7, 1, "a DEL");
    const spool = join(disk.state, "spool");
    for (const name of readdirSync(spool)) rmSync(join(spool, name));
    disk.loseUnsynced(new Chance(seed));
    const after = join(disk.state, "spool");
    for (const name of readdirSync(after)) found.push(readFileSync(join(after, name), "utf8"));
  }
  expect(found.length).toBeGreaterThan(0);
  expect(found.length).toBeLessThan(20);
  expect(new Set(found)).toEqual(new Set(["a DEL"]));
});

test("a restored disk has the content of its backup", () => {
  const disk = newDisk();
  expect(disk.restoreBackup()).toBe(false);
  put(disk, "holdfast.db", 10);
  disk.backUp();
  put(disk, "holdfast.db", 20);
  expect(disk.restoreBackup()).toBe(true);
  expect(sizeOf(disk, "holdfast.db")).toBe(10);
});
