import fc from "fast-check";
import { expect, test } from "vitest";
import { WatchStream } from "../../../kube/http/watch-stream.ts";

const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));

test(`however a watch is cut, its events come out whole (seed ${seed})`, () => {
  const events = fc.array(fc.record({ type: fc.constantFrom("ADDED", "BOOKMARK"), object: fc.jsonValue() }));
  fc.assert(
    fc.property(events, fc.integer({ min: 1, max: 40 }), (sent, size) => {
      const body = Buffer.from(sent.map((event) => `${JSON.stringify(event)}\n`).join("\n"));
      const plain = sent.map((event) => JSON.parse(JSON.stringify(event)));
      const got: unknown[] = [];
      const stream = new WatchStream((type, object) => got.push({ type, object }));
      for (let at = 0; at < body.length; at += size) expect(stream.push(body.subarray(at, at + size))).toBeNull();
      expect(got).toEqual(plain);
    }),
    { seed },
  );
});

test.each([
  [
    { code: 410, reason: "Gone", message: "too old" },
    { kind: "expired", problem: "too old" },
  ],
  [{ reason: "Expired" }, { kind: "expired", problem: "Expired" }],
  [
    { code: 429, message: "busy", details: { retryAfterSeconds: 3 } },
    { kind: "failed", problem: "busy", status: 429, retryAfterMs: 3_000 },
  ],
  [null, { kind: "failed", problem: "the server ended the watch with an error" }],
])("an ERROR event ends the watch: %j", (object, end) => {
  const stream = new WatchStream(() => {});
  expect(stream.push(Buffer.from(`${JSON.stringify({ type: "ERROR", object })}\n`))).toEqual(end);
});

test("a line that is no event is refused, and a line without an end does not use up memory", () => {
  expect(() => new WatchStream(() => {}).push(Buffer.from("<html>\n"))).toThrow("JSON");
  expect(() => new WatchStream(() => {}).push(Buffer.from("{}\n"))).toThrow("no type");
  const stream = new WatchStream(() => {});
  const more = Buffer.alloc(1024 * 1024, "a");
  expect(() => {
    for (let megabyte = 0; megabyte < 64; megabyte += 1) stream.push(more);
  }).toThrow("bytes");
});
