import fc from "fast-check";
import { expect, test } from "vitest";
import { newAllocation } from "../../../allocations/allocation-object.ts";
import { AllocationRows } from "../../../claims/reasons/allocation-rows.ts";
import { projectAllocation } from "../../../claims/reasons/caches.ts";
import type { IPAllocation } from "../../../kube/objects.ts";
import { PackedObjects } from "../../../kube/packed-objects.ts";

const HINTS = {
  constants: new Set(["kind"]),
  words: new Set(["node"]),
  isOwnKey: (path: string, key: string) => (path === "labels" && key !== "a") || path === "of",
};
const OWN_KEYS = "own keys";
const uuid = "6f1b1c0e-2d0a-4c11-9f3e-0123456789ab";
const containerId = "0123456789abcdef".repeat(4);

function comesBack(object: unknown, known = "known"): void {
  const packed = new PackedObjects(HINTS);
  const header = ["first", uuid, ""];
  const row = packed.pack(
    object,
    known,
    header.map((text) => [text, text === "first"]),
  );
  expect(packed.unpack(row, known, header.length)).toStrictEqual(object);
  expect(header.map((_, index) => packed.headerOf(row, known, index))).toEqual(header);
  expect(row.text).toMatch(/^[\0-\xff]*$/);
}

test.each([
  { text: uuid, again: uuid, upper: uuid.toUpperCase() },
  {
    hex: containerId,
    odd: containerId.slice(1),
    pair: `${containerId}/net1`,
    nested: `${containerId}/${containerId}/x`,
  },
  {
    time: "2026-11-28T01:02:03Z",
    never: "2026-13-41T25:00:00Z",
    before: "1969-12-31T23:59:59Z",
    part: "2026-11-28T01:02:03.5Z",
  },
  { digits: "0", long: "99999999999999999999", zeros: "007", number: -1.5e300, natural: 7, both: [0, -0.5] },
  { latin: "äöü\0\u0080", other: "€𝄞", half: "\ud800", known: "known", long: "x".repeat(20_000) },
  { empty: "", none: null, yes: true, no: false, list: [], object: {}, nested: [[{}], [{ a: [""] }]] },
  {
    kind: "Pod",
    node: "node-1",
    labels: { "node-1": "node-1", [uuid]: "" },
    of: { [`${containerId}/net1`]: { node: "" } },
  },
  JSON.parse('{"__proto__":"a","of":{"__proto__":{"__proto__":{"kind":"b"}},"constructor":"c"}}'),
])("what was packed comes back: %j", (object) => comesBack(object));

test("any JSON comes back, however alike the objects before it were", () => {
  const packed = new PackedObjects(HINTS);
  const texts = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom(uuid, containerId, "node", "kind", OWN_KEYS),
    fc.uuid(),
  );
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      texts,
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
      tie("list"),
      tie("object"),
    ),
    list: fc.array(tie("value"), { maxLength: 4 }),
    object: fc.dictionary(fc.oneof(texts, fc.constantFrom("labels", "of", "kind", "node", "a")), tie("value"), {
      maxKeys: 6,
    }),
  }));
  fc.assert(
    fc.property(json.object, texts, (object, known) => {
      const expected = JSON.parse(JSON.stringify(object));
      const row = packed.pack(expected, known, [[known, false]]);
      expect(packed.unpack(row, known, 1)).toStrictEqual(expected);
    }),
    { numRuns: 2_000 },
  );
});

test("more words and shapes than are remembered change nothing but the size", () => {
  const packed = new PackedObjects(HINTS);
  const objects = Array.from({ length: 70_000 }, (_, index) => ({
    node: `node-${index}`,
    [index % 5_000 ? "a" : `k${index}`]: index,
  }));
  for (let index = 0; index < 5_000; index += 1) objects.push({ node: "n", [`key-${index}`]: index });
  const rows = objects.map((object) => packed.pack(object, "", []));
  for (const [index, row] of rows.entries()) expect(packed.unpack(row, "", 0)).toEqual(objects[index]);
});

function allocation(number: number): IPAllocation {
  const claim = {
    kind: "IPAMClaim",
    namespace: "shop",
    name: `vm-${number}.blue`,
    uid: uuid,
    interface: "",
  } as const;
  const pod = { namespace: "shop", name: `virt-launcher-vm-${number}-x7k2p`, uid: uuid.replace("6f", "7f") };
  const time = "2026-11-28T01:02:03Z";
  const containerID = number.toString(16).padStart(8, "0").repeat(8);
  const attachment = { containerID, interface: "net1", node: "node-1", pod, since: time };
  const made = newAllocation(
    "blue",
    { address: { family: 4, value: BigInt(0x0a00_0000 + number) }, prefixLength: 16 },
    { owner: claim, attachment, mac: "02:00:00:00:00:01" },
    time,
  );
  const server = {
    uid: uuid.replace("6f", "8f"),
    resourceVersion: "812345678",
    creationTimestamp: time,
    generation: 3,
  };
  return { ...made, metadata: { ...made.metadata, ...server } } as unknown as IPAllocation;
}

test("a row says what the projection of the whole object says", () => {
  const rows = new AllocationRows();
  const others = [
    allocation(1),
    { ...allocation(2), status: { state: "Cooling" } },
    { metadata: { name: "n", uid: "u", resourceVersion: "1" } },
    { ...allocation(3), metadata: { ...allocation(3).metadata, managedFields: [{ manager: "m" }] } },
  ] as unknown as IPAllocation[];
  for (const object of others) {
    const whole = projectAllocation(object);
    const row = rows.project(object);
    for (const field of [
      "key",
      "uid",
      "resourceVersion",
      "network",
      "address",
      "creationTimestamp",
      "recordsFields",
      "object",
    ] as const)
      expect(row[field], field).toStrictEqual(whole[field]);
    expect(row.outline.status?.state).toBe(object.status?.state);
    expect(row.outline.spec?.owner?.kind).toBe(object.spec?.owner?.kind);
    expect(Object.keys(row.outline.status?.attachments ?? {}).length).toBe(
      Object.keys(object.status?.attachments ?? {}).length,
    );
    expect(row.outline.spec?.mac === undefined).toBe(object.spec?.mac === undefined);
  }
});

test("an allocation's own text is short, and nothing of it is among the words that many share", () => {
  const rows = new AllocationRows();
  const lengthOf = (number: number) => (rows.project(allocation(number)) as unknown as { text: string }).text.length;
  lengthOf(1);
  // 32 bytes of the container's ID, three UUIDs of 16 each, and the names; as JSON there are 1,200.
  expect(lengthOf(2)).toBeLessThan(240);
  const before = lengthOf(80_000);
  // More than there may be words.
  for (let number = 3; number < 70_000; number += 1) lengthOf(number);
  expect(lengthOf(80_001)).toBe(before);
});
