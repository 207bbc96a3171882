import { describe, expect } from "vitest";
import { addressesOf, errorOf, expectDone, held, network, pod, processTest, restart, test } from "./fixtures.ts";
import { addressesIn, send, T } from "./wire.ts";

/*
 * A pod is known by its UID. When its sandbox dies, the runtime makes a new one with another container ID, sometimes
 * before the DEL of the old one: the pod keeps its addresses all the same.
 */

const DUAL = network("blue", { subnets: "10.10.0.0/24,fd10::/64" });

describe("a new sandbox of the same pod", () => {
  test("has the addresses of the old one, and the late DEL of the old one frees nothing", async ({ daemon }) => {
    const old = await daemon.cni("ADD", "sandbox-1", { config: DUAL, args: pod("pod-a") });
    const now = await daemon.cni("ADD", "sandbox-2", { config: DUAL, args: pod("pod-a") });
    expect(now.stdout).toBe(old.stdout);
    expectDone(await daemon.cni("DEL", "sandbox-1", { config: DUAL, args: pod("pod-a") }));
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Bound pod default/pod-a (eth0)",
      "fd10::1/64 Bound pod default/pod-a (eth0)",
    ]);
    expectDone(await daemon.cni("DEL", "sandbox-2", { config: DUAL, args: pod("pod-a") }));
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Cooling pod default/pod-a (eth0)",
      "fd10::1/64 Cooling pod default/pod-a (eth0)",
    ]);
  });

  test("gets the addresses back that cool down since the DEL of the old one", async ({ daemon }) => {
    const old = await daemon.cni("ADD", "sandbox-1", { config: DUAL, args: pod("pod-a") });
    await daemon.cni("DEL", "sandbox-1", { config: DUAL });
    await daemon.cni("ADD", "other", { config: DUAL });
    const now = await daemon.cni("ADD", "sandbox-2", { config: DUAL, args: pod("pod-a") });
    expect(now.stdout).toBe(old.stdout);
  });

  processTest("gets its addresses also after a restart of the daemon", async ({ daemon }) => {
    const old = await daemon.cni("ADD", "sandbox-1", { config: DUAL, args: pod("pod-a") });
    await daemon.cni("DEL", "sandbox-1", { config: DUAL });
    await restart(daemon, "SIGKILL");
    expect((await daemon.cni("ADD", "sandbox-2", { config: DUAL, args: pod("pod-a") })).stdout).toBe(old.stdout);
  });

  test("gets other addresses when somebody else got the cooling ones", async ({ daemon }) => {
    const tiny = network("tiny", { subnets: "192.0.2.0/31" });
    await daemon.cni("ADD", "sandbox-1", { config: tiny, args: pod("pod-a") });
    await daemon.cni("DEL", "sandbox-1", { config: tiny });
    await daemon.cni("ADD", "other-1", { config: tiny });
    await daemon.cni("ADD", "other-2", { config: tiny });
    const error = errorOf(await daemon.cni("ADD", "sandbox-2", { config: tiny, args: pod("pod-a") }));
    expect(error).toMatchObject({ code: 11, msg: "no free address in 192.0.2.0/31 of network tiny" });
  });

  test("keeps addresses outside the current range", async ({ daemon }) => {
    await daemon.cni("ADD", "sandbox-1", { args: pod("pod-a") });
    const moved = network("blue", { subnets: "10.99.0.0/24" });
    const now = await daemon.cni("ADD", "sandbox-2", { config: moved, args: pod("pod-a") });
    expect(addressesOf(now)).toEqual(["10.10.0.1/24"]);
  });

  processTest("keeps their order where two sets share a subnet", async ({ daemon }) => {
    const high = { subnet: "10.1.2.0/24", rangeStart: "10.1.2.200", gateway: "10.1.2.254" };
    const low = { subnet: "10.1.2.0/24", rangeEnd: "10.1.2.99", gateway: "10.1.2.1" };
    const config = { ...network("both"), ipam: { type: "holdfast-ipam", ranges: [[high], [low]] } };
    const old = await daemon.cni("ADD", "sandbox-1", { config, args: pod("pod-a") });
    expect(addressesOf(old)).toEqual(["10.1.2.200/24", "10.1.2.2/24"]);
    await restart(daemon, "SIGTERM");
    expect((await daemon.cni("ADD", "sandbox-2", { config, args: pod("pod-a") })).stdout).toBe(old.stdout);
    expect(addressesOf(await daemon.cni("ADD", "other", { config }))).toEqual(["10.1.2.201/24", "10.1.2.3/24"]);
  });
});

describe("not the same pod is", () => {
  test("a pod of the same name with another UID (StatefulSet, restored namespace)", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { args: pod("uid-1", "web-0") });
    const successor = await daemon.cni("ADD", "c2", { args: pod("uid-2", "web-0") });
    expect(addressesOf(successor)).toEqual(["10.10.0.2/24"]);
    await daemon.cni("DEL", "c1");
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Cooling pod default/web-0 (eth0)",
      "10.10.0.2/24 Bound pod default/web-0 (eth0)",
    ]);
  });

  test("another interface of the pod on the same network", async ({ daemon }) => {
    const first = await daemon.cni("ADD", "c1", { ifname: "net1", args: pod("pod-a") });
    const second = await daemon.cni("ADD", "c1", { ifname: "net2", args: pod("pod-a") });
    expect([...addressesOf(first), ...addressesOf(second)]).toEqual(["10.10.0.1/24", "10.10.0.2/24"]);
    // A new sandbox finds each interface its own again.
    for (const [ifname, old] of [
      ["net2", second],
      ["net1", first],
    ] as const) {
      expect((await daemon.cni("ADD", "c2", { ifname, args: pod("pod-a") })).stdout).toBe(old.stdout);
    }
  });

  test("a container without a pod UID, which is known by its container ID", async ({ daemon }) => {
    const args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0";
    expect(addressesOf(await daemon.cni("ADD", "c1", { args }))).toEqual(["10.10.0.1/24"]);
    expect(addressesOf(await daemon.cni("ADD", "c2", { args }))).toEqual(["10.10.0.2/24"]);
  });
});

describe("two sandboxes of one pod whose ADDs cross", () => {
  test("the older ADD, which comes second, is told to try again and changes nothing", async ({ daemon }) => {
    const args = pod("pod-a");
    const newer = await send(daemon, "ADD", { containerId: "sandbox-2", args, bootUs: T + 10 });
    expect(addressesIn(newer)).toEqual(["10.10.0.1/24"]);
    const older = await send(daemon, "ADD", { containerId: "sandbox-1", args, bootUs: T });
    expect(older.json()).toMatchObject({ code: 11, msg: expect.stringContaining("newer sandbox sandbox-2") });
    await send(daemon, "DEL", { containerId: "sandbox-1", bootUs: T + 20 });
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound pod default/pod-a (eth0)"]);
  });
});
