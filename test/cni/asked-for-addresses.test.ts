import { describe, expect } from "vitest";
import { addressesOf, errorOf, expectSound, held, network, tableTest as test } from "./fixtures.ts";

/** An address that somebody asks for is given exactly, or refused with the reason: never another one instead. */

const IPAM = {
  subnets: "10.10.0.0/24,fd10::/64",
  gateway: "10.10.0.1",
  excludeSubnets: "10.10.0.96/28",
  reservedSubnets: "10.10.0.240/28",
};
type Options = { config: object; args?: string };

/**
 * The places in which a runtime asks: multus with the ips capability, podman and nerdctl, cnitool and CRI-O's
 * annotations.
 */
const PLACES: [string, (ips: string[], config: object) => Options][] = [
  ["runtimeConfig.ips", (ips, config) => ({ config: { ...config, runtimeConfig: { ips } } })],
  ["args.cni.ips", (ips, config) => ({ config: { ...config, args: { cni: { ips } } } })],
  ["CNI_ARGS IP", (ips, config) => ({ config, args: `IP=${ips.join(",")}` })],
];

/** What is asked for on a network where "holder" has 10.10.0.2 and "leaver" gave 10.10.0.3 back; and the answer. */
const GIVEN: [string, string[], string[]][] = [
  ["a free one; the other family is chosen", ["10.10.0.77"], ["10.10.0.77/24", "fd10::3/64"]],
  ["one of each family", ["10.10.0.77", "fd10::77"], ["10.10.0.77/24", "fd10::77/64"]],
  ["the families in the other order", ["fd10::77", "10.10.0.77"], ["10.10.0.77/24", "fd10::77/64"]],
  ["with the mask of the subnet", ["10.10.0.77/24", "fd10::77/64"], ["10.10.0.77/24", "fd10::77/64"]],
  ["in another spelling", ["FD10:0::0077"], ["10.10.0.4/24", "fd10::77/64"]],
  ["one that its last holder gave back a moment ago", ["10.10.0.3"], ["10.10.0.3/24", "fd10::3/64"]],
  ["the same of both families", ["10.10.0.3", "fd10::2"], ["10.10.0.3/24", "fd10::2/64"]],
  ["the same twice", ["10.10.0.77", "10.10.0.77/24"], ["10.10.0.77/24", "fd10::3/64"]],
  ["a reserved one: reserved subnets are for those who ask", ["10.10.0.240"], ["10.10.0.240/24", "fd10::3/64"]],
  [
    "the last address of an IPv6 subnet, which has no broadcast",
    ["fd10::ffff:ffff:ffff:ffff"],
    ["10.10.0.4/24", "fd10::ffff:ffff:ffff:ffff/64"],
  ],
];
const REFUSED: [string, string[], number, string][] = [
  ["taken", ["10.10.0.2"], 120, "10.10.0.2 is held by container holder (eth0) on network {name}"],
  ["one free, one taken", ["10.10.0.77", "fd10::1"], 120, "fd10::1 is held by container holder (eth0)"],
  ["excluded", ["10.10.0.96"], 122, "10.10.0.96 is excluded in network {name}"],
  ["the gateway", ["10.10.0.1"], 122, "10.10.0.1 is excluded"],
  ["the network address", ["10.10.0.0"], 122, "10.10.0.0 is excluded"],
  ["the broadcast address", ["10.10.0.255"], 122, "10.10.0.255 is excluded"],
  ["the subnet-router anycast address", ["fd10::"], 122, "fd10:: is excluded"],
  ["outside", ["10.10.1.1"], 121, "10.10.1.1 is not in 10.10.0.0/24, fd10::/64 of network {name}"],
  ["one inside, one outside", ["10.10.0.77", "fd11::1"], 121, "fd11::1 is not in"],
  [
    "a mask that is not the subnet's",
    ["10.10.0.77/16"],
    7,
    "10.10.0.77/16: its subnet is 10.10.0.0/24, so write 10.10.0.77/24",
  ],
  ["two of one range", ["10.10.0.77", "10.10.0.78"], 7, "10.10.0.78: "],
  ["nonsense", ["10.10.0.x"], 7, '"10.10.0.x"'],
  ["a number with a leading zero, which may be octal", ["10.10.0.077"], 7, '"10.10.0.077"'],
  ["an IPv4-mapped address", ["::ffff:10.10.0.77"], 7, "write 10.10.0.77"],
  ["a zone", ["fe80::1%eth0"], 7, "zone"],
  ["a bad prefix length", ["10.10.0.77/33"], 7, '"10.10.0.77/33"'],
];

describe.for(PLACES)("addresses requested in %s", ([place, ask]) => {
  const slug = place.replaceAll(/\W/g, "-");
  const settle = async (daemon: Parameters<typeof held>[0], config: object) => {
    for (const id of ["holder", "leaver"]) await daemon.cni("ADD", id, { config });
    await daemon.cni("DEL", "leaver", { config });
  };

  test.for(GIVEN)("are given: %s", async ([reason, ips, answer], { daemon }) => {
    const config = network(`given-${slug}-${reason.replaceAll(/\W+/g, "-")}`, IPAM);
    await settle(daemon, config);
    expect(addressesOf(await daemon.cni("ADD", "asker", ask(ips, config)))).toEqual(answer);
    await expectSound(daemon);
  });

  test.for(REFUSED)("are refused: %s", async ([reason, ips, code, message], { daemon }) => {
    const name = `refused-${slug}-${reason.replaceAll(/\W+/g, "-")}`;
    const config = network(name, IPAM);
    await settle(daemon, config);
    const before = await held(daemon, name);
    const error = errorOf(await daemon.cni("ADD", "asker", ask(ips, config)));
    expect(error).toMatchObject({ code, msg: expect.stringContaining(message.replace("{name}", name)) });
    if (code === 7) expect(error.msg).toContain(place);
    expect(await held(daemon, name)).toEqual(before);
    // The next one is served as if nothing had been asked.
    expect(addressesOf(await daemon.cni("ADD", "next", { config }))).toEqual(["10.10.0.4/24", "fd10::3/64"]);
    await expectSound(daemon);
  });
});

describe("addresses requested in several places", () => {
  const config = (name: string) => ({
    ...network(name, IPAM),
    runtimeConfig: { ips: ["10.10.0.77"] },
    args: { cni: { ips: ["fd10::77"] } },
  });

  test("may name different families, and the same address twice", async ({ daemon }) => {
    const answer = await daemon.cni("ADD", "asker", { config: config("several"), args: "IP=10.10.0.77" });
    expect(addressesOf(answer)).toEqual(["10.10.0.77/24", "fd10::77/64"]);
  });

  test("are refused where they contradict, with both named", async ({ daemon }) => {
    const error = errorOf(await daemon.cni("ADD", "asker", { config: config("contradict"), args: "IP=10.10.0.78" }));
    expect(error.code).toBe(7);
    expect(error.msg).toMatch(/CNI_ARGS IP is 10\.10\.0\.78: runtimeConfig\.ips asks for 10\.10\.0\.77 already/);
  });
});

describe("requested addresses and the round robin", () => {
  test("a requested address does not advance the round robin", async ({ daemon }) => {
    const config = network("robin", IPAM);
    await daemon.cni("ADD", "c1", { config });
    await daemon.cni("ADD", "c2", { config, args: "IP=10.10.0.200" });
    expect(addressesOf(await daemon.cni("ADD", "c3", { config }))[0]).toBe("10.10.0.3/24");
  });

  test("an owner may request its own address while it cools down", async ({ daemon }) => {
    const config = network("own", IPAM);
    const first = await daemon.cni("ADD", "c1", { config });
    await daemon.cni("DEL", "c1", { config });
    const again = await daemon.cni("ADD", "c1", { config, args: "IP=10.10.0.2" });
    expect(again.stdout).toBe(first.stdout);
  });

  test("an address outside rangeStart and rangeEnd is refused as outside", async ({ daemon }) => {
    const ipam = {
      type: "holdfast-ipam",
      subnet: "10.10.0.0/24",
      rangeStart: "10.10.0.10",
      rangeEnd: "10.10.0.20",
    };
    const config = { ...network("window"), ipam };
    const error = errorOf(await daemon.cni("ADD", "c1", { config, args: "IP=10.10.0.21" }));
    expect(error).toMatchObject({
      code: 121,
      msg: expect.stringContaining("10.10.0.0/24 (10.10.0.10 to 10.10.0.20)"),
    });
  });
});
