import { Buffer } from "node:buffer";
import { beforeEach, expect, test } from "vitest";
import { textAnswer } from "../../metadata/documents/answer.ts";
import { GuestMemory, Seeds } from "../../metadata/server/guest-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { identity, otherVm, UUID } from "../metadata-server/fake-identity.ts";
import { instance } from "./instances.ts";

const PATH = "/latest/meta-data/instance-id";
let clock: ManualClock;
let memory: GuestMemory;
let composed: number;
beforeEach(() => {
  clock = new ManualClock();
  memory = new GuestMemory(clock);
  composed = 0;
});

const VM = identity();
const OTHER = otherVm(UUID);
const noSeed = () => Buffer.alloc(0);

/** null: the guest is not remembered. */
function ask(of = VM, path = PATH): string | null {
  const guest = memory.page.of(of);
  const compose = () => textAnswer(`answer ${++composed}`);
  return guest === undefined ? null : guest.answer(path, noSeed, compose).body.toString();
}

test("an answer is used again for a tenth of a second, for one path of one guest", () => {
  memory.page.put(VM, instance());
  expect([ask(), ask(), ask(VM, "/latest"), ask()]).toEqual(["answer 1", "answer 1", "answer 2", "answer 1"]);
  expect(ask(OTHER)).toBeNull();
  // The same words in another answer of the daemon are another guest.
  expect(ask(identity())).toBeNull();
  clock.nowMs += 99;
  expect(ask()).toBe("answer 1");
  clock.nowMs += 1;
  expect(ask()).toBeNull();
});

test("what was read before all was forgotten does not come back", () => {
  const { page } = memory;
  memory.forget();
  page.put(VM, instance());
  expect(ask()).toBeNull();
});

test("memory is bounded, and long answers are composed each time", () => {
  memory.page.put(VM, instance());
  const long = () => memory.page.of(VM)?.answer("/long", noSeed, () => textAnswer("x".repeat(++composed + 9_000)));
  expect(long()?.body).toHaveLength(9_001);
  expect(long()?.body).toHaveLength(9_002);
  const first = memory.page;
  for (let n = 0; memory.page === first; n += 1) {
    expect(first.bytes).toBeLessThan(3 << 20);
    ask(VM, `/${n}`);
  }
  expect(ask()).toBeNull();
});

test("each answer has a seed of its own", () => {
  const seeds = new Seeds(clock);
  const guest = memory.page.put(VM, instance());
  const answers = Array.from({ length: 100 }, () =>
    guest.answer(
      "/meta_data.json",
      () => seeds.next(),
      (seed) => textAnswer(JSON.stringify({ name: "vm1", random_seed: seed().toString("base64"), last: ++composed })),
    ),
  );
  expect(composed).toBe(1);
  const read = answers.map(({ headers, body }) => {
    expect(headers["content-length"]).toBe(String(body.length));
    return JSON.parse(body.toString());
  });
  expect(new Set(read.map(({ random_seed }) => random_seed)).size).toBe(100);
  for (const { random_seed, ...rest } of read) {
    expect(Buffer.from(random_seed, "base64")).toHaveLength(512);
    expect(rest).toEqual({ name: "vm1", last: 1 });
  }
});
