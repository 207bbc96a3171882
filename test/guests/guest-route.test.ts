import { describe, expect, test } from "vitest";
import { type GuestInterface, guestAnswer, guestRouteToTell } from "../../guests/ports/guest-route.ts";

const DST = "169.254.169.254/32";
const PLAIN: GuestInterface = {
  ips: [{ address: "10.0.0.5/24" }],
  routes: [],
  conf: { type: "bridge" },
  isLater: false,
};
const WITH_GATEWAY = { ips: [{ address: "10.0.0.5/24", gateway: "10.0.0.1" }] };

describe("the route to 169.254.169.254", () => {
  test.for<[string, Partial<GuestInterface>, object | null]>([
    ["nothing leads there: on link", {}, { dst: DST }],
    ["a narrower or other route does not", { routes: [{ dst: "10.9.0.0/16", gw: "10.0.0.9" }] }, { dst: DST }],
    ["a default route may lead to nobody", { routes: [{ dst: "0.0.0.0/0" }] }, { dst: DST }],
    ["so may one by any gateway", { routes: [{ dst: "0.0.0.0/0", gw: "10.0.0.7" }] }, { dst: DST }],
    ["and one that the plugin makes (isDefaultGateway)", { conf: { isDefaultGateway: true } }, { dst: DST }],
    ["169.254.0.0/16 by a gateway too", { routes: [{ dst: "169.254.0.0/16", gw: "10.0.0.7" }] }, { dst: DST }],
    ["one in the main table stands", { routes: [{ dst: DST, gw: "10.0.0.7", table: 254 }] }, null],
    ["one in another table does not", { routes: [{ dst: DST, table: 100 }] }, { dst: DST }],
    ["an address of 169.254.0.0/16 does", { ips: [{ address: "169.254.0.9/16" }] }, null],
    ["a second address of it does", { ips: [{ address: "10.0.0.5/24" }, { address: "169.254.3.9/16" }] }, null],
    ["a small subnet of it elsewhere does not", { ips: [{ address: "169.254.0.9/24" }] }, { dst: DST }],
    ["the network's own route stands", { routes: [{ dst: DST, gw: "10.0.0.7" }] }, null],
    ["another interface leads there", { isLater: true }, null],
    ["IPv6 only", { ips: [{ address: "fd00::5/64", gateway: "fd00::1" }] }, null],
    [
      "both families",
      { ips: [{ address: "fd00::5/64", gateway: "fd00::1" }, { address: "10.0.0.5/24" }] },
      { dst: DST },
    ],
  ])("%s", ([, more, expected]) => {
    const one = { ...PLAIN, ...more };
    const routes = expected === null ? one.routes : [...one.routes, expected];
    expect(guestAnswer(one)).toEqual({ ips: one.ips, routes });
  });

  test.for<[string, GuestInterface["conf"]]>([
    ["the bridge itself is", { type: "bridge", isGateway: true }],
    ["the bridge is by default", { type: "bridge", isDefaultGateway: true }],
    ["ptp puts on the node", { type: "ptp" }],
  ])("goes by the gateway that %s", ([, conf]) => {
    const one = { ...PLAIN, ...WITH_GATEWAY, conf };
    expect(guestAnswer(one)).toEqual({ ips: one.ips, routes: [{ dst: DST, gw: "10.0.0.1" }] });
  });

  // Plugins put the gateway of the address into every route without one, and nobody may answer for that.
  test("is on link beside a gateway of the address, which other routes name themselves then", () => {
    const ips = [
      { address: "fd00::5/64", gateway: "fd00::1" },
      { address: "10.0.0.5/24", gateway: "10.0.0.1" },
    ];
    const routes = [{ dst: "10.9.0.0/16", mtu: 1400 }, { dst: "10.8.0.0/16", gw: "10.0.0.9" }, { dst: "fd01::/64" }];
    expect(guestAnswer({ ...PLAIN, ips, routes })).toEqual({
      ips: [ips[0], { address: "10.0.0.5/24" }],
      routes: [{ dst: "10.9.0.0/16", gw: "10.0.0.1", mtu: 1400 }, routes[1], routes[2], { dst: DST }],
    });
  });

  test("is on link beside a default route, which names its gateway itself then", () => {
    const one = { ...PLAIN, ...WITH_GATEWAY, routes: [{ dst: "0.0.0.0/0" }] };
    const routes = [{ dst: "0.0.0.0/0", gw: "10.0.0.1" }, { dst: DST }];
    expect(guestAnswer(one)).toEqual({ ips: [{ address: "10.0.0.5/24" }], routes });
  });
});

describe("the route in the metadata documents", () => {
  const { conf: _, ...told } = PLAIN;

  test.for<[string, Partial<GuestInterface>, object | null]>([
    [
      "on link is written as such, because readers put a gateway into a route without one",
      {},
      { dst: DST, gw: "0.0.0.0" },
    ],
    ["is there beside a default route", { routes: [{ dst: "0.0.0.0/0" }] }, { dst: DST, gw: "0.0.0.0" }],
  ])("%s", ([, more, expected]) => {
    expect(guestRouteToTell({ ...told, ...more })).toEqual(expected);
  });
});
