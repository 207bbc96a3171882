import { describe, expect, test } from "vitest";
import { formatAddress } from "../../ipam/space/address.ts";
import { describeRangeSet } from "../../ipam/space/range-set.ts";
import { define, firstRangeSet, runs } from "./definitions.ts";

describe("host-local's keys mean what they mean to host-local", () => {
  test.each<[object, string, string, bigint, string]>([
    [{ subnet: "10.0.0.0/29" }, "10.0.0.2-10.0.0.6", "10.0.0.1", 8n, "the first address is the gateway"],
    [
      { subnet: "10.0.0.0/24", rangeStart: "10.0.0.10", rangeEnd: "10.0.0.20" },
      "10.0.0.10-10.0.0.20",
      "10.0.0.1",
      11n,
      "both ends belong to the range; the window is the size",
    ],
    [
      { subnet: "10.0.0.0/24", rangeStart: "10.0.0.250" },
      "10.0.0.250-10.0.0.254",
      "10.0.0.1",
      6n,
      "to the end, without broadcast",
    ],
    [{ subnet: "10.0.0.0/24", rangeEnd: "10.0.0.4" }, "10.0.0.2-10.0.0.4", "10.0.0.1", 5n, "from the beginning"],
    [
      { subnet: "10.0.0.0/24", rangeStart: "10.0.0.0", rangeEnd: "10.0.0.255" },
      "10.0.0.2-10.0.0.254",
      "10.0.0.1",
      256n,
      "network and broadcast are never given, even if named",
    ],
    [
      { subnet: "10.0.0.0/29", gateway: "10.0.0.4" },
      "10.0.0.1-10.0.0.3 10.0.0.5-10.0.0.6",
      "10.0.0.4",
      8n,
      "the gateway named",
    ],
    [{ subnet: "fd00::/125" }, "fd00::2-fd00::7", "fd00::1", 8n, "IPv6 has no broadcast"],
    [
      { subnet: "10.0.0.0/31" },
      "10.0.0.1-10.0.0.1",
      "10.0.0.0",
      2n,
      "host-local refuses it; here it is a gateway and a host",
    ],
    [
      { subnet: "10.0.0.0/29", rangeStart: "", gateway: null },
      "10.0.0.2-10.0.0.6",
      "10.0.0.1",
      8n,
      "unset in Go's way",
    ],
  ])("%o", (ipam, usable, gateway, size) => {
    const set = firstRangeSet(ipam);
    expect(runs(set, set.usable)).toBe(usable);
    expect(set.size).toBe(size);
    const [subnet] = set.subnets;
    expect(subnet?.gateway && formatAddress(subnet.gateway)).toBe(gateway);
  });

  test("a set of several ranges gives one address out of all of them", () => {
    const definition = define({
      ranges: [
        [
          { subnet: "10.0.1.0/29", gateway: "10.0.1.6" },
          { subnet: "10.0.0.0/29", rangeStart: "10.0.0.4" },
        ],
        [{ subnet: "fd00::/64" }],
      ],
    });
    expect(definition.rangeSets).toHaveLength(2);
    const [v4] = definition.rangeSets;
    expect(v4 && runs(v4, v4.usable)).toBe("10.0.0.4-10.0.0.6 10.0.1.1-10.0.1.5");
    expect(v4?.size).toBe(12n);
  });

  test("the order of the sets matters, and that of ranges within a set does not", () => {
    const [a, b] = [{ subnet: "10.0.0.0/29" }, { subnet: "10.0.1.0/29" }];
    expect(define({ ranges: [[a, b]] }).fingerprint).toBe(define({ ranges: [[b, a]] }).fingerprint);
    expect(define({ ranges: [[a], [b]] }).fingerprint).not.toBe(define({ ranges: [[b], [a]] }).fingerprint);
    expect(define({ ranges: [[a], [b]] }).fingerprint).not.toBe(define({ ranges: [[a, b]] }).fingerprint);
  });

  test("the runtime's ranges come first, then subnet, then ranges", () => {
    const definition = define(
      { subnet: "10.1.0.0/24", ranges: [[{ subnet: "10.2.0.0/24" }]] },
      { runtimeConfig: { ipRanges: [[{ subnet: "10.3.0.0/24" }]] } },
    );
    expect(definition.rangeSets.map((set) => runs(set, set.extent))).toEqual([
      "10.3.0.0-10.3.0.255",
      "10.1.0.0-10.1.0.255",
      "10.2.0.0-10.2.0.255",
    ]);
  });

  test("two windows of one subnet may be two sets, and neither gives the other's gateway", () => {
    const definition = define({
      ranges: [
        [{ subnet: "10.0.0.0/24", rangeStart: "10.0.0.1", rangeEnd: "10.0.0.9", gateway: "10.0.0.12" }],
        [{ subnet: "10.0.0.0/24", rangeStart: "10.0.0.10", rangeEnd: "10.0.0.20", gateway: "10.0.0.5" }],
      ],
    });
    expect(definition.rangeSets.map((set) => runs(set, set.usable))).toEqual([
      "10.0.0.1-10.0.0.4 10.0.0.6-10.0.0.9",
      "10.0.0.10-10.0.0.11 10.0.0.13-10.0.0.20",
    ]);
  });

  test("our exclusions and reservations apply to them", () => {
    const set = firstRangeSet({
      subnet: "10.0.0.0/24",
      rangeStart: "10.0.0.10",
      rangeEnd: "10.0.0.20",
      excludeSubnets: "10.0.0.12/31,10.0.0.128/25",
      reservedSubnets: "10.0.0.16/30",
    });
    expect(runs(set, set.usable)).toBe("10.0.0.10-10.0.0.11 10.0.0.14-10.0.0.20");
    expect(runs(set, set.automatic)).toBe("10.0.0.10-10.0.0.11 10.0.0.14-10.0.0.15 10.0.0.20-10.0.0.20");
    expect(set.size).toBe(11n);
  });

  test("the other keys of host-local are read", () => {
    const definition = define({
      subnet: "10.0.0.0/24",
      routes: [{ dst: "0.0.0.0/0" }],
      resolvConf: "/etc/resolv.conf",
      dataDir: "/run/my-orchestrator/container-ipam-state",
    });
    expect(definition).toMatchObject({
      resolvConf: "/etc/resolv.conf",
      routes: [{ dst: "0.0.0.0/0" }],
      dns: {},
      dataDir: "/run/my-orchestrator/container-ipam-state",
    });
    expect(definition.notes).toEqual([]);
  });

  test.each(["relative/path", 5, "/a\u0000b"])("dataDir %j is refused", (dataDir) => {
    expect(() => define({ subnet: "10.0.0.0/24", dataDir })).toThrow(/^ipam\.dataDir is /);
  });

  test("two configurations that differ in dataDir are one network", () => {
    const [one, other] = ["/a", "/b/"].map((dataDir) => define({ subnet: "10.0.0.0/24", dataDir }));
    expect(one?.fingerprint).toBe(other?.fingerprint);
    expect(other?.dataDir).toBe("/b");
  });
});

test("a message names ten ranges of a set, and how many more there are", () => {
  const subnets = Array.from({ length: 12 }, (_, i) => ({ subnet: `10.0.${i}.0/24` }));
  expect(describeRangeSet(firstRangeSet({ ranges: [subnets] }))).toMatch(
    /^10\.0\.0\.0\/24, .*10\.0\.9\.0\/24 and 2 more$/,
  );
});
