import { describe, expect, test } from "vitest";
import { convertConfig } from "../../ipam/definition/convert-config.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";

const conf = (ipam: object, plugin: object = {}) => ({ name: "blue", type: "macvlan", ...plugin, ipam });
const LEFT_OUT = "has no counterpart and is left out";

/** Their block, ours, what is noted, and keys beside the block. */
describe("a file of another IPAM plugin means the same with Holdfast's keys:", () => {
  test.each<[string, object, object, string[], object?]>([
    [
      "whereabouts, range with host bits and a link-local gateway",
      {
        type: "whereabouts",
        range: "2001:db8:5:333::7/64",
        gateway: "fe80::1",
        routes: [{ dst: "::/0" }],
        log_file: "/tmp/x",
      },
      { subnets: "2001:db8:5:333::/64", gateway: "fe80::1", routes: [{ dst: "::/0" }] },
      [`whereabouts: log_file ${LEFT_OUT}`],
    ],
    [
      "whereabouts, exclusions with host bits, alone, twice and outside",
      {
        type: "whereabouts",
        range: "192.168.2.225/28",
        exclude: ["192.168.2.229/30", "192.168.2.236/32", "192.168.2.238", "192.168.2.236", "192.168.9.0/30"],
      },
      {
        subnets: "192.168.2.224/28",
        excludeSubnets: ["192.168.2.228/30", "192.168.2.236/32", "192.168.2.238/32"],
      },
      ['whereabouts: exclude "192.168.9.0/30" is left out: it is not inside 192.168.2.224/28'],
    ],
    [
      "whereabouts, two ranges",
      {
        type: "whereabouts",
        ipRanges: [{ range: "10.0.0.0/24", exclude: ["10.0.0.4/30"] }, { range: "fd00::/64" }],
      },
      { subnets: "10.0.0.0/24,fd00::/64", excludeSubnets: ["10.0.0.4/30"] },
      [],
    ],
    [
      "whereabouts, range_start and range_end",
      {
        type: "whereabouts",
        range: "10.0.0.0/24",
        range_start: "10.0.0.10",
        range_end: "10.0.0.20",
        gateway: "10.0.0.1",
      },
      {
        ranges: [[{ subnet: "10.0.0.0/24", rangeStart: "10.0.0.10", rangeEnd: "10.0.0.20", gateway: "10.0.0.1" }]],
      },
      [],
    ],
    [
      "whereabouts, a range a-b",
      { type: "whereabouts", range: "10.0.0.10-10.0.0.20/24" },
      { ranges: [[{ subnet: "10.0.0.0/24", rangeStart: "10.0.0.10", rangeEnd: "10.0.0.20" }]] },
      [
        "whereabouts: no gateway is named for 10.0.0.0/24: with rangeStart and rangeEnd its first address is answered as one, and not given",
      ],
    ],
    [
      "static",
      {
        type: "static",
        addresses: [
          { address: "10.10.0.7/24", gateway: "10.10.0.254" },
          { address: "3ffe:ffff:0:01ff::1/64", gateway: "3ffe:ffff:0::1" },
        ],
        dns: { nameservers: ["10.1.0.1"] },
      },
      {
        subnets: "10.10.0.0/24,3ffe:ffff:0:1ff::/64",
        reservedSubnets: "10.10.0.0/24,3ffe:ffff:0:1ff::/64",
        gateway: "10.10.0.254,3ffe:ffff:0::1",
        dns: { nameservers: ["10.1.0.1"] },
      },
      [
        "static: each address is given to one container at a time; the others of its subnet, to nobody who does not ask for one",
      ],
      { args: { cni: { ips: ["10.10.0.7/24", "3ffe:ffff:0:01ff::1/64"] } } },
    ],
    [
      "host-local",
      { type: "host-local", subnet: "10.0.0.0/24", dataDir: "/srv/cni" },
      { subnet: "10.0.0.0/24", dataDir: "/srv/cni" },
      [],
    ],
  ])("%s", (_title, theirs, ours, notes, plugin = {}) => {
    const converted = convertConfig(conf(theirs)) ?? expect.fail();
    expect(converted.conf).toEqual(conf({ type: "holdfast-ipam", ...ours }, plugin));
    expect(converted.notes).toEqual(notes);
    expect(parsePluginConfig(converted.conf).rangeSets).not.toEqual([]);
    const list = { name: "blue", plugins: [conf(theirs), { type: "tuning" }] };
    expect(convertConfig(list)?.conf).toEqual({
      name: "blue",
      plugins: [converted.conf, { type: "tuning" }],
    });
  });
});

test.each([
  conf({ type: "dhcp" }),
  conf({ type: "holdfast-ipam", subnets: "10.0.0.0/24" }),
  conf({ type: "toString" }),
  { type: "loopback" },
  { plugins: "none" },
])("%j is not converted", (foreign) => {
  expect(convertConfig(foreign)).toBeNull();
});

test("what cannot be read stays as it is, for the refusal of the result", () => {
  const { conf: written } = convertConfig(conf({ type: "whereabouts", range: "10.0.0.01/24" })) ?? expect.fail();
  expect(() => parsePluginConfig(written)).toThrow('ipam.subnets is "10.0.0.01/24"');
});
