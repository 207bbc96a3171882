import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, errorOf, held, network, pod, processTest, restart, test } from "./fixtures.ts";
import { apply, claim, claimNamed, claims, nad, tryApply, withClaim } from "./manifests.ts";

/**
 * A claim from a backup, or from another system, brings its addresses along in `status.ips`: they are its own, or it is
 * refused.
 */

const DUAL = network("blue", { subnets: "10.10.0.0/24,fd10::/64", gateway: "10.10.0.1" }, { allowPersistentIPs: true });
const IPS = ["10.10.0.77/24", "fd10::77/64"];
const restored = (name: string, ips: unknown) => claim(name, {}, { status: { ips } });
const start = (daemon: ServedDaemon, name = "vm1") =>
  daemon.cni("ADD", `c-${name}`, {
    config: { ...withClaim(name), ipam: (DUAL as { ipam: object }).ipam },
    args: pod(name),
  });

describe("a restored claim", () => {
  processTest("has its addresses at once, also after a restart, and its pod gets them", async ({ daemon }) => {
    await apply(daemon, nad("blue-net", DUAL), restored("vm1", IPS));
    await restart(daemon, "SIGKILL");
    expect(await held(daemon, "blue")).toEqual(IPS.map((ip) => `${ip} Bound claim default/vm1`));
    const taken = await daemon.cni("ADD", "other", { config: DUAL, args: "IP=10.10.0.77" });
    expect(errorOf(taken)).toMatchObject({ code: 120, msg: expect.stringContaining("claim default/vm1") });
    expect(addressesOf(await start(daemon))).toEqual(IPS);
    expect((await claimNamed(daemon, "vm1")).status).toMatchObject({ ips: IPS });
  });

  test("may come before its network is defined", async ({ daemon }) => {
    await apply(daemon, restored("vm1", IPS));
    expect(addressesOf(await start(daemon))).toEqual(IPS);
  });

  test("may spell its addresses in any way, and publishes the canonical form", async ({ daemon }) => {
    await apply(daemon, restored("vm1", ["10.10.0.77/24", "FD10:0:0:0:0:0:0:77/64"]));
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual(IPS);
  });

  test("takes an address that cools down", async ({ daemon }) => {
    await apply(daemon, nad("blue-net", DUAL));
    await daemon.cni("ADD", "c1", { config: DUAL, args: "IP=10.10.0.77" });
    await daemon.cni("DEL", "c1", { config: DUAL });
    await apply(daemon, restored("vm1", IPS));
    expect(addressesOf(await start(daemon))).toEqual(IPS);
  });

  test("is unchanged when it is applied again, with or without its status", async ({ daemon }) => {
    await apply(daemon, nad("blue-net", DUAL), restored("vm1", IPS));
    expect(await apply(daemon, restored("vm1", IPS), claim("vm1"))).toEqual(["unchanged", "unchanged"]);
  });
});

describe("a restored claim is refused as a whole", () => {
  const refusals: [string, unknown, string, string][] = [
    [
      "an address outside the subnets",
      ["10.99.0.1/24"],
      "ADDRESS_OUTSIDE",
      "10.99.0.1 is not in 10.10.0.0/24, fd10::/64",
    ],
    ["one good, one outside", [IPS[0], "fd99::1/64"], "ADDRESS_OUTSIDE", "fd99::1 is not in"],
    ["the address of a container", ["10.10.0.2/24"], "ADDRESS_TAKEN", "10.10.0.2 is held by container holder (eth0)"],
    ["one good, one taken", [IPS[0], "fd10::1/64"], "ADDRESS_TAKEN", "fd10::1 is held by container holder (eth0)"],
    ["an address twice", [IPS[0], IPS[0]], "REQUEST_INVALID", "an interface has one address of each subnet"],
    ["two of one subnet", [IPS[0], "10.10.0.78/24"], "REQUEST_INVALID", "an interface has one address of each subnet"],
    ["an address without prefix length", ["10.10.0.77"], "REQUEST_INVALID", 'status.ips is "10.10.0.77"'],
    ["nonsense", ["blue"], "REQUEST_INVALID", 'status.ips is "blue"'],
    ["a number", [7], "REQUEST_INVALID", "status.ips is 7"],
    ["a text instead of a list", IPS[0], "REQUEST_INVALID", 'status.ips is "10.10.0.77/24"'],
  ];
  test.for(refusals)("%s", async ([, ips, code, message], { daemon }) => {
    await apply(daemon, nad("blue-net", DUAL));
    await daemon.cni("ADD", "holder", { config: DUAL });
    const before = await held(daemon, "blue");
    const [result] = await tryApply(daemon, restored("vm1", ips));
    expect(result).toMatchObject({ error: { code, message: expect.stringContaining(message) } });
    expect(await claims(daemon)).toEqual([]);
    expect(await held(daemon, "blue")).toEqual(before);
  });

  test("with the address of another claim, which is named, while the others of the manifest are applied", async ({
    daemon,
  }) => {
    const results = await tryApply(
      daemon,
      nad("blue-net", DUAL),
      restored("vm1", IPS),
      restored("vm2", IPS),
      claim("vm3"),
    );
    expect(results).toMatchObject([
      { action: "created" },
      { action: "created" },
      {
        name: "vm2",
        error: { code: "ADDRESS_TAKEN", message: expect.stringContaining("held by claim default/vm1") },
      },
      { action: "created" },
    ]);
    expect((await claims(daemon)).map(({ metadata }) => metadata.name)).toEqual(["vm1", "vm3"]);
  });

  test("with other addresses than the existing claim's", async ({ daemon }) => {
    await apply(daemon, nad("blue-net", DUAL), restored("vm1", IPS));
    const [result] = await tryApply(daemon, restored("vm1", ["10.10.0.78/24"]));
    expect(result).toMatchObject({
      error: { code: "CONFIG_INVALID", message: expect.stringContaining("status.ips is 10.10.0.78/24") },
    });
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual(IPS);
  });

  test("a restored address that a later definition leaves outside is refused to the pod, and the network serves others", async ({
    daemon,
  }) => {
    await apply(daemon, restored("vm1", ["10.99.0.1/24"]), nad("blue-net", DUAL));
    expect(errorOf(await start(daemon))).toMatchObject({
      code: 121,
      msg: expect.stringContaining("10.99.0.1 is not in"),
    });
    expect((await claimNamed(daemon, "vm1")).status).toMatchObject({
      ips: ["10.99.0.1/24"],
      conditions: [
        { status: "False", reason: "RequestedIPOutsideSubnet" },
        { type: "NetworkUpToDate", status: "False", reason: "AddressOutsideNetwork" },
      ],
    });
    addressesOf(await daemon.cni("ADD", "other", { config: DUAL }));
  });
});
