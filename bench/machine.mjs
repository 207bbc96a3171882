// The machine of a run, and what one durable write costs on it.
import { closeSync, fdatasyncSync, openSync, readFileSync, statfsSync, writeSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { median } from "./playground.mjs";

const FILE_SYSTEMS = { 61267: "ext4", 1481003842: "xfs", 2435016766: "btrfs", 16914836: "tmpfs" };

export function describeMachine(folder) {
  const type = statfsSync(folder).type;
  const memoryGb = Math.round(totalmem() / 2 ** 30);
  const system = /PRETTY_NAME="(.*)"/.exec(readFileSync("/etc/os-release", "utf8"))?.[1];
  return [
    `${cpus().length} cores of ${cpus()[0].model}, ${memoryGb} GiB`,
    `${system}, Linux ${release()}, Node ${process.version}`,
    `${FILE_SYSTEMS[type] ?? `file system ${type.toString(16)}`}, one fdatasync ${Math.round(fdatasyncUs(folder))} µs (median of 200)`,
  ].join("; ");
}

/** Median of appending 256 bytes and syncing them, microseconds. */
export function fdatasyncUs(folder) {
  const fd = openSync(join(folder, "sync"), "w");
  const block = Buffer.alloc(256);
  const taken = [];
  for (let round = 0; round < 200; round += 1) {
    const start = performance.now();
    writeSync(fd, block);
    fdatasyncSync(fd);
    taken.push((performance.now() - start) * 1000);
  }
  closeSync(fd);
  return median(taken);
}
