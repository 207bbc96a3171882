import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { batch, type PortGuest } from "../metadata-net/node.ts";
import { askOften, OvsNode, whoIs, whyNotOvs } from "./ovs-node.ts";

describe.skipIf(whyNotOvs() !== null)("a bridge with the userspace datapath that others disturb", () => {
  let node: OvsNode;
  let a: PortGuest;
  let b: PortGuest;

  beforeEach(async () => {
    node = await OvsNode.start();
    a = await node.guest("br-vm", { address: "10.0.0.5/24" });
    b = await node.guest("br-vm", { address: "10.0.0.5/24" });
    expect(await node.net.wanted(a.on("net-a"), b.on("net-b"))).toEqual({});
    await served();
  });

  afterEach(async () => {
    expect(await node.stop(), node.net.log).toEqual([]);
  });

  const served = () =>
    until(
      async () => (await whoIs(a, "/latest/", 2)) === "net-a" && (await whoIs(b, "/latest/", 2)) === "net-b",
      () => `both guests to be served; log: ${node.net.log}`,
    );

  const startNet = async () => {
    node.net.startNet();
    await node.net.process?.until(() => node.net.process?.log.includes("the daemon is heard") ?? false, "it to begin");
    await node.net.applied();
  };

  test("flows that are deleted or changed are written again at once", async () => {
    const before = await node.flows();
    for (const change of [
      ["del-flows", "br-vm", `${node.cookie}/-1`],
      ["del-flows", "br-vm", `${node.cookie}/-1,table=202`],
      ["mod-flows", "br-vm", "table=203,ip,actions=drop"],
      ["del-flows", "br-vm"],
    ]) {
      await node.ovs.ofctl(change);
      await until(async () => (await node.flows()).join() === before.join(), `the flows after ${change.join(" ")}`);
      await served();
    }
    await node.ovs.ofctl(["add-flow", "br-vm", "cookie=0x77,priority=3,actions=NORMAL"]);
    await pause(300);
    expect(await node.ovs.ofctl(["dump-flows", "br-vm"])).toContain("cookie=0x77");
    expect((await node.flows()).join()).toBe(before.join());
  });

  test("the listener's port comes back when somebody deletes or changes it, or its link", async () => {
    const [door = ""] = await node.doors();
    for (const change of [
      () => node.ovs.vsctl("del-port", door),
      () => node.ovs.vsctl("set", "port", door, "tag=0"),
      () => node.net.mustRun("ip", ["link", "delete", door]),
    ]) {
      await change();
      await served();
      await until(async () => (await node.ovs.vsctl("get", "port", door, "tag")).trim() === "4095", "its VLAN");
    }
    expect(await node.doors()).toEqual([door]);
  });

  test("a recreated bridge serves its guests again", async () => {
    await node.ovs.vsctl("del-br", "br-vm");
    await until(() => Object.keys(node.net.problems()).length === 2, "both to be reported");
    await node.bridge("br-vm");
    for (const guest of [a, b]) await node.plug("br-vm", guest);
    await served();
  });

  test("a recreated link is not served", async () => {
    await node.net.mustRun("ip", ["link", "delete", b.port]);
    const heir = await node.guest("br-vm", { address: "10.0.0.5/24", mac: b.mac });
    await node.net.mustRun("ip", ["link", "set", heir.port, "down"]);
    await node.ovs.vsctl("del-port", heir.port);
    await node.net.mustRun("ip", ["link", "set", heir.port, "name", b.port, "up"]);
    await pause(1_500);
    expect(await whoIs(heir, "/latest/", 2)).toBe("status 0");
    await until(() => Object.keys(node.net.problems()).length === 1, "it to be reported");
    expect(await whoIs(a)).toBe("net-a");
  });

  test("a port that gets the number of a deleted one is not served", async () => {
    const number = async (link: string) => Number(await node.ovs.vsctl("get", "interface", link, "ofport"));
    const old = await number(b.port);
    await node.ovs.endSwitch("SIGKILL");
    await node.ovs.vsctl("--no-wait", "del-port", b.port);
    const heir = await node.net.guest(null, "10.0.0.5/24");
    await node.ovs.vsctl(
      "--no-wait",
      "add-port",
      "br-vm",
      heir.port,
      "--",
      "set",
      "interface",
      heir.port,
      `ofport_request=${old}`,
    );
    await batch([`link set eth0 address ${b.mac}`], heir.namespace);
    await node.ovs.startSwitch();
    await until(async () => (await number(heir.port)) === old, "the number");
    await until(async () => (await whoIs(a, "/latest/", 2)) === "net-a", "the other guest");
    expect(await whoIs(heir, "/latest/", 2)).toBe("status 0");
  });

  test("guests are served while metadata-net is killed, and its successor adopts everything without a change", async () => {
    const before = await node.flows();
    await node.net.endNet("SIGKILL");
    expect(await whoIs(a)).toBe("net-a");
    const asking = await askOften(a);
    await startNet();
    expect(Object.keys(await asking.stop())).toEqual(["net-a"]);
    expect(await node.flows()).toEqual(before);
    await served();
  });

  // Without it the userspace datapath forwards nothing at all.
  test("after a restart of ovsdb-server its guests and later ports are served", async () => {
    await node.ovs.endDatabase("SIGKILL");
    await pause(500);
    await node.ovs.startDatabase();
    await served();
    const late = await node.guest("br-vm", { address: "10.0.0.7/24" });
    await node.net.wanted(a.on("net-a"), b.on("net-b"), late.on("net-late"));
    await until(async () => (await whoIs(late, "/latest/", 2)) === "net-late", "the late guest");
    await served();
  });

  test("flows are removed with their guests, and the listener's port with the last one", async () => {
    const both = (await node.flows()).length;
    expect(await node.net.wanted(a.on("net-a"))).toEqual({});
    expect(await whoIs(b, "/latest/", 1)).toBe("status 0");
    expect((await node.flows()).length).toBeLessThan(both);
    expect(await whoIs(a)).toBe("net-a");
    expect(await node.net.wanted()).toEqual({});
    expect([await node.flows(), await node.doors()]).toEqual([[], []]);
  });
});
