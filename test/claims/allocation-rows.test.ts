import fc from "fast-check";
import { expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { AllocationRows } from "../../claims/reasons/allocation-rows.ts";
import { projectAllocation } from "../../claims/reasons/caches.ts";
import type { IPAllocation } from "../../kube/objects.ts";

const UUID = "6f1b1c0e-2d0a-4c11-9f3e-0123456789ab";
const TIME = "2026-11-28T01:02:03Z";

function allocation(number: number): IPAllocation {
  const owner = { kind: "IPAMClaim", namespace: "shop", name: `vm-${number}.blue`, uid: UUID, interface: "" } as const;
  const pod = { namespace: "shop", name: `virt-launcher-vm-${number}-x7k2p`, uid: UUID.replace("6f", "7f") };
  const containerID = number.toString(16).padStart(8, "0").repeat(8);
  const attachment = { containerID, interface: "net1", node: "node-1", pod, since: TIME };
  const made = newAllocation(
    "blue",
    { address: { family: 4, value: BigInt(0x0a00_0000 + number) }, prefixLength: 16 },
    { owner, attachment, mac: "02:00:00:00:00:01" },
    TIME,
  );
  const server = {
    uid: UUID.replace("6f", "8f"),
    resourceVersion: "812345678",
    creationTimestamp: TIME,
    generation: 3,
  };
  return { ...made, metadata: { ...made.metadata, ...server } } as unknown as IPAllocation;
}

test("a row says what the projection of the whole object says", () => {
  const rows = new AllocationRows();
  const { mac: _, ...withoutMac } = allocation(4).spec;
  const objects = [
    allocation(1),
    { ...allocation(2), status: { state: "Cooling" } },
    { metadata: { name: "n", uid: "u", resourceVersion: "1" } },
    { ...allocation(3), metadata: { ...allocation(3).metadata, managedFields: [{ manager: "m" }] } },
    { ...allocation(4), spec: withoutMac },
  ] as unknown as IPAllocation[];
  const read = objects.map((object) => [projectAllocation(object), rows.project(object)] as const);
  for (const [whole, row] of read)
    for (const field of Object.keys(whole) as (keyof typeof whole)[])
      expect(row[field], field).toStrictEqual(whole[field]);
  expect(read.map(([, { state }]) => state)).toEqual(["Bound", "Cooling", undefined, "Bound", "Bound"]);
  expect(read.map(([, { ownerKind }]) => ownerKind?.length)).toEqual([9, 9, undefined, 9, 9]);
  expect(read.map(([, { hasMac }]) => hasMac)).toEqual([true, true, false, true, false]);
  expect(read.map(([, { recordsFields }]) => recordsFields)).toEqual([false, false, false, true, false]);
});

test("any object comes back, whichever was asked for before", () => {
  const rows = new AllocationRows();
  const metadata = fc.record({ name: fc.string(), uid: fc.uuid(), resourceVersion: fc.string() });
  const object = fc.record({ metadata, more: fc.jsonValue(), other: fc.string({ unit: "binary" }) });
  fc.assert(
    fc.property(fc.array(object), (objects) => {
      const expected = objects.map((one) => JSON.parse(JSON.stringify(one)));
      const kept = expected.map((one) => rows.project(structuredClone(one)));
      for (const [index, row] of kept.entries()) expect(row.object).toStrictEqual(expected[index]);
    }),
  );
});
