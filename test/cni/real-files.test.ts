import { describe, expect } from "vitest";
import { network, test } from "./fixtures.ts";

/*
 * Files that people have for other IPAM plugins and runtimes, reduced, with nothing but `type` changed. Each row: what
 * it is, its keys in the `ipam` block, the first answer's addresses, their gateways and the routes.
 */

interface Answered {
  readonly ips: readonly { readonly address: string; readonly gateway?: string }[];
  readonly routes?: readonly object[];
}

const FILES: [string, object, Answered][] = [
  [
    "host-local's page: a route with host bits",
    {
      ranges: [
        [
          {
            subnet: "10.10.0.0/16",
            rangeStart: "10.10.1.20",
            rangeEnd: "10.10.3.50",
            gateway: "10.10.0.254",
          },
          { subnet: "172.16.5.0/24" },
        ],
        [
          {
            subnet: "3ffe:ffff:0:01ff::/64",
            rangeStart: "3ffe:ffff:0:01ff::0010",
            rangeEnd: "3ffe:ffff:0:01ff::0020",
          },
        ],
      ],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "192.168.0.0/16", gw: "10.10.5.1" }, { dst: "3ffe:ffff:0:01ff::1/64" }],
    },
    {
      ips: [
        { address: "10.10.1.20/16", gateway: "10.10.0.254" },
        { address: "3ffe:ffff:0:1ff::10/64", gateway: "3ffe:ffff:0:1ff::1" },
      ],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "192.168.0.0/16", gw: "10.10.5.1" }, { dst: "3ffe:ffff:0:1ff::/64" }],
    },
  ],
  [
    "the gateway of a hosting provider, outside of a leased subnet",
    { subnet: "203.0.113.16/28", gateway: "203.0.112.1" },
    { ips: [{ address: "203.0.113.17/28", gateway: "203.0.112.1" }] },
  ],
  [
    "the same in a range",
    { ranges: [[{ subnet: "203.0.113.16/28", gateway: "203.0.112.1" }]] },
    { ips: [{ address: "203.0.113.17/28", gateway: "203.0.112.1" }] },
  ],
  [
    "an IPv6 gateway outside of the subnet",
    { subnet: "2001:db8:5:333::/64", gateway: "2001:db8:5::1" },
    { ips: [{ address: "2001:db8:5:333::1/64", gateway: "2001:db8:5::1" }] },
  ],
  [
    "a link-local gateway",
    { subnet: "2001:db8:5:333::/64", gateway: "fe80::1", routes: [{ dst: "::/0" }] },
    { ips: [{ address: "2001:db8:5:333::1/64", gateway: "fe80::1" }], routes: [{ dst: "::/0" }] },
  ],
  [
    "the same beside the other family's, with the keys of Holdfast",
    { subnets: "192.0.2.0/24,2001:db8:5:333::/64", gateway: "fe80::1,192.0.2.1" },
    {
      ips: [
        { address: "192.0.2.2/24", gateway: "192.0.2.1" },
        { address: "2001:db8:5:333::1/64", gateway: "fe80::1" },
      ],
    },
  ],
  [
    "nerdctl network create --ip-range",
    {
      ranges: [
        [
          {
            gateway: "172.28.5.254",
            ipRange: "172.28.5.0/24",
            rangeEnd: "172.28.5.255",
            rangeStart: "172.28.5.1",
            subnet: "172.28.0.0/16",
          },
        ],
      ],
      routes: [{ dst: "0.0.0.0/0" }],
    },
    { ips: [{ address: "172.28.5.1/16", gateway: "172.28.5.254" }], routes: [{ dst: "0.0.0.0/0" }] },
  ],
  [
    "exclusions with host bits, as whereabouts' users write them",
    { subnets: "192.168.2.224/28", excludeSubnets: ["192.168.2.226/30"] },
    { ips: [{ address: "192.168.2.228/28" }] },
  ],
];

describe("with nothing but its type changed", () => {
  test.for(FILES)("%s", async ([, ipam, answered], { daemon }) => {
    const config = { ...network("real"), ipam: { type: "holdfast-ipam", ...ipam } };
    const answer = await daemon.cni("ADD", "c1", { config });
    expect(answer.code, answer.stdout).toBe(0);
    const { ips, routes } = answer.json();
    expect({ ips, ...(routes ? { routes } : {}) }).toEqual(answered);
  });
});

/** As `holdfast convert` writes them. */
test("addresses that static had in its file are given as asked for, and to one container at a time", async ({
  daemon,
}) => {
  const block = { subnets: "10.10.0.0/24", reservedSubnets: "10.10.0.0/24", gateway: "10.10.0.254" };
  const config = network("fixed", block, { args: { cni: { ips: ["10.10.0.7/24"] } } });
  const answer = await daemon.cni("ADD", "c1", { config });
  expect(answer.json().ips).toEqual([{ address: "10.10.0.7/24", gateway: "10.10.0.254" }]);
  const second = await daemon.cni("ADD", "c2", { config });
  expect(second.json().msg).toContain("10.10.0.7 is held by container c1");
  expect((await daemon.cni("ADD", "c3", { config: network("fixed", block) })).code).not.toBe(0);
});
