import { closeSync, fdatasyncSync, openSync, statfsSync, writeSync } from "node:fs";
import { cpus, release } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { median } from "./statistics.ts";

/** File systems by the type that statfs tells (linux/magic.h). */
const FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0xef53, "ext4"],
  [0x58465342, "xfs"],
  [0x9123683e, "btrfs"],
  [0x01021994, "tmpfs"],
  [0x794c7630, "overlayfs"],
]);

/** Short enough for a column: `2 × AMD EPYC, ext4`. */
export function machineLabel(directory: string): string {
  return `${cpus().length} × ${cpuModel()}, ${fileSystem(directory)}`;
}

export function describeMachine(directory: string): string {
  const db = new Database(":memory:");
  const sqlite = db.prepare<[], { v: string }>("SELECT sqlite_version() AS v").get()?.v;
  db.close();
  return `${cpus().length} cores, ${cpuModel()}, Linux ${release()}, Node.js ${process.version}, ${fileSystem(directory)}, SQLite ${sqlite}`;
}

/** Median of writing a page at the end of a file and syncing it, in milliseconds. */
export function fdatasyncMs(directory: string): number {
  const REPEATS = 200;
  const file = openSync(join(directory, "fdatasync"), "w");
  const page = Buffer.alloc(4096);
  const took = Array.from({ length: REPEATS }, () => {
    writeSync(file, page);
    const startMs = performance.now();
    fdatasyncSync(file);
    return performance.now() - startMs;
  });
  closeSync(file);
  return median(took);
}

function cpuModel(): string {
  return cpus()[0]?.model.trim() ?? "unknown processor";
}

function fileSystem(directory: string): string {
  const { type } = statfsSync(directory);
  return FILE_SYSTEMS.get(type) ?? `file system 0x${type.toString(16)}`;
}
