import { describe, expect } from "vitest";
import {
  addressesOf,
  counts,
  errorOf,
  expectDone,
  held,
  network,
  past,
  pod,
  processTest,
  restart,
  test,
} from "./fixtures.ts";
import { apply, claim, claimNamed, conditionOf, nad, withClaim } from "./manifests.ts";
import { addressesIn, send, T } from "./wire.ts";

/** A VM's addresses belong to its IPAMClaim, not to the pod that runs it today. */

const DUAL = { subnets: "10.10.0.0/24,fd10::/64", gateway: "10.10.0.1" };

describe("a claim's first use", () => {
  test("publishes status.ips as answered, the condition and the pod", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    expect(await claimNamed(daemon, "vm1")).not.toHaveProperty("status");
    const answer = await daemon.cni("ADD", "c1", {
      config: withClaim("vm1", DUAL),
      args: pod("uid-1", "virt-launcher-1"),
    });
    const addresses = addressesOf(answer);
    expect(addresses).toEqual([expect.stringMatching(/^10\.10\.0\.\d+\/24$/), expect.stringMatching(/^fd10::.*\/64$/)]);
    expect((await claimNamed(daemon, "vm1")).status).toEqual({
      ips: addresses,
      ownerPod: { name: "virt-launcher-1" },
      conditions: [
        {
          type: "IPsAllocated",
          status: "True",
          reason: "SuccessfulAllocation",
          message: "IP addresses successfully allocated",
          lastTransitionTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
        },
      ],
    });
    expect(await held(daemon, "blue")).toEqual(addresses.map((one) => `${one} Bound claim default/vm1`));
  });

  test("is published once: a repeat leaves the resourceVersion", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    const add = () => daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") });
    const first = await add();
    const { resourceVersion } = (await claimNamed(daemon, "vm1")).metadata;
    expect((await add()).stdout).toBe(first.stdout);
    await daemon.cni("ADD", "c2", { config: withClaim("vm1"), args: pod("uid-1") });
    expect((await claimNamed(daemon, "vm1")).metadata).toMatchObject({ resourceVersion });
  });

  test("gives each of several concurrent claims an address of its own", async ({ daemon }) => {
    const names = Array.from({ length: 20 }, (_, i) => `vm${i}`);
    await apply(daemon, ...names.map((name) => claim(name)));
    const adding = names.map((name) => daemon.cni("ADD", `c-${name}`, { config: withClaim(name), args: pod(name) }));
    const addresses = (await Promise.all(adding)).flatMap(addressesOf);
    expect(new Set(addresses).size).toBe(20);
  });
});

describe("stop and start", () => {
  processTest(
    "the claim holds its addresses while no pod lives, and gives them to the next pod",
    async ({ daemon }) => {
      await apply(daemon, claim("vm1"));
      const first = await daemon.cni("ADD", "c1", { config: withClaim("vm1", DUAL), args: pod("uid-1") });
      expectDone(await daemon.cni("DEL", "c1", { config: withClaim("vm1", DUAL) }));
      expect(await held(daemon, "blue")).toEqual(addressesOf(first).map((one) => `${one} Bound claim default/vm1`));
      await restart(daemon, "SIGKILL");
      const second = await daemon.cni("ADD", "c2", { config: withClaim("vm1", DUAL), args: pod("uid-2") });
      expect(second.stdout).toBe(first.stdout);
      expect((await claimNamed(daemon, "vm1")).status).toMatchObject({
        ips: addressesOf(first),
        ownerPod: { name: "uid-2" },
      });
      const [address] = addressesOf(first).map((one) => one.split("/")[0]);
      expect(await past(daemon, address as string)).toEqual([
        "container c2 holds",
        "container c1 until DEL",
        "claim default/vm1 holds",
      ]);
    },
  );

  test("nobody else gets the claim's addresses, even when the pool is otherwise full", async ({ daemon }) => {
    const tiny = { subnets: "192.0.2.0/30" };
    await apply(daemon, claim("vm1"));
    const config = withClaim("vm1", tiny);
    const [address] = addressesOf(await daemon.cni("ADD", "c1", { config, args: pod("uid-1") }));
    await daemon.cni("DEL", "c1", { config });
    const others = await Promise.all(
      ["o1", "o2", "o3"].map((id) =>
        daemon.cni("ADD", id, { config: network("blue", tiny, { allowPersistentIPs: true }) }),
      ),
    );
    const given = others.filter(({ code }) => code === 0).flatMap(addressesOf);
    expect(given).toHaveLength(1);
    expect(given).not.toContain(address);
    const [ip] = (address as string).split("/");
    const asking = await daemon.cni("ADD", "o4", {
      config: network("blue", tiny, { allowPersistentIPs: true }),
      args: `IP=${ip}`,
    });
    expect(errorOf(asking)).toMatchObject({
      code: 120,
      msg: `${ip} is held by claim default/vm1 on network blue`,
    });
    expect(await counts(daemon, "blue")).toEqual({ allocated: 2, cooling: 0, free: 0, excluded: 2 });
    expect(addressesOf(await daemon.cni("ADD", "c2", { config, args: pod("uid-2") }))).toEqual([address]);
  });

  test("the late DEL of a pod's old sandbox ends nothing of the new one", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    const config = withClaim("vm1");
    const first = await daemon.cni("ADD", "sandbox-1", { config, args: pod("uid-1") });
    expect((await daemon.cni("ADD", "sandbox-2", { config, args: pod("uid-1") })).stdout).toBe(first.stdout);
    await daemon.cni("DEL", "sandbox-1", { config });
    const { items } = (await daemon.get("/v1/allocations?claim=vm1")).json();
    expect(items[0].attachments).toMatchObject([{ containerID: "sandbox-2", pod: { uid: "uid-1" } }]);
  });
});

test("of two sandboxes of one pod whose ADDs cross the older is told to try again", async ({ daemon }) => {
  await apply(daemon, claim("vm1"));
  const sandbox = (containerId: string, bootUs: number) =>
    send(daemon, "ADD", { containerId, bootUs, config: withClaim("vm1"), args: pod("uid-1") });
  addressesIn(await sandbox("sandbox-2", T + 10));
  expect((await sandbox("sandbox-1", T)).json()).toMatchObject({
    code: 11,
    msg: expect.stringContaining("newer sandbox sandbox-2"),
  });
  expect(await conditionOf(daemon, "vm1")).toBe("True SuccessfulAllocation");
});

describe("the network changes while the VM runs", () => {
  const BLUE = network("blue", {}, { allowPersistentIPs: true });
  const started = async (daemon: Parameters<typeof apply>[0]) => {
    await apply(daemon, nad("blue-net", BLUE), claim("vm1"));
    return addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") }));
  };
  const startedAnew = async (daemon: Parameters<typeof apply>[0]) => {
    await daemon.cni("DEL", "c1", { config: withClaim("vm1") });
    return daemon.cni("ADD", "c2", { config: withClaim("vm1"), args: pod("uid-2") });
  };

  test("when its range is moved the claim keeps its address and prefix length, and others get the new range", async ({
    daemon,
  }) => {
    const addresses = await started(daemon);
    await apply(daemon, nad("blue-net", network("blue", { subnets: "10.99.0.0/16" }, { allowPersistentIPs: true })));
    expect(addressesOf(await startedAnew(daemon))).toEqual(addresses);
    expect(addressesOf(await daemon.cni("ADD", "other"))).toEqual(["10.99.0.1/16"]);
    const { outside } = (await daemon.get("/v1/networks/blue")).json();
    expect(outside).toBe("1");
  });

  test("when a family is added the claim keeps its address and gets one of that family", async ({ daemon }) => {
    const addresses = await started(daemon);
    await apply(daemon, nad("blue-net", network("blue", DUAL, { allowPersistentIPs: true })));
    expect(addressesOf(await startedAnew(daemon))).toEqual([...addresses, expect.stringMatching(/^fd10::/)]);
  });

  processTest(
    "when its definition is deleted a DEL still succeeds, and the claim keeps its address",
    async ({ daemon }) => {
      const addresses = await started(daemon);
      const [result] = (await daemon.post("/v1/delete", { objects: [nad("blue-net", BLUE)] })).json().results;
      expect(result).toMatchObject({ action: "deleted" });
      expectDone(await daemon.cni("DEL", "c1", { config: "{}" }));
      expect(await held(daemon, "blue")).toEqual([`${addresses[0]} Bound claim default/vm1`]);
      await restart(daemon, "SIGKILL");
      expect(addressesOf(await daemon.cni("ADD", "c2", { config: withClaim("vm1"), args: pod("uid-2") }))).toEqual(
        addresses,
      );
    },
  );

  test("without allowPersistentIPs a claim with addresses keeps them, and a new one gets a condition", async ({
    daemon,
  }) => {
    const addresses = await started(daemon);
    await apply(daemon, nad("blue-net", network("blue")));
    expect(addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") }))).toEqual(
      addresses,
    );
    expect(addressesOf(await startedAnew(daemon))).toEqual(addresses);
    await apply(daemon, claim("vm2"));
    const plain = addressesOf(await daemon.cni("ADD", "c9", { config: withClaim("vm2") }));
    expect(plain).toHaveLength(addresses.length);
    expect(await conditionOf(daemon, "vm2")).toBe("False PersistenceNotAllowed");
    expect((await claimNamed(daemon, "vm2")).status?.ips).toEqual([]);
  });
});
