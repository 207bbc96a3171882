import { expect, test } from "vitest";
import { readEvents } from "../../../ui/pages/server/events.ts";

const TEXT = `event: hello\ndata: {"from":"Knoten-ä€😀"}\n\n:\n\nevent: rows\ndata: {"rows":[": "]}\n\n:\n\n:\n\nevent: synced\ndata: {}\n\n`;
const EVENTS = [
  { event: "hello", data: '{"from":"Knoten-ä€😀"}' },
  { event: "rows", data: '{"rows":[": "]}' },
  { event: "synced", data: "{}" },
];

/** `fault`: what breaks the stream after its pieces; null: it ends. */
async function read(pieces: readonly Uint8Array[], fault: Error | null = null) {
  const left = [...pieces];
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const next = left.shift();
      if (next !== undefined) controller.enqueue(next);
      else if (fault !== null) controller.error(fault);
      else controller.close();
    },
  });
  const events = [];
  for await (const event of readEvents(body)) events.push(event);
  return events;
}

test("events are the same in whatever pieces they arrive", async () => {
  const bytes = new TextEncoder().encode(TEXT);
  for (let size = 1; size <= bytes.length; size++) {
    const pieces = [];
    for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.slice(at, at + size));
    expect(await read(pieces), `pieces of ${size} bytes`).toEqual(EVENTS);
  }
});

test("what a broken stream had sent whole has arrived, and the rest is nothing", async () => {
  const bytes = new TextEncoder().encode(`${TEXT}event: rows\ndata: {"ro`);
  expect(await read([bytes], new TypeError("network error"))).toEqual(EVENTS);
  expect(await read([bytes])).toEqual(EVENTS);
});
