import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { codeCachePath, compileBundle, loadBundle, makeCodeCache } from "../../cli/load-bundle.ts";
import { HOLDFAST, newDirectory, run } from "../harness/daemon.ts";

// Code that V8 compiled at build time is used where it fits, and is never needed.

const LIB = join(import.meta.dirname, "../../dist/lib");
const TEXT = `"use strict";exports.where = [__filename, __dirname, typeof require("node:fs").statSync, module.exports === exports];
exports.fail = () => { const name = "first line of a function"; throw new Error(name); };
`;
/** After V8's magic number comes a hash of its version. */
const V8_VERSION_AT = 4;

let bundle: string;
let text: string;
beforeEach(() => {
  const directory = newDirectory();
  onTestFinished(() => rmSync(directory, { recursive: true }));
  bundle = join(directory, "bundle.cjs");
  text = `${TEXT}// ${randomUUID()}`;
  writeFileSync(bundle, text);
});

function cacheOf(source: string, name = "bundle.cjs"): Buffer {
  const built = join(dirname(bundle), "built", name);
  mkdirSync(dirname(built));
  writeFileSync(built, source);
  return makeCodeCache(built);
}

/** Of another name: what a process has compiled of a file it remembers, and would not look into a cache of that. */
function ofAnotherV8(): Buffer {
  const cache = cacheOf(text, "other.cjs");
  const code = Buffer.from(cache.subarray(text.length, (text.length + cache.length) / 2));
  code.writeUInt8(code.readUInt8(V8_VERSION_AT) ^ 1, V8_VERSION_AT);
  return Buffer.concat([Buffer.from(text), code, code]);
}

function damaged(cache: Buffer): Buffer {
  const at = cache.length >> 1;
  cache.writeUInt8(cache.readUInt8(at) ^ 1, at);
  return cache;
}

test.each(["command-line", "daemon", "controller", "metadata", "metadata-net", "cluster"])(
  "the code that was built for %s is taken",
  (name) => {
    expect(compileBundle(join(LIB, `${name}.cjs`)).cachedDataRejected).toBe(false);
  },
);

test.each<[string, () => Buffer | null, taken: boolean | undefined]>([
  ["fits", () => cacheOf(text), false],
  ["is not there", () => null, undefined],
  ["is empty", () => Buffer.alloc(0), undefined],
  ["is of another text of the same length", () => cacheOf(text.replace("first", "other")), undefined],
  ["is of another V8", ofAnotherV8, true],
  ["was cut", () => cacheOf(text).subarray(0, 100), undefined],
  ["was damaged", () => damaged(cacheOf(text)), undefined],
])("a bundle is what require gives, where its code cache %s", (_what, cache, taken) => {
  const content = cache();
  if (content !== null) writeFileSync(codeCachePath(bundle), content);
  expect(compileBundle(bundle).cachedDataRejected).toBe(taken);
  const loaded = loadBundle(bundle) as { where: unknown; fail(): never };
  const required: typeof loaded = createRequire(bundle)(bundle);
  expect(loaded.where).toEqual(required.where);
  expect(placeOfFailure(loaded)).toBeDefined();
  expect(placeOfFailure(loaded)).toBe(placeOfFailure(required));
});

/** `bundle.cjs:2:62` */
function placeOfFailure({ fail }: { fail(): never }): string | undefined {
  try {
    return fail();
  } catch (error) {
    return /bundle\.cjs:\d+:\d+/.exec((error as Error).stack ?? "")?.[0];
  }
}

test("code of a Node with other flags is left alone by the daemon, which starts as ever", async () => {
  const flags = ["--no-opt", "--max-lazy"];
  const script = `
    const { Script } = require("node:vm"), { wrap } = require("node:module"), { readFileSync } = require("node:fs");
    const [text, cache] = [readFileSync(${JSON.stringify(join(LIB, "daemon.cjs"))}), readFileSync(${JSON.stringify(join(LIB, "daemon.cjs.cache"))})];
    const code = cache.subarray(text.length, (text.length + cache.length) / 2);
    console.log(new Script(wrap(text.toString()), { cachedData: code }).cachedDataRejected);`;
  const rejected = (...given: string[]) =>
    execFileSync(process.execPath, [...given, "-e", script], { encoding: "utf8" });
  expect([rejected(), rejected(...flags)]).toEqual(["false\n", "true\n"]);
  const { code, stderr } = await run(process.execPath, [...flags, HOLDFAST, "daemon", "--log-level", "loud"]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("logLevel") });
});
