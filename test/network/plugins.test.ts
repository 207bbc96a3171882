import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TestDaemon } from "../harness/daemon.ts";
import { Containers, mustRun, whyNotReal } from "./containers.ts";

const CLAIM = {
  apiVersion: "k8s.cni.cncf.io/v1alpha1",
  kind: "IPAMClaim",
  metadata: { name: "vm1.blue", namespace: "default" },
  spec: { network: "blue", interface: "" },
};
// A VM keeps its MAC over a restart, as KubeVirt does; its neighbours would talk to the old one otherwise.
const WITH_CLAIM = "IgnoreUnknown=1;IPAM_CLAIM=default/vm1.blue;MAC=02:00:00:00:00:01";

describe.skipIf(whyNotReal() !== null)("under real CNI plugins", () => {
  let daemon: TestDaemon;
  let containers: Containers;
  let master: string;
  beforeAll(async () => {
    daemon = await TestDaemon.start();
    containers = new Containers(daemon);
    master = containers.link("hfm");
    await mustRun("ip", ["link", "add", master, "type", "veth", "peer", "name", containers.link("hfp")]);
    await mustRun("ip", ["link", "set", master, "up"]);
  });
  afterAll(async () => {
    await containers.remove();
    await daemon.stop();
  });

  const ipam = { type: "holdfast-ipam", subnets: "10.30.0.0/24,fd30::/64" };

  test("bridge: a VM and two pods reach each other on both families; the VM's addresses outlive its container and the daemon", async () => {
    const config = {
      cniVersion: "1.0.0",
      name: "blue",
      type: "bridge",
      bridge: containers.link("hfb"),
      allowPersistentIPs: true,
      ipam,
    };
    await daemon.post("/v1/apply", { objects: [CLAIM] });
    const [vm, web, db] = [
      await containers.create("vm"),
      await containers.create("web"),
      await containers.create("db"),
    ];
    const first = await containers.cni("ADD", "vm-run1", vm, config, WITH_CLAIM);
    expect(first.code, first.stdout).toBe(0);
    const addresses = first.json().ips.map((ip: { address: string }) => ip.address);
    expect((await containers.kernelAddresses(vm)).sort()).toEqual([...addresses].sort());
    for (const [name, namespace] of [
      ["web", web],
      ["db", db],
    ] as const) {
      expect((await containers.cni("ADD", name, namespace, config)).code).toBe(0);
    }
    for (const address of addresses) expect(await containers.reaches(web, address.split("/")[0]), address).toBe(true);
    for (const address of await containers.kernelAddresses(db)) {
      expect(await containers.reaches(vm, address.split("/")[0] as string), address).toBe(true);
    }

    expect((await containers.cni("DEL", "vm-run1", vm, config, WITH_CLAIM)).code).toBe(0);
    await containers.destroy(vm);
    await daemon.end("SIGKILL");
    const killed = daemon;
    daemon = await TestDaemon.start({ directory: killed.directory });

    const reborn = await containers.create("vm");
    const second = await containers.cni("ADD", "vm-run2", reborn, config, WITH_CLAIM);
    expect(second.json().ips.map((ip: { address: string }) => ip.address)).toEqual(addresses);
    expect(await containers.reaches(web, addresses[0].split("/")[0])).toBe(true);
    expect(
      (await containers.cni("CHECK", "vm-run2", reborn, { ...config, prevResult: second.json() }, WITH_CLAIM)).code,
    ).toBe(0);
    expect((await daemon.get("/v1/check")).json().findings).toEqual([]);
  });

  test("bridge: an interface that is created with a MAC has what is reserved for it, in the kernel too", async () => {
    const mac = "02:00:00:00:00:51";
    const config = {
      cniVersion: "1.0.0",
      name: "reserving",
      type: "bridge",
      bridge: containers.link("hfb"),
      ipam: {
        type: "holdfast-ipam",
        subnets: "10.35.0.0/24",
        reservations: [{ mac, ips: ["10.35.0.51"] }],
      },
    };
    for (const [name, more, args] of [
      ["by-capability", { runtimeConfig: { mac } }, ""],
      ["by-args", { args: { cni: { mac } } }, ""],
      ["by-env", {}, `IgnoreUnknown=1;MAC=${mac}`],
    ] as const) {
      const namespace = await containers.create(name);
      const answer = await containers.cni("ADD", name, namespace, { ...config, ...more }, args);
      expect(answer.json().ips, answer.stdout).toMatchObject([{ address: "10.35.0.51/24" }]);
      expect(answer.json().interfaces.find((one: { sandbox?: string }) => one.sandbox).mac).toBe(mac);
      expect(await containers.kernelAddresses(namespace)).toEqual(["10.35.0.51/24"]);
      expect((await containers.cni("DEL", name, namespace, { ...config, ...more }, args)).code).toBe(0);
    }
  });

  test("bridge as gateway: the first address is excluded from the pool, returned, and on the bridge", async () => {
    const bridge = containers.link("hfb");
    const config = {
      cniVersion: "0.4.0",
      name: "gateway",
      type: "bridge",
      bridge,
      isDefaultGateway: true,
      ipam: { type: "holdfast-ipam", subnets: "10.31.0.0/24" },
    };
    const namespace = await containers.create("c");
    const answer = await containers.cni("ADD", "gw-c", namespace, config);
    expect(answer.code, answer.stdout).toBe(0);
    expect(answer.json().ips[0]).toMatchObject({ address: "10.31.0.2/24", gateway: "10.31.0.1" });
    expect(await containers.reaches(namespace, "10.31.0.1")).toBe(true);
  });

  test("bridge as gateway under an applied definition that names none: the bridge's address is not given", async () => {
    const bridge = containers.link("hfb");
    const name = "applied-gateway";
    const type = { cniVersion: "1.0.0", name, type: "bridge", bridge };
    const applied = { ...type, ipam: { type: "holdfast-ipam", subnets: "10.33.0.0/29" } };
    const manifest = {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { name, namespace: "default" },
      spec: { config: JSON.stringify(applied) },
    };
    expect((await daemon.post("/v1/apply", { objects: [manifest] })).status).toBe(200);
    const config = { ...type, isGateway: true, ipam: { type: "holdfast-ipam" } };
    for (const host of [2, 3]) {
      const namespace = await containers.create(`c${host}`);
      const answer = await containers.cni("ADD", `applied-${host}`, namespace, config);
      expect(answer.code, answer.stdout).toBe(0);
      expect(answer.json().ips[0]).toMatchObject({ address: `10.33.0.${host}/29`, gateway: "10.33.0.1" });
      expect(await containers.reaches(namespace, "10.33.0.1")).toBe(true);
    }
  });

  test.each(["macvlan", "ptp"])("%s: the kernel has what was answered, and DEL gives it back", async (type) => {
    const config = {
      cniVersion: "1.0.0",
      name: `under-${type}`,
      type,
      ...(type === "ptp" ? {} : { master }),
      ipam: { ...ipam, subnets: "10.32.0.0/24" },
    };
    const namespace = await containers.create(type);
    const gateway = type === "ptp" ? { ipam: { ...config.ipam, gateway: "10.32.0.1" } } : {};
    const answer = await containers.cni("ADD", `c-${type}`, namespace, { ...config, ...gateway });
    expect(answer.code, answer.stdout).toBe(0);
    expect(await containers.kernelAddresses(namespace)).toEqual(
      answer.json().ips.map((ip: { address: string }) => ip.address),
    );
    expect((await containers.cni("DEL", `c-${type}`, namespace, { ...config, ...gateway })).code).toBe(0);
    const view = (await daemon.get(`/v1/networks/under-${type}`)).json();
    expect(view).toMatchObject({ attachments: 0, ranges: [{ allocated: "0", cooling: "1" }] });
  });

  test("bridge: the default route goes through a link-local gateway, as with host-local", async () => {
    const config = {
      cniVersion: "1.0.0",
      name: "link-local-gateway",
      type: "bridge",
      bridge: containers.link("hfb"),
      ipam: {
        type: "holdfast-ipam",
        subnet: "2001:db8:77::/64",
        gateway: "fe80::1",
        routes: [{ dst: "::/0" }],
      },
    };
    const namespace = await containers.create("link-local");
    const answer = await containers.cni("ADD", "c-link-local", namespace, config);
    expect(answer.code, answer.stdout).toBe(0);
    expect(answer.json().ips).toMatchObject([{ address: "2001:db8:77::1/64", gateway: "fe80::1" }]);
    const { stdout } = await mustRun("ip", ["-n", namespace, "-6", "route", "show", "default"]);
    expect(stdout).toContain("default via fe80::1 dev eth0");
  });

  test.each([[[]], [[{ dst: "0.0.0.0/0" }, { dst: "192.168.7.1/16" }]]])(
    "ptp without a gateway has the first address on the node's end; routes %j",
    async (routes) => {
      const config = {
        cniVersion: "1.0.0",
        name: `ptp-${routes.length}`,
        type: "ptp",
        ipam: {
          type: "holdfast-ipam",
          subnets: `10.3${4 + routes.length}.0.0/29,fd34:${routes.length}::/64`,
          routes,
        },
      };
      for (const host of [2, 3]) {
        const namespace = await containers.create(`ptp${host}`);
        const answer = await containers.cni("ADD", `c-ptp-${routes.length}-${host}`, namespace, config);
        expect(answer.code, answer.stdout).toBe(0);
        const [v4, v6] = answer.json().ips;
        expect([v4.address.split("/")[0].split(".")[3], v6.address.split("::")[1]]).toEqual([`${host}`, `${host}/64`]);
        expect(await containers.reaches(namespace, v4.gateway)).toBe(true);
      }
    },
  );

  test("ptp on a subnet that has no room for a gateway is refused before an address is given", async () => {
    const config = {
      cniVersion: "1.0.0",
      name: "ptp-alone",
      type: "ptp",
      ipam: { type: "holdfast-ipam", subnets: "10.39.0.9/32" },
    };
    const namespace = await containers.create("alone");
    const answer = await containers.cni("ADD", "c-alone", namespace, config);
    expect(answer.json()).toMatchObject({ code: 7, msg: expect.stringContaining("ptp needs a gateway") });
    expect((await daemon.get("/v1/allocations?network=ptp-alone")).json().items).toEqual([]);
  });

  test("a failing main plugin leaves nothing allocated", async () => {
    const config = { cniVersion: "1.0.0", name: "broken", type: "macvlan", master: "no-such-link", ipam };
    const namespace = await containers.create("broken");
    expect((await containers.cni("ADD", "c-broken", namespace, config)).code).not.toBe(0);
    await containers.cni("DEL", "c-broken", namespace, config);
    expect(
      (await daemon.get("/v1/allocations?network=broken"))
        .json()
        .items.filter((one: { state: string }) => one.state === "Bound"),
    ).toEqual([]);
  });
});
