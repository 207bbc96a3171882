import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { VirtualTime } from "../../platform/virtual-time.ts";
import { WatchedFile } from "../../platform/watched-file.ts";

let root: string;
let folder: string;
let file: WatchedFile<string>;
let time: VirtualTime;
const told: string[] = [];
beforeEach(() => {
  time = new VirtualTime();
  root = mkdtempSync(join(tmpdir(), "holdfast-watched-"));
  folder = join(root, "secret");
  mkdirSync(folder);
  writeFileSync(join(folder, "key"), "first");
  told.length = 0;
  file = new WatchedFile(time.clock(), join(folder, "key"), String);
  file.watch({ changed: () => told.push("changed"), unusable: (problem) => told.push(problem) });
});
afterEach(() => {
  file.stop();
  rmSync(root, { recursive: true, force: true });
});

const later = () => time.pass(2_000);

test("a changed file is read again, once", async () => {
  writeFileSync(join(folder, "next"), "second");
  renameSync(join(folder, "next"), join(folder, "key"));
  await later();
  await later();
  expect([file.value, told]).toEqual(["second", ["changed"]]);
});

test.each([
  ["is gone", () => rmSync(join(folder, "key")), "ENOENT"],
  [
    "is in what is no folder any more",
    () => {
      rmSync(folder, { recursive: true });
      writeFileSync(folder, "");
    },
    "ENOTDIR",
  ],
  [
    "is a link to itself",
    () => {
      rmSync(join(folder, "key"));
      symlinkSync("key", join(folder, "key"));
    },
    "ELOOP",
  ],
])("a file that %s is reported once, and its last content counts until it is back", async (_, spoil, why) => {
  spoil();
  await later();
  await later();
  expect([file.value, told]).toEqual(["first", [expect.stringContaining(why)]]);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  writeFileSync(join(folder, "key"), "back");
  await later();
  expect([file.value, told.at(-1)]).toEqual(["back", "changed"]);
});
