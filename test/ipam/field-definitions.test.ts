/**
 * Definitions of the kinds that are in use with other plugins, by `ipam.type` alone: accepted with a note, or refused
 * for a reason that is named.
 */
import { expect, test } from "vitest";
import { parseNadConfig } from "../../ipam/definition/nad-config.ts";
import { readNadConfig } from "../../networks/nad-reading.ts";

const nad = (ipam: object, more: object = { type: "macvlan", master: "eth1" }) =>
  JSON.stringify({ cniVersion: "0.3.1", ...more, ipam: { type: "holdfast-ipam", ...ipam } });

test.each([
  [{ subnets: "10.0.0.0/24," }, ["ipam.subnets ends with a comma, which counts for nothing"]],
  [
    { subnets: "10.0.0.0/24, ", gateway: "10.0.0.9," },
    [
      "ipam.subnets ends with a comma, which counts for nothing",
      "ipam.gateway ends with a comma, which counts for nothing",
    ],
  ],
  [
    { ranges: [[], [{ subnet: "10.0.0.0/24" }]] },
    ["ipam.ranges has a range set without ranges, which counts for nothing"],
  ],
  [
    { subnets: "10.0.0.0/24", excludeSubnets: "10.9.0.0/30,fd00::/126" },
    [
      "ipam.excludeSubnets: 10.9.0.0/30 is not inside the subnets of the network (10.0.0.0/24), and excludes nothing elsewhere",
      "ipam.excludeSubnets: fd00::/126 is not inside the subnets of the network (10.0.0.0/24), and excludes nothing elsewhere",
    ],
  ],
  [{ subnet: "10.0.0.0/24", routes: [{ dst: "0.0.0.0/0" }] }, []],
])("%j is accepted with its notes", (ipam, notes) => {
  const { definition } = parseNadConfig(nad(ipam), "blue");
  expect(definition.rangeSets.map(({ size }) => size > 200n)).toEqual([true]);
  expect(definition.notes).toEqual(notes);
});

test("an exclusion that is half outside excludes what is inside", () => {
  const { definition } = parseNadConfig(
    nad({ subnets: "10.0.0.0/25", excludeSubnets: "10.0.0.64/26,10.0.0.128/25" }),
    "blue",
  );
  expect(definition.rangeSets[0]?.usable.size).toBe(63n);
  expect(definition.notes).toHaveLength(1);
});

test.each([
  ["a template", { subnet: "CHANGEME" }, /ipam\.subnet is "CHANGEME": .*not an IP address/],
  ["a template's range", { subnet: "10.0.0.0/24", rangeStart: "CHANGEME" }, /rangeStart is "CHANGEME"/],
  ["another plugin's pool", { ippool: "blue" }, /ipam\.ippool is "blue": no such key/],
  ["no ranges", {}, /network blue has no/],
  ["nothing but an empty range set", { ranges: [[]] }, /a range set needs at least one range/],
])("%s is refused, and the refusal says why", (_, ipam, why) => {
  const reading = readNadConfig(nad(ipam), "blue");
  expect(reading).toMatchObject({ kind: "broken", network: "blue" });
  if (reading.kind === "broken") expect(reading.refusal.message).toMatch(why);
});
