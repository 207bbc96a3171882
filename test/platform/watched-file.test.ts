import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WatchedFile } from "../../platform/watched-file.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

let root: string;
let directory: string;
let file: WatchedFile<string>;
let time: VirtualTime;
const told: string[] = [];
beforeEach(() => {
  time = new VirtualTime();
  root = mkdtempSync(join(tmpdir(), "holdfast-watched-"));
  directory = join(root, "secret");
  mkdirSync(directory);
  writeFileSync(join(directory, "key"), "first");
  told.length = 0;
  file = new WatchedFile(time.clock(), join(directory, "key"), String);
  file.watch({ changed: () => told.push("changed"), unusable: (problem) => told.push(problem) });
});
afterEach(() => {
  file.stop();
  rmSync(root, { recursive: true, force: true });
});

const later = () => time.pass(2_000);

test("a changed file is read again, once", async () => {
  writeFileSync(join(directory, "next"), "second");
  renameSync(join(directory, "next"), join(directory, "key"));
  await later();
  await later();
  expect([file.value, told]).toEqual(["second", ["changed"]]);
});

test.each([
  ["is gone", () => rmSync(join(directory, "key")), "ENOENT"],
  [
    "is in what is no directory any more",
    () => {
      rmSync(directory, { recursive: true });
      writeFileSync(directory, "");
    },
    "ENOTDIR",
  ],
  [
    "is a link to itself",
    () => {
      rmSync(join(directory, "key"));
      symlinkSync("key", join(directory, "key"));
    },
    "ELOOP",
  ],
])("a file that %s is reported once, and its last content counts until it is back", async (_, spoil, why) => {
  spoil();
  await later();
  await later();
  expect([file.value, told]).toEqual(["first", [expect.stringContaining(why)]]);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory);
  writeFileSync(join(directory, "key"), "back");
  await later();
  expect([file.value, told.at(-1)]).toEqual(["back", "changed"]);
});
