import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { generationPathOf, IdentityGeneration } from "../../../identity/generation.ts";
import { IdentityCache } from "../../../identity/identity-cache.ts";
import { ManualClock } from "../../harness/manual-clock.ts";
import { identity } from "../../metadata-server/fake-identity.ts";

let directory: string;
let socket: string;
let clock: ManualClock;
let generation: IdentityGeneration;
let remembered: IdentityCache;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-generation-"));
  socket = join(directory, "identity.sock");
  clock = new ManualClock();
  generation = new IdentityGeneration(socket, null, clock);
  remembered = new IdentityCache(generationPathOf(socket), clock);
});
afterEach(() => {
  generation.end();
  rmSync(directory, { recursive: true, force: true });
});

const ASKED = "network=blue&address=10.10.0.5";
const VM = identity();
const get = () => remembered.get(ASKED);
/** As of a question that was asked now, and answered after `meanwhile`. */
function learn(meanwhile: () => void = () => {}): void {
  const asked = { generation: remembered.generation, atMs: clock.nowMs };
  meanwhile();
  remembered.put(ASKED, VM, asked);
}

describe("an answer is reused", () => {
  test("while nothing changes, for a second, and for nobody else", () => {
    expect(get()).toBeUndefined();
    learn();
    expect(get()).toBe(VM);
    expect(remembered.get("network=red&address=10.10.0.5")).toBeUndefined();
    expect(remembered.get("network=blue&address=10.10.0.6")).toBeUndefined();
    clock.nowMs += 1_000;
    expect(get()).toBe(VM);
    clock.nowMs += 1;
    expect(get()).toBeUndefined();
  });

  test("also when the answer is that nothing was found", () => {
    remembered.put(ASKED, null, { generation: remembered.generation, atMs: clock.nowMs });
    expect(get()).toBeNull();
  });
});

describe("a reused answer is forgotten, and does not come back,", () => {
  const forgotten = () => {
    expect(get()).toBeUndefined();
    expect(get()).toBeUndefined();
  };

  test("when something changes", () => {
    learn();
    generation.next();
    forgotten();
    learn();
    expect(get()).toBe(VM);
  });

  test("when something changes while the answer is on its way", () => {
    learn(() => generation.next());
    forgotten();
    learn(() => {
      generation.next();
      get();
    });
    forgotten();
  });

  test("when the daemon ends, and when another takes its place", () => {
    learn();
    generation.end();
    forgotten();
    expect(remembered.generation).toBeNull();
    learn();
    forgotten();
    generation = new IdentityGeneration(socket, null, clock);
    forgotten();
    learn();
    expect(get()).toBe(VM);
  });

  test("when a daemon that was killed is followed by another, which writes over the same file", () => {
    learn();
    const killed = generation;
    generation = new IdentityGeneration(socket, null, clock);
    forgotten();
    learn();
    expect(get()).toBe(VM);
    killed.end();
    forgotten();
  });

  test("when another file takes the place of the file, however often, even one of the same content", () => {
    const path = generationPathOf(socket);
    for (let turn = 0; turn < 50; turn++) {
      learn();
      rmSync(path);
      writeFileSync(join(directory, "next"), Buffer.alloc(14, turn));
      renameSync(join(directory, "next"), path);
      forgotten();
    }
    const same = readFileSync(path);
    learn();
    renameSync(path, join(directory, "aside"));
    expect(get()).toBeUndefined();
    writeFileSync(path, same);
    forgotten();
    writeFileSync(path, "");
    expect(remembered.generation).toBeNull();
  });
});

test("no generation is repeated, by one daemon or by many", () => {
  const seen = new Set<string>();
  for (let run = 0; run < 20; run++) {
    const one = new IdentityGeneration(join(directory, `${run % 2}.sock`), null, clock);
    for (let n = 0; n < 300; n++) {
      seen.add(readFileSync(generationPathOf(join(directory, `${run % 2}.sock`)), "hex"));
      one.next();
    }
    one.end();
  }
  expect(seen.size).toBe(20 * 300);
});
