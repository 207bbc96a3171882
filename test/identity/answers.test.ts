/** Who is behind an address, told by a daemon that stands alone: real plugin binary, real sockets. */

import { describe, expect } from "vitest";
import type { IdentityAnswer } from "../../identity/wire.ts";
import { network, pod, processTest, restart, type ServedDaemon, test, testWith } from "../cni/fixtures.ts";
import { apply, claim, withClaim } from "../cni/manifests.ts";
import { closeBridges } from "../harness/port-client.ts";
import { askIdentity } from "./ask.ts";

const FIRMWARE = "0FE2A1D4-7B3C-4E5F-9A6B-1C2D3E4F5A6B";
const DUAL = { subnets: "10.10.0.0/24,fd10::/64", gateway: "10.10.0.1" };

const who = async (daemon: ServedDaemon, query: string): Promise<IdentityAnswer> => {
  const answer = await daemon.get(`/v1/identity?${query}`);
  expect(answer.status, answer.body).toBe(200);
  // Both sockets give one answer.
  const other = await askIdentity(daemon, query);
  expect(other.json()).toEqual(answer.json());
  return answer.json();
};

const refusal = async (daemon: ServedDaemon, query: string) => {
  const { status, body } = await askIdentity(daemon, query);
  const main = await daemon.get(`/v1/identity?${query}`);
  expect({ status: main.status, body: main.body }).toEqual({ status, body });
  return { status, ...JSON.parse(body) } as { status: number; code: string; message: string; hint: string };
};

const nic = async (daemon: ServedDaemon, id: string, ifname: string, config: object, args = "") => {
  const answer = await daemon.cni("ADD", id, { config, ifname, args });
  expect(answer.code, answer.stdout).toBe(0);
  return (answer.json().ips as { address: string }[]).map(({ address }) => address.split("/")[0] as string);
};

const vmClaim = (name: string, vm: string, spec: object = {}, annotations: object = {}) => ({
  ...claim(name, spec),
  metadata: {
    name,
    namespace: "default",
    annotations,
    ownerReferences: [
      {
        apiVersion: "kubevirt.io/v1",
        kind: "VirtualMachine",
        name: vm,
        uid: `uid-of-${vm}`,
        controller: true,
      },
    ],
  },
});

describe("the identity behind an address", () => {
  processTest("has the container's addresses, gateway, routes and DNS as its ADD was answered", async ({ daemon }) => {
    const ipam = { ...DUAL, routes: [{ dst: "0.0.0.0/0" }], dns: { nameservers: ["10.10.0.53"] } };
    const [v4, v6] = await nic(daemon, "c1", "eth0", network("blue", ipam));
    const expected: IdentityAnswer = {
      network: "blue",
      identity: {
        state: "running",
        vm: null,
        pods: [
          {
            namespace: null,
            name: null,
            uid: null,
            node: expect.any(String) as never,
            containerID: "c1",
            since: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as never,
          },
        ],
        interfaces: [
          {
            network: "blue",
            interface: "eth0",
            owner: { kind: "container", uid: "c1", interface: "eth0", namespace: "", name: "" },
            claim: null,
            addresses: [{ address: `${v4}/24`, gateway: "10.10.0.1" }, { address: `${v6}/64` }],
            mac: null,
            mtu: null,
            routes: [{ dst: "0.0.0.0/0" }],
            dns: { nameservers: ["10.10.0.53"] },
            metadata: null,
            source: "holdfast",
          },
        ],
      },
    };
    for (const address of [v4, v6, "FD10:0::0:1", `${v4}/24`]) {
      expect(await who(daemon, `address=${address}`)).toEqual(expected);
      expect(await who(daemon, `address=${address}&here=true&network=blue`)).toEqual(expected);
    }
    await restart(daemon, "SIGKILL");
    expect(await who(daemon, `address=${v4}&here=true`)).toEqual(expected);
  });

  test("is refused without a network where two networks overlap", async ({ daemon }) => {
    const [address] = await nic(daemon, "c1", "eth0", network("blue"));
    expect(await nic(daemon, "c2", "eth0", network("red"))).toEqual([address]);
    for (const here of ["", "&here=true"]) {
      expect(await refusal(daemon, `address=${address}${here}`)).toEqual({
        status: 409,
        code: "ADDRESS_AMBIGUOUS",
        message: `${address} is an address of several networks: blue, red`,
        hint: `name the one that is meant: network=NAME, or holdfast who ${address} --network NAME`,
      });
      for (const [name, container] of [
        ["blue", "c1"],
        ["red", "c2"],
      ]) {
        const { network: told, identity } = await who(daemon, `address=${address}&network=${name}${here}`);
        expect(told).toBe(name);
        expect(identity.pods).toMatchObject([{ containerID: container }]);
      }
      expect(await refusal(daemon, `address=${address}&network=green${here}`)).toMatchObject({ status: 404 });
    }
    await daemon.cni("DEL", "c2", { config: network("red") });
    // Nobody holds it there any more, so it means one again.
    expect((await who(daemon, `address=${address}`)).network).toBe("blue");
    expect((await who(daemon, `address=${address}&here=true`)).network).toBe("blue");
  });

  test("has all interfaces of the container in the order of their ADDs, and the network of the address", async ({
    daemon,
  }) => {
    await nic(daemon, "c1", "eth0", network("blue"), pod("uid-1", "web-0"));
    const [address] = await nic(
      daemon,
      "c1",
      "net1",
      network("red", { subnets: "10.20.0.0/24" }),
      pod("uid-1", "web-0"),
    );
    await nic(daemon, "c2", "net1", network("red", { subnets: "10.20.0.0/24" }), pod("uid-2", "web-1"));
    for (const here of ["", "&here=true"]) {
      const { network: told, identity } = await who(daemon, `address=${address}${here}`);
      expect(told).toBe("red");
      expect(identity.interfaces.map((one) => [one.network, one.interface])).toEqual([
        ["blue", "eth0"],
        ["red", "net1"],
      ]);
      expect(identity.pods).toMatchObject([{ namespace: "default", name: "web-0", uid: "uid-1" }]);
    }
  });
});

describe("a network with metadata", () => {
  const blue = network("blue", { metadata: { tokens: "required" }, routes: [{ dst: "10.99.0.0/16" }] }, { mtu: 1400 });
  const red = network("red", { subnets: "10.20.0.0/24", metadata: true });
  const at = (args: string[]) => testWith("--metadata-wait-ms", "0", ...args);

  at([])("its routes are those of the CNI answer, its MAC and MTU what was asked for", async ({ daemon }) => {
    closeBridges(daemon, "cni0");
    const args = "IgnoreUnknown=1;MAC=02:00:00:00:00:07";
    const first = await daemon.cni("ADD", "c1", { config: blue, ifname: "eth0", args });
    const second = await daemon.cni("ADD", "c1", { config: red, ifname: "eth1" });
    expect([first.code, second.code]).toEqual([0, 0]);
    for (const [answer, name] of [
      [first, "blue"],
      [second, "red"],
    ] as const) {
      const [{ address }] = answer.json().ips;
      for (const here of ["", "&here=true"]) {
        const { identity } = await who(daemon, `address=${address.split("/")[0]}&network=${name}${here}`);
        expect(identity.interfaces).toMatchObject([
          {
            mac: "02:00:00:00:00:07",
            mtu: 1400,
            routes: first.json().routes,
            metadata: { address: "169.254.169.254", tokens: "required" },
          },
          {
            mac: null,
            mtu: null,
            routes: second.json().routes ?? [],
            metadata: { address: "169.254.169.254", tokens: "optional" },
          },
        ]);
      }
    }
    expect(first.json().routes).toContainEqual({ dst: "169.254.169.254/32" });
    expect(second.json()).not.toHaveProperty("routes");
  });

  at(["--metadata", "off"])("where this node serves none, no route leads there", async ({ daemon }) => {
    const answer = await daemon.cni("ADD", "c1", { config: blue });
    const { identity } = await who(daemon, "container=c1&here=true");
    expect(identity.interfaces[0]?.routes).toEqual(answer.json().routes);
    expect(identity.interfaces[0]?.routes).toEqual([{ dst: "10.99.0.0/16" }]);
  });
});

describe("the identity of a VM", () => {
  const config = (name: string) => withClaim(name, DUAL);

  test("is found by all of its names while it runs, is stopped and is deleted", async ({ daemon }) => {
    const firmware = { "metadata.holdfast.dev/firmware-uuid": FIRMWARE };
    await apply(daemon, vmClaim("vm1.blue", "vm1", {}, firmware));
    const [v4, v6] = await nic(daemon, "c1", "net1", config("vm1.blue"), pod("uid-1", "virt-launcher-vm1"));
    const byAddress = await who(daemon, `address=${v4}`);
    expect(byAddress.identity).toMatchObject({
      state: "running",
      vm: {
        namespace: "default",
        name: "vm1",
        uid: "uid-of-vm1",
        vmiUid: null,
        firmwareUuid: FIRMWARE.toLowerCase(),
      },
      pods: [{ name: "virt-launcher-vm1", containerID: "c1" }],
      interfaces: [{ interface: "net1", claim: "default/vm1.blue", owner: { kind: "claim" } }],
    });
    for (const query of [
      "pod=virt-launcher-vm1",
      "pod=default/virt-launcher-vm1",
      "vm=vm1",
      "vm=default/vm1",
      "container=c1",
      "container=c1&here=true",
      "vm=vm1&here=true",
      "pod=virt-launcher-vm1&here=true",
    ]) {
      expect(await who(daemon, query), query).toEqual({ ...byAddress, network: null });
    }
    for (const query of ["pod=default/vm1", "vm=other/vm1", "container=c2", "vm=vm2&here=true"]) {
      expect(await refusal(daemon, query), query).toMatchObject({ status: 404, code: "NOT_FOUND" });
    }

    await daemon.cni("DEL", "c1", { config: config("vm1.blue"), ifname: "net1" });
    expect(await refusal(daemon, `address=${v4}&here=true`)).toMatchObject({
      status: 404,
      code: "NOT_FOUND",
      message: `there is no user of ${v4} on this node`,
    });
    const stopped = await who(daemon, `address=${v6}`);
    expect(stopped).toMatchObject({
      network: "blue",
      identity: { state: "stopped", vm: byAddress.identity.vm, pods: [] },
    });
    expect(stopped.identity.interfaces).toHaveLength(1);
    expect(stopped.identity.interfaces[0]).toMatchObject({
      interface: null,
      addresses: expect.arrayContaining([{ address: `${v4}/24`, gateway: "10.10.0.1" }, { address: `${v6}/64` }]),
    });
    expect((await who(daemon, "vm=vm1")).identity).toMatchObject({ state: "stopped" });

    await daemon.delete("/v1/claims/default/vm1.blue");
    const released = await who(daemon, `address=${v4}`);
    expect(released.identity).toMatchObject({
      state: "released-recently",
      pods: [],
      interfaces: [{ claim: "default/vm1.blue" }],
    });
    expect(await refusal(daemon, `address=${v4}&here=true`)).toMatchObject({ status: 404 });
  });

  test("is one with two claims, also while it is stopped", async ({ daemon }) => {
    const red = (name: string) => ({
      ...withClaim(name, { subnets: "10.20.0.0/24" }),
      name: "red",
    });
    await apply(daemon, vmClaim("vm1.blue", "vm1"), vmClaim("vm1.red", "vm1", { network: "red" }));
    await apply(daemon, vmClaim("vm2.blue", "vm2"));
    const args = pod("uid-1", "launcher");
    const [blue] = await nic(daemon, "c1", "net1", config("vm1.blue"), args);
    await nic(daemon, "c1", "net2", red("vm1.red"), args);
    await nic(daemon, "c2", "net1", config("vm2.blue"), pod("uid-2", "launcher-2"));
    const claimsOf = (answer: IdentityAnswer) => answer.identity.interfaces.map((one) => one.claim);
    const both = ["default/vm1.blue", "default/vm1.red"];
    for (const query of [`address=${blue}`, `address=${blue}&here=true`, "vm=vm1", "pod=launcher"]) {
      expect(claimsOf(await who(daemon, query)), query).toEqual(both);
    }
    await daemon.cni("DEL", "c1", { config: config("vm1.blue"), ifname: "net1" });
    await daemon.cni("DEL", "c1", { config: red("vm1.red"), ifname: "net2" });
    for (const query of [`address=${blue}`, "vm=vm1"]) {
      const answer = await who(daemon, query);
      expect(answer.identity.state).toBe("stopped");
      expect(claimsOf(answer), query).toEqual(both);
    }
  });

  test("is known by an annotation alone, without an owner or label", async ({ daemon }) => {
    const annotations = { "metadata.holdfast.dev/firmware-uuid": FIRMWARE };
    const wrong = { "metadata.holdfast.dev/firmware-uuid": "not a UUID" };
    const plain = (name: string, more: object) => ({
      ...claim(name),
      metadata: { name, namespace: "default", annotations: more },
    });
    await apply(daemon, plain("box", annotations), plain("bad", wrong));
    await nic(daemon, "c1", "net1", config("box"), pod("uid-1"));
    await nic(daemon, "c2", "net1", config("bad"), pod("uid-2"));
    const [box, bad] = [await who(daemon, "container=c1"), await who(daemon, "container=c2")];
    expect(box.identity.vm).toMatchObject({ name: "box", uid: "", firmwareUuid: FIRMWARE.toLowerCase() });
    expect(bad.identity.vm).toBeNull();
  });
});

describe("ambiguous names", () => {
  test("of pods in two namespaces, and of successive pods with one name", async ({ daemon }) => {
    const shop = (uid: string) => pod(uid, "web-0").replace("NAMESPACE=default", "NAMESPACE=shop");
    await nic(daemon, "c1", "net1", network("blue"), pod("uid-1", "web-0"));
    await nic(daemon, "c2", "net1", network("blue"), shop("uid-2"));
    for (const here of ["", "&here=true"]) {
      expect(await refusal(daemon, `pod=web-0${here}`)).toMatchObject({
        status: 400,
        code: "REQUEST_INVALID",
        message: expect.stringMatching(/default\/web-0.*shop\/web-0.*namespace\/name/),
      });
      expect((await who(daemon, `pod=shop/web-0${here}`)).identity.pods).toMatchObject([{ uid: "uid-2" }]);
    }
    // Its successor by name: what runs counts before what cools down.
    await daemon.cni("DEL", "c2", { config: network("blue"), ifname: "net1" });
    expect((await who(daemon, "pod=shop/web-0")).identity.state).toBe("released-recently");
    await nic(daemon, "c3", "net1", network("blue"), shop("uid-3"));
    expect((await who(daemon, "pod=shop/web-0")).identity).toMatchObject({
      state: "running",
      pods: [{ uid: "uid-3" }],
    });
  });

  test("of a pod with a new sandbox beside the old one mean one user", async ({ daemon }) => {
    const args = pod("uid-1", "web-0");
    await nic(daemon, "old", "net1", network("blue"), args);
    await nic(daemon, "old", "net2", network("red"), args);
    const [address] = await nic(daemon, "new", "net1", network("blue"), args);
    expect((await who(daemon, `address=${address}&network=blue&here=true`)).identity).toMatchObject({
      state: "running",
      pods: [{ containerID: "new" }],
    });
  });
});

describe("invalid questions are refused", () => {
  test.for([
    ["", "exactly one of address, pod, vm, container and pod-uid"],
    ["network=blue", "exactly one of"],
    ["address=10.10.0.1&pod=web", "exactly one of"],
    ["address=10.10.0", "address is"],
    ["address=", "expected one value"],
    ["address=10.10.0.1&address=10.10.0.2", "expected one value"],
    ["address=10.10.0.1&here=yes", "true or false"],
    ["pod=web&network=blue", "goes with address only"],
    ["name=web", "the parameters here are"],
    [`vm=${"x".repeat(600)}`, "longer than any name"],
  ])("%s", async ([query, says], { daemon }) => {
    expect(await refusal(daemon, query as string)).toMatchObject({
      status: 400,
      code: "REQUEST_INVALID",
      message: expect.stringContaining(says as string),
    });
  });
});
