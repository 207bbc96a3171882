import { describe, expect } from "vitest";
import { addressesOf, errorOf, held, network, pod, processTest, restart, test } from "./fixtures.ts";

/** A runtime that did not hear the answer asks again, in the same words; it must hear the same `ips`, byte by byte. */

const DUAL = {
  subnets: "10.10.0.0/24,fd10::/64",
  gateway: "10.10.0.1,fd10::1",
  routes: [{ dst: "0.0.0.0/0" }],
};
const ipsIn = (stdout: string) => /"ips":\[.*?\]/.exec(stdout)?.[0];

describe("an exact repeat of ADD has byte-equal ips", () => {
  test("at once, and for three concurrent repeats", async ({ daemon }) => {
    const config = network("blue", DUAL);
    const first = await daemon.cni("ADD", "c1", { config });
    const more = await Promise.all([1, 2, 3].map(() => daemon.cni("ADD", "c1", { config })));
    for (const answer of more) expect(answer.stdout).toBe(first.stdout);
    expect(await held(daemon, "blue")).toHaveLength(2);
  });

  test("for three concurrent first ADDs", async ({ daemon }) => {
    const config = network("blue", DUAL);
    const answers = await Promise.all([1, 2, 3].map(() => daemon.cni("ADD", "c1", { config })));
    expect(new Set(answers.map(({ code, stdout }) => `${code} ${stdout}`)).size).toBe(1);
    expect(await held(daemon, "blue")).toHaveLength(2);
  });

  processTest.for(["SIGTERM", "SIGKILL"] as const)("after the daemon was ended by %s", async (signal, { daemon }) => {
    const config = network("blue", DUAL);
    const first = await daemon.cni("ADD", "c1", { config });
    await restart(daemon, signal);
    expect((await daemon.cni("ADD", "c1", { config })).stdout).toBe(first.stdout);
  });

  // Each edit, and the old addresses of c1 must stay its own although the range is elsewhere.
  const EDITS: [string, object][] = [
    ["moved away", { subnets: "10.99.0.0/24,fd99::/64" }],
    ["shrunk to a part without them", { ...DUAL, excludeSubnets: "10.10.0.0/28,fd10::/120" }],
    ["given another gateway", { ...DUAL, gateway: "10.10.0.254,fd10::ffff" }],
    ["widened, so that the mask differs", { subnets: "10.10.0.0/16,fd10::/48", gateway: "10.10.0.1" }],
    ["reduced to one family", { subnets: "10.10.0.0/24" }],
  ];
  processTest.for(EDITS)("after the range was %s", async ([, ipam], { daemon }) => {
    const first = await daemon.cni("ADD", "c1", { config: network("blue", DUAL) });
    const edited = network("blue", ipam);
    const again = await daemon.cni("ADD", "c1", { config: edited });
    expect(ipsIn(again.stdout)).toBe(ipsIn(first.stdout));
    const newcomer = addressesOf(await daemon.cni("ADD", "c2", { config: edited }));
    expect(newcomer).not.toContain("10.10.0.2/24");
    await restart(daemon, "SIGKILL");
    expect(ipsIn((await daemon.cni("ADD", "c1", { config: edited })).stdout)).toBe(ipsIn(first.stdout));
  });

  test("in another cniVersion, in that version's form", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: network("blue", DUAL) });
    const early = await daemon.cni("ADD", "c1", { config: network("blue", DUAL, { cniVersion: "0.2.0" }) });
    expect(early.json()).toMatchObject({ ip4: { ip: "10.10.0.2/24" }, ip6: { ip: "fd10::2/64" } });
  });

  test("while routes and DNS follow the current configuration", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: network("blue", DUAL) });
    const edited = network("blue", { ...DUAL, routes: [{ dst: "192.0.2.0/24" }], dns: { domain: "new" } });
    const again = (await daemon.cni("ADD", "c1", { config: edited })).json();
    expect(again).toMatchObject({ routes: [{ dst: "192.0.2.0/24" }], dns: { domain: "new" } });
  });
});

describe("an ADD is no repeat", () => {
  test("for another interface of the container on the same network", async ({ daemon }) => {
    const first = addressesOf(await daemon.cni("ADD", "c1", { ifname: "net1" }));
    const second = addressesOf(await daemon.cni("ADD", "c1", { ifname: "net2" }));
    expect([first, second]).toEqual([["10.10.0.1/24"], ["10.10.0.2/24"]]);
    await daemon.cni("DEL", "c1", { ifname: "net1" });
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Cooling container c1 (net1)",
      "10.10.0.2/24 Bound container c1 (net2)",
    ]);
  });

  test("for the same container and interface on another network", async ({ daemon }) => {
    for (const name of ["blue", "red"]) {
      const answer = await daemon.cni("ADD", "c1", { config: network(name) });
      expect(addressesOf(answer)).toEqual(["10.10.0.1/24"]);
    }
  });

  test("when it requests another address, and is refused without a change", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    const error = errorOf(await daemon.cni("ADD", "c1", { args: "IP=10.10.0.9" }));
    expect(error).toMatchObject({
      code: 123,
      msg: "CNI_ARGS IP asks for 10.10.0.9, but 10.10.0.1 is held already on network blue",
    });
    expect(addressesOf(await daemon.cni("ADD", "c1", { args: "IP=10.10.0.1" }))).toEqual(["10.10.0.1/24"]);
  });

  test("for another pod that uses a dead container's ID", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { args: pod("pod-a") });
    expect(addressesOf(await daemon.cni("ADD", "c1", { args: pod("pod-b") }))).toEqual(["10.10.0.2/24"]);
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Cooling pod default/pod-a (eth0)",
      "10.10.0.2/24 Bound pod default/pod-b (eth0)",
    ]);
  });
});
