import { expect, test } from "vitest";
import { BoundedMap } from "../../platform/bounded-map.ts";

test("a full map drops the entry that was set longest ago", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2).set("c", 3);
  expect([...map]).toEqual([
    ["b", 2],
    ["c", 3],
  ]);
});

test("setting a key again makes it the newest entry and drops none", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2).set("a", 3);
  expect([...map.keys()]).toEqual(["b", "a"]);
  map.set("c", 4);
  expect([...map.keys()]).toEqual(["a", "c"]);
});

test("reading does not make an entry newer", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2);
  expect(map.get("a")).toBe(1);
  map.set("c", 3);
  expect(map.has("a")).toBe(false);
});

test("a full size drops as many entries as the new one needs, and a value above it is not kept", () => {
  const map = new BoundedMap<string, string>(10, { sizeMax: 10, sizeOf: (text) => text.length });
  map.set("a", "1234").set("b", "12345").set("c", "1");
  expect([...map.keys()]).toEqual(["a", "b", "c"]);
  map.set("c", "12");
  expect([...map.keys()]).toEqual(["b", "c"]);
  map.delete("b");
  map.set("d", "12345678");
  expect([...map.keys()]).toEqual(["c", "d"]);
  map.set("e", "12345678901");
  expect([...map.keys()]).toEqual([]);
  map.set("f", "1234567890");
  map.clear();
  map.set("g", "1234567890");
  expect([...map.keys()]).toEqual(["g"]);
});

test("after any sequence of sets, deletes and clears it equals a plain Map that drops its first key", () => {
  const map = new BoundedMap<number, number>(8);
  const model = new Map<number, number>();
  // A walk over 16 keys that comes past every order: multiples of an odd number, with a step that changes.
  for (let step = 0, key = 0; step < 4_500; step += 1) {
    key = (key * 5 + 3 + (step % 11)) % 16;
    if (step % 1_499 === 0) {
      map.clear();
      model.clear();
    } else if (step % 7 === 0) expect(map.delete(key)).toBe(model.delete(key));
    else {
      map.set(key, step);
      model.delete(key);
      model.set(key, step);
      const [first] = model.keys();
      if (model.size > 8) model.delete(first as number);
    }
    expect([...map]).toEqual([...model]);
  }
});
