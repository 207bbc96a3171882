import fc from "fast-check";
import { expect, test } from "vitest";
import { ListStream } from "../../../kube/http/list-stream.ts";

const seed = Number(process.env.HOLDFAST_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));

function cut(body: Buffer, at: readonly number[]): Buffer[] {
  const places = [...new Set(at.map((place) => place % (body.length + 1)))].sort((a, b) => a - b);
  return [0, ...places].map((from, index) => body.subarray(from, places[index]));
}

function read(chunks: readonly Buffer[]): { items: unknown[]; envelope: object } {
  const items: unknown[] = [];
  const stream = new ListStream((text) => items.push(JSON.parse(text)));
  for (const chunk of chunks) stream.push(chunk);
  return { items, envelope: stream.end() };
}

const awkward = fc.constantFrom('"', "\\", '\\"', "]", "},{", "ä€𝄞", "items", '"items":[', "\u0000\n", "");
const value = fc.jsonValue({ maxDepth: 4 });
const element = fc.oneof(value, awkward, fc.dictionary(awkward, fc.oneof(value, awkward)));
const list = fc.record({
  items: fc.array(element, { maxLength: 12 }),
  metadata: fc.record({ resourceVersion: fc.string(), continue: fc.string(), more: value }),
  before: fc.oneof(value, awkward, fc.constant({ items: [1, { items: [2] }] })),
  metadataFirst: fc.boolean(),
  space: fc.constantFrom(undefined, 1, "\t", "\r\n  "),
});

test(`however a list is cut, its items and envelope come out whole (seed ${seed})`, () => {
  fc.assert(
    fc.property(list, fc.array(fc.nat(), { maxLength: 60 }), (parts, places) => {
      const { items, metadata, before, metadataFirst, space } = parts;
      const object = metadataFirst
        ? { before, kind: "List", metadata, items }
        : { before, items, kind: "List", metadata };
      const body = Buffer.from(JSON.stringify(object, null, space));
      const plain = JSON.parse(body.toString());
      const { items: got, envelope } = read(cut(body, places));
      expect(got).toEqual(plain.items);
      expect(envelope).toEqual({ ...plain, items: [] });
    }),
    { seed, numRuns: 500 },
  );
});

test(`a list may arrive a byte at a time (seed ${seed})`, () => {
  fc.assert(
    fc.property(list, ({ items, metadata }) => {
      const body = Buffer.from(JSON.stringify({ items, metadata }));
      const plain = JSON.parse(body.toString());
      expect(read([...body].map((byte) => Buffer.from([byte]))).items).toEqual(plain.items);
    }),
    { seed, numRuns: 100 },
  );
});

test("a key may have a backslash and a quote, wherever the list is cut", () => {
  const element = '{"\\\\":1,"\\\\\\"]":{"\\"":[]}}';
  const body = Buffer.from(`{"items":[${element},${element}]}`);
  for (let at = 0; at <= body.length; at += 1) {
    const texts: string[] = [];
    const stream = new ListStream((text) => texts.push(text));
    for (const chunk of cut(body, [at])) stream.push(chunk);
    stream.end();
    expect(texts).toEqual([element, element]);
  }
});

test("a list without objects, or with null for them, has none", () => {
  const body = (items: string) => [Buffer.from(`{"kind":"List"${items},"metadata":{"resourceVersion":"7"}}`)];
  for (const items of ["", ',"items":null', ',"items":[]', ',"items":[ \n ]']) {
    const { items: got, envelope } = read(body(items));
    expect(got).toEqual([]);
    expect(envelope).toMatchObject({ metadata: { resourceVersion: "7" } });
  }
});

test("the key of the objects may be written with escapes", () => {
  expect(read([Buffer.from('{"\\u0069tems":[1,"a"]}')]).items).toEqual([1, "a"]);
});

test.each([
  ['{"items":[{"a":1}', "in the middle"],
  ['{"items":[{"a":', "in the middle"],
  ['{"items":[]', "JSON"],
  ["[]", "no JSON object"],
  ["", "JSON"],
  ["<html>502</html>", "JSON"],
])("a list that is not complete is refused: %s", (body, message) => {
  expect(() => read([Buffer.from(body)])).toThrow(message);
});

test("one object that never ends does not use up the memory", () => {
  const stream = new ListStream(() => {});
  stream.push(Buffer.from('{"items":["'));
  const more = Buffer.alloc(1024 * 1024, "a");
  expect(() => {
    for (let megabyte = 0; megabyte < 64; megabyte += 1) stream.push(more);
  }).toThrow("bytes");
});
