import { describe, expect } from "vitest";
import { errorOf, expectServing, held, network, tableTest as test } from "./fixtures.ts";

/*
 * Ranges that cannot be meant: refused with code 7 and a message that begins with the key and the value. Nothing is
 * kept, and the next good request is served: no restart. Each row is what stands in the `ipam` block.
 */

const SUBNETS: [string, object, string][] = [
  ["a number", { subnets: 7 }, "ipam.subnets is 7: "],
  ["an object", { subnets: {} }, "ipam.subnets is {}: "],
  ["a list with a number", { subnets: ["10.1.0.0/24", 7] }, "ipam.subnets[1] is 7: "],
  ["nonsense", { subnets: "blue" }, 'ipam.subnets is "blue": '],
  [
    "a host bit",
    { subnets: "10.1.0.1/24" },
    'ipam.subnets is "10.1.0.1/24": 10.1.0.1/24 has host bits; the network is 10.1.0.0/24',
  ],
  ["no prefix length", { subnets: "10.1.0.0" }, 'ipam.subnets is "10.1.0.0": '],
  ["a prefix length too long", { subnets: "10.1.0.0/33" }, 'ipam.subnets is "10.1.0.0/33": '],
  ["a netmask", { subnets: "10.1.0.0/255.255.255.0" }, 'ipam.subnets is "10.1.0.0/255.255.255.0": '],
  ["a range with a dash", { subnets: "10.1.0.1-10.1.0.9" }, 'ipam.subnets is "10.1.0.1-10.1.0.9": '],
  ["three numbers", { subnets: "10.1.0/24" }, 'ipam.subnets is "10.1.0/24": '],
  ["a number above 255", { subnets: "10.1.256.0/24" }, 'ipam.subnets is "10.1.256.0/24": '],
  ["a leading zero", { subnets: "10.01.0.0/24" }, 'ipam.subnets is "10.01.0.0/24": '],
  ["an IPv4-mapped network", { subnets: "::ffff:10.1.0.0/120" }, 'ipam.subnets is "::ffff:10.1.0.0/120": '],
  [
    "nothing between two commas",
    { subnets: "10.1.0.0/24,,10.2.0.0/24" },
    'ipam.subnets is "10.1.0.0/24,,10.2.0.0/24": ',
  ],
  ["the same twice", { subnets: "10.1.0.0/24,10.1.0.0/24" }, 'ipam.subnets is "10.1.0.0/24": it overlaps 10.1.0.0/24'],
  [
    "one within another",
    { subnets: "10.1.0.0/16,10.1.5.0/24" },
    'ipam.subnets is "10.1.5.0/24": it overlaps 10.1.0.0/16',
  ],
  [
    "seventeen",
    { subnets: Array.from({ length: 17 }, (_, i) => `10.${i}.0.0/24`) },
    "ipam.subnets is a list of 17 entries: at most 16",
  ],
  [
    "beside host-local's subnet",
    { subnets: "10.10.0.0/24", subnet: "10.2.0.0/24" },
    'ipam.subnets is "10.10.0.0/24": ipam.subnet gives ranges too; keep one of the two',
  ],
];

/** No host can have one of these addresses. */
const NO_NETWORKS: [string, object, string][] = [
  ["loopback", { subnets: "127.0.0.0/24" }, 'ipam.subnets is "127.0.0.0/24": it has loopback addresses'],
  ["around loopback", { subnets: "126.0.0.0/7" }, 'ipam.subnets is "126.0.0.0/7": it has loopback addresses'],
  ["multicast", { subnets: "224.0.0.0/24" }, 'ipam.subnets is "224.0.0.0/24": it has multicast addresses'],
  ["IPv6 multicast", { subnets: "ff02::/64" }, 'ipam.subnets is "ff02::/64": it has multicast addresses'],
  ["IPv6 loopback", { subnets: "::/64" }, 'ipam.subnets is "::/64": it has the address that stands for no host'],
  ["all of IPv4", { subnets: "0.0.0.0/0" }, 'ipam.subnets is "0.0.0.0/0": it is every address there is'],
  ["all of IPv6", { subnets: "::/0" }, 'ipam.subnets is "::/0": it is every address there is'],
  ["this network", { subnets: "0.0.0.0/24" }, 'ipam.subnets is "0.0.0.0/24": it has addresses that stand for no'],
  ["a mask", { subnets: "255.255.255.0/24" }, 'ipam.subnets is "255.255.255.0/24": it has the broadcast address'],
];

const CUTOUTS: [string, object, string][] = [
  ["all of it", { excludeSubnets: "10.10.0.0/24" }, 'ipam.subnets is "10.10.0.0/24": '],
  ["all of it in two halves", { excludeSubnets: "10.10.0.0/25,10.10.0.128/25" }, 'ipam.subnets is "10.10.0.0/24": '],
  ["more than the subnet", { excludeSubnets: "10.10.0.0/16" }, 'ipam.subnets is "10.10.0.0/24": '],
  [
    "a bare address",
    { excludeSubnets: "10.10.0.5" },
    'ipam.excludeSubnets is "10.10.0.5": 10.10.0.5 has no prefix length; write 10.10.0.5/32',
  ],
  ["reserved: something outside", { reservedSubnets: "10.11.0.0/24" }, 'ipam.reservedSubnets is "10.11.0.0/24": '],
  [
    "reserved and excluded at once",
    { reservedSubnets: "10.10.0.0/29", excludeSubnets: "10.10.0.0/28" },
    'ipam.reservedSubnets is "10.10.0.0/29": ',
  ],
];

const GATEWAYS: [string, object, string][] = [
  ["the network address", { gateway: "10.10.0.0" }, 'ipam.gateway is "10.10.0.0": '],
  ["the broadcast address", { gateway: "10.10.0.255" }, 'ipam.gateway is "10.10.0.255": '],
  ["with a mask", { gateway: "10.10.0.1/24" }, 'ipam.gateway is "10.10.0.1/24": '],
  [
    "two for one subnet",
    { gateway: "10.10.0.1,10.10.0.2" },
    'ipam.gateway is "10.10.0.2": 10.10.0.0/24 has gateway 10.10.0.1 already',
  ],
  ["the only address", { subnets: "192.0.2.7/32", gateway: "192.0.2.7" }, 'ipam.subnets is "192.0.2.7/32": '],
  ["of a family that has no subnet", { gateway: "fd10::1" }, 'ipam.gateway is "fd10::1": '],
];

const HOST_LOCAL: [string, object, string][] = [
  [
    "a start after the end",
    { ranges: [[{ subnet: "10.1.0.0/24", rangeStart: "10.1.0.20", rangeEnd: "10.1.0.10" }]] },
    'ipam.ranges[0][0].rangeEnd is "10.1.0.10": it comes before rangeStart 10.1.0.20',
  ],
  [
    "a start outside",
    { ranges: [[{ subnet: "10.1.0.0/24", rangeStart: "10.2.0.1" }]] },
    'ipam.ranges[0][0].rangeStart is "10.2.0.1": ',
  ],
  [
    "an end outside",
    { ranges: [[{ subnet: "10.1.0.0/24", rangeEnd: "10.2.0.1" }]] },
    'ipam.ranges[0][0].rangeEnd is "10.2.0.1": ',
  ],
  [
    "a gateway of the other family",
    { ranges: [[{ subnet: "10.1.0.0/24", gateway: "fd10::1" }]] },
    'ipam.ranges[0][0].gateway is "fd10::1": the gateway of 10.1.0.0/24 has to be IPv4 too',
  ],
  [
    "nerdctl's ipRange without the ends that it writes beside it",
    { ranges: [[{ subnet: "10.1.0.0/16", ipRange: "10.1.5.0/24", rangeStart: "10.1.5.1" }]] },
    'ipam.ranges[0][0].ipRange is "10.1.5.0/24": rangeStart and rangeEnd count; write both, inside of it',
  ],
  [
    "an unknown key in a range",
    { ranges: [[{ subnet: "10.1.0.0/24", start: "10.1.0.5" }]] },
    'ipam.ranges[0][0].start is "10.1.0.5": no such key',
  ],
  ["a range without subnet", { ranges: [[{}]] }, "ipam.ranges[0][0].subnet is missing"],
  ["a flat list", { ranges: [{ subnet: "10.1.0.0/24" }] }, 'ipam.ranges[0] is {"subnet":"10.1.0.0/24"}: '],
  ["an empty set", { ranges: [[]] }, "ipam.ranges[0] is []: "],
  [
    "both families in one set",
    { ranges: [[{ subnet: "10.1.0.0/24" }, { subnet: "fd10::/64" }]] },
    "ipam.ranges[0][1].subnet",
  ],
  [
    "sets that overlap",
    { ranges: [[{ subnet: "10.1.0.0/24" }], [{ subnet: "10.1.0.0/16" }]] },
    'ipam.ranges[1][0].subnet is "10.1.0.0/16": it overlaps 10.1.0.0/24',
  ],
  ["a window without subnet", { rangeStart: "10.1.0.5" }, 'ipam.rangeStart is "10.1.0.5": '],
  ["ranges that are a text", { ranges: "10.1.0.0/24" }, 'ipam.ranges is "10.1.0.0/24": '],
];

/** Beside `subnets: "10.10.0.0/24"`, unless the row says another. */
const OURS: readonly (readonly [string, readonly [string, object, string][]])[] = [
  ["subnets", SUBNETS],
  ["excludeSubnets and reservedSubnets", CUTOUTS],
  ["gateway", GATEWAYS],
  ["no network", NO_NETWORKS],
];

async function expectRefused(daemon: Parameters<typeof held>[0], config: object, message: string) {
  const error = errorOf(await daemon.cni("ADD", "c1", { config }));
  expect(error.msg.slice(0, message.length)).toBe(message);
  expect(error.code).toBe(7);
  expect(await held(daemon, "bad")).toEqual([]);
  await expectServing(daemon);
}

describe.for(OURS)("ranges are refused with code 7: %s", ([, rows]) => {
  test.for(rows)("%s", async ([, keys, message], { daemon }) => {
    await expectRefused(daemon, network("bad", { subnets: "10.10.0.0/24", ...keys }), message);
  });
});

describe("host-local's ranges are refused with code 7", () => {
  test.for(HOST_LOCAL)("%s", async ([, keys, message], { daemon }) => {
    await expectRefused(daemon, { ...network("bad"), ipam: { type: "holdfast-ipam", ...keys } }, message);
  });
});

describe("one key in two places is refused with code 7", () => {
  test("where the two values differ", async ({ daemon }) => {
    const config = network("bad", {}, { subnets: "10.2.0.0/24" });
    const message = 'ipam.subnets is "10.10.0.0/24": the plugin\'s top level says subnets "10.2.0.0/24"';
    await expectRefused(daemon, config, message);
  });
});
