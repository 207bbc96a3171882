import { expect, test } from "vitest";
import { sharingParts } from "../../controller/shared-parts.ts";

const owner = (uid: string) => ({ kind: "AddressPool", name: "lan", uid });
const view = (uid: string) => ({
  ...{ uid, labels: new Map<string, string>(), pool: { group: "ipam.holdfast.dev", name: "lan" } },
  ...{ owners: [owner("p"), owner(uid)], conditions: [{ type: "Ready", status: "True" }] },
});

test("equal parts of a new value are replaced by the objects of the earlier value", () => {
  const earlier = view("a");
  const later = sharingParts(view("b"), earlier);
  expect(later).toEqual(view("b"));
  expect(earlier).toEqual(view("a"));
  expect(later).not.toBe(earlier);
  for (const key of ["labels", "pool", "conditions"] as const) expect(later[key]).toBe(earlier[key]);
  expect(later.owners[0]).toBe(earlier.owners[0]);
  expect(later.owners[1]).not.toBe(earlier.owners[1]);
});

test("parts that differ, or that have another type, are not shared with the earlier value", () => {
  const earlier = {
    list: [1, 2],
    map: new Map([["a", "1"]]),
    set: new Set([1]),
    at: new Date(1),
    is: { a: 1, b: 2 },
  };
  const given = { list: [1], map: new Map([["a", "1"]]), set: new Set([2]), at: new Date(2), is: { a: 1 } };
  const later = sharingParts({ ...given }, earlier);
  for (const key of ["list", "map", "set", "at", "is"] as const) expect(later[key]).toBe(given[key]);
  expect(later).toEqual({
    ...{ list: [1], map: new Map([["a", "1"]]), set: new Set([2]), at: new Date(2), is: { a: 1 } },
  });
  expect(sharingParts({ list: {} }, { list: [] })).toEqual({ list: {} });
});
