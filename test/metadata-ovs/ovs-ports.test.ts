import { afterEach, beforeEach, expect, test } from "vitest";
import { OvsPorts } from "../../guests/ovs/ovs-ports.ts";
import type { Log } from "../../platform/log.ts";
import { systemClock } from "../../platform/time.ts";
import { requireTool } from "../harness/needs.ts";
import { Ovs } from "../harness/ovs/ovs.ts";
import { until } from "../harness/wait.ts";

const SILENT: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

let ovs: Ovs;
let ports: OvsPorts;

beforeEach(async (context) => {
  requireTool(context, "ovs-vswitchd", "--version");
  ovs = await Ovs.start({ dummy: true });
  ports = new OvsPorts({ socket: ovs.socket, clock: systemClock, log: SILENT });
  ports.start();
});

afterEach(async () => {
  ports?.close();
  await ovs?.stop();
});

test("a port is found by its link as ovs-cni writes it, with its bridge, number and VLAN", async () => {
  await ovs.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev");
  // As ovs-cni does for `"vlan": 7`.
  await ovs.vsctl(
    ...["add-port", "br0", "veth1", "vlan_mode=access", "tag=7", "external_ids:owner=ovs-cni.network.kubevirt.io"],
    ...["external_ids:contPodUid=uid-1", "external_ids:contNetns=/run/netns/one", "external_ids:contIface=net1"],
    ...["--", "set", "interface", "veth1", "type=dummy", "ofport_request=5"],
  );
  const found = await ports.find("veth1");
  expect(found).toMatchObject({ bridge: "br0", datapath: "userspace", untaggedVlan: 7, isTrunk: false });
  expect(found?.portExternalIds.get("contNetns")).toBe("/run/netns/one");
  expect(await ports.until(() => ports.ports().get("veth1")?.ofport ?? null, 20_000)).toBe(5);
  expect(await ports.find("veth2")).toBeNull();
  await ovs.vsctl("del-port", "veth1");
  await until(() => !ports.ports().has("veth1"), "the port to go");
  expect(await ports.find("veth1")).toBeNull();
});

test("a port that was added a moment ago is found though no update has come yet", async () => {
  await ovs.vsctl("add-br", "br0");
  for (let round = 0; round < 20; round++) {
    await ovs.vsctl("--no-wait", "add-port", "br0", `veth${round}`);
    expect(await ports.find(`veth${round}`)).toMatchObject({ link: `veth${round}`, datapath: "kernel" });
  }
});

test("the VLAN of frames without a tag follows from tag and mode", async () => {
  await ovs.vsctl("add-br", "br0");
  const modes = {
    access: "tag=5",
    bare: "trunks=[1,2]",
    trunk: "vlan_mode=trunk tag=5",
    native: "vlan_mode=native-untagged tag=6",
  };
  for (const [name, columns] of Object.entries(modes))
    await ovs.vsctl("--no-wait", "add-port", "br0", name, ...columns.split(" "));
  const found = await Promise.all(Object.keys(modes).map((name) => ports.find(name)));
  expect(found.map((port) => [port?.link, port?.untaggedVlan, port?.isTrunk])).toEqual([
    ["access", 5, false],
    ["bare", 0, true],
    ["trunk", 0, true],
    ["native", 6, true],
  ]);
});

test("ovn-controller's bridge is known by its settings, or by the ports that it has wired", async () => {
  await ovs.vsctl("add-br", "br-int", "--", "add-br", "br-own", "--", "add-br", "br-wired");
  await ovs.vsctl(
    "--no-wait",
    "add-port",
    "br-wired",
    "veth1",
    "--",
    "set",
    "interface",
    "veth1",
    "external_ids:iface-id=a",
  );
  await ports.find("veth1");
  const ofOvn = () => ["br-int", "br-own", "br-wired"].filter((bridge) => ports.isOfOvn(bridge));
  expect(ofOvn()).toEqual([]);
  await ovs.vsctl("--no-wait", "set", "interface", "veth1", "external_ids:ovn-installed=true");
  await until(() => ofOvn().join() === "br-wired", "the wired port");
  await ovs.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:ovn-remote=unix:/nowhere");
  await until(() => ofOvn().join() === "br-int,br-wired", "the default name");
  await ovs.vsctl("--no-wait", "set", "Open_vSwitch", ".", "external_ids:ovn-bridge=br-own");
  await until(() => ofOvn().join() === "br-own,br-wired", "the name that was set");
});

test("no Open vSwitch is no port, and one that comes later is noticed", async () => {
  const late = new OvsPorts({ socket: `${ovs.socket}.later`, clock: systemClock, log: SILENT });
  late.start();
  try {
    expect(await late.find("veth1")).toBeNull();
    expect(late.connected).toBe(false);
  } finally {
    late.close();
  }
  await ovs.vsctl("add-br", "br0", "--", "add-port", "br0", "veth1");
  expect(await ports.find("veth1")).not.toBeNull();
  await ovs.endDatabase();
  await until(() => !ports.connected, "the loss to be noticed");
  expect(await ports.find("veth1")).not.toBeNull();
  expect(await ports.find("veth2")).toBeNull();
  await ovs.startDatabase();
  await ovs.vsctl("--no-wait", "add-port", "br0", "veth2");
  await until(async () => (await ports.find("veth2")) !== null, "the port");
});
