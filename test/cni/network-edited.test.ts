import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import {
  addressesOf,
  counts,
  errorOf,
  expectDone,
  held,
  network,
  pod,
  processTest,
  restart,
  test,
} from "./fixtures.ts";
import { apply, nad, tryApply } from "./manifests.ts";

/** A network's definition changes under its containers: what is allocated stays, and only new addresses follow. */

const OLD = network("blue", { subnets: "10.10.0.0/24" });
const NEW = network("blue", { subnets: "10.20.0.0/24" });
const outside = async (daemon: ServedDaemon) => (await daemon.get("/v1/networks/blue")).json().outside;

describe("when the range is moved", () => {
  processTest(
    "allocated addresses outside it stay reserved, and count again when it is moved back",
    async ({ daemon }) => {
      for (const id of ["c1", "c2"]) await daemon.cni("ADD", id, { config: OLD });
      expect(addressesOf(await daemon.cni("ADD", "c3", { config: NEW }))).toEqual(["10.20.0.1/24"]);
      expect(await outside(daemon)).toBe("2");
      await restart(daemon, "SIGKILL");
      expect(await outside(daemon)).toBe("2");
      expect(addressesOf(await daemon.cni("ADD", "c4", { config: OLD }))).toEqual(["10.10.0.3/24"]);
      expect(await counts(daemon, "blue")).toMatchObject({ allocated: 3 });
      expect(await outside(daemon)).toBe("1");
    },
  );

  test("a DEL frees an address outside it", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: OLD });
    await daemon.cni("ADD", "c2", { config: NEW });
    expectDone(await daemon.cni("DEL", "c1", { config: NEW }));
    expect(await held(daemon, "blue")).toContain("10.10.0.1/24 Cooling container c1 (eth0)");
    expect(await outside(daemon)).toBe("0");
    expect(addressesOf(await daemon.cni("ADD", "c3", { config: OLD }))).toEqual(["10.10.0.2/24"]);
  });

  test("an allocated address outside it cannot be requested by others, and stays allocated", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: OLD });
    const error = errorOf(await daemon.cni("ADD", "c2", { config: NEW, args: "IP=10.10.0.1" }));
    expect(error).toMatchObject({ code: 121 });
    const back = errorOf(await daemon.cni("ADD", "c2", { config: OLD, args: "IP=10.10.0.1" }));
    expect(back).toMatchObject({ code: 120, msg: expect.stringContaining("container c1 (eth0)") });
  });
});

processTest(
  "no address is given twice by runtimes that use eight configurations of one network in turn",
  async ({ daemon }) => {
    const configs = Array.from({ length: 8 }, (_, i) =>
      network("blue", { subnets: "10.10.0.0/24", excludeSubnets: `10.10.0.${32 * i}/28` }),
    );
    const given = [];
    for (let i = 0; i < 48; i++)
      given.push(...addressesOf(await daemon.cni("ADD", `c${i}`, { config: configs[i % 8] as object })));
    expect(new Set(given).size).toBe(48);
    await restart(daemon, "SIGTERM");
    for (let i = 48; i < 64; i++)
      given.push(...addressesOf(await daemon.cni("ADD", `c${i}`, { config: configs[i % 8] as object })));
    expect(new Set(given).size).toBe(64);
  },
);

describe("an applied definition", () => {
  const BARE = { ...network("blue"), ipam: { type: "holdfast-ipam" } };

  test("serves a runtime whose configuration has no ranges", async ({ daemon }) => {
    expect(errorOf(await daemon.cni("ADD", "c1", { config: BARE }))).toMatchObject({
      code: 7,
      msg: "network blue has no ranges",
    });
    await apply(daemon, nad("blue-net", network("blue", { subnets: "10.20.0.0/24", routes: [{ dst: "0.0.0.0/0" }] })));
    const result = (await daemon.cni("ADD", "c1", { config: BARE })).json();
    expect(result).toMatchObject({ ips: [{ address: "10.20.0.1/24" }], routes: [{ dst: "0.0.0.0/0" }] });
  });

  processTest("wins over the runtime's configuration, whichever came first", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { config: OLD });
    await apply(daemon, nad("blue-net", NEW));
    expect(addressesOf(await daemon.cni("ADD", "c2", { config: OLD }))).toEqual(["10.20.0.1/24"]);
    await restart(daemon, "SIGKILL");
    expect(addressesOf(await daemon.cni("ADD", "c3", { config: OLD }))).toEqual(["10.20.0.2/24"]);
  });

  test("may be a list of plugins, with keys that apply to all of them", async ({ daemon }) => {
    const list = {
      cniVersion: "1.0.0",
      name: "blue",
      allowPersistentIPs: true,
      plugins: [{ type: "bridge", ipam: { type: "holdfast-ipam", subnets: "10.20.0.0/24" } }, { type: "tuning" }],
    };
    await apply(daemon, nad("blue-net", list));
    expect((await daemon.get("/v1/networks/blue")).json()).toMatchObject({
      source: "default/blue-net",
      allowPersistentIPs: true,
    });
    expect(addressesOf(await daemon.cni("ADD", "c1", { config: BARE }))).toEqual(["10.20.0.1/24"]);
  });

  processTest(
    "may be deleted while a container lives: DEL and repeats succeed, and new containers are refused until there is another",
    async ({ daemon }) => {
      const definition = nad("blue-net", NEW);
      await apply(daemon, definition);
      const first = await daemon.cni("ADD", "c1", { config: BARE, args: pod("uid-1") });
      await daemon.post("/v1/delete", { objects: [definition] });
      expect((await daemon.cni("ADD", "c1", { config: BARE, args: pod("uid-1") })).stdout).toBe(first.stdout);
      expect(errorOf(await daemon.cni("ADD", "c2", { config: BARE }))).toMatchObject({ code: 7 });
      expectDone(await daemon.cni("DEL", "c1", { config: "{}" }));
      await restart(daemon, "SIGKILL");
      expect(await held(daemon, "blue")).toEqual(["10.20.0.1/24 Cooling pod default/uid-1 (eth0)"]);
      await apply(daemon, definition);
      expect(addressesOf(await daemon.cni("ADD", "c3", { config: BARE }))).toEqual(["10.20.0.2/24"]);
      expect(addressesOf(await daemon.cni("ADD", "c4", { config: BARE, args: pod("uid-1") }))).toEqual([
        "10.20.0.1/24",
      ]);
    },
  );

  test("is the younger of two when the older one is deleted", async ({ daemon }) => {
    await apply(daemon, nad("one", NEW), nad("two", NEW));
    await daemon.post("/v1/delete", { objects: [nad("one", NEW)] });
    expect((await daemon.get("/v1/networks/blue")).json()).toMatchObject({ source: "default/two" });
    expect(addressesOf(await daemon.cni("ADD", "c1", { config: BARE }))).toEqual(["10.20.0.1/24"]);
  });

  test("is refused as a whole if it is wrong, and the former one counts", async ({ daemon }) => {
    await apply(daemon, nad("blue-net", NEW));
    const [result] = await tryApply(daemon, nad("blue-net", network("blue", { subnets: "10.30.0.0/33" })));
    expect(result).toMatchObject({ error: { code: "CONFIG_INVALID" } });
    expect(addressesOf(await daemon.cni("ADD", "c1", { config: BARE }))).toEqual(["10.20.0.1/24"]);
  });
});
