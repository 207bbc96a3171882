import { chmodSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { network, TestDaemon } from "../harness/daemon.ts";
import { TestMetadataServer } from "../harness/metadata/server.ts";
import { until } from "../harness/wait.ts";
import { batch, type PortGuest } from "../metadata-net/node.ts";
import { OvsNode, whyNotOvs } from "./ovs-node.ts";

interface VlanNetwork {
  readonly name: string;
  readonly vlan: number;
}

const RED: VlanNetwork = { name: "red", vlan: 7 };
const BLUE: VlanNetwork = { name: "blue", vlan: 8 };

/** ovs-cni makes the pair and the port first, then calls its IPAM plugin, then sets what that says. */
describe.skipIf(whyNotOvs() !== null)("a container that ovs-cni attaches to a userspace bridge", () => {
  let node: OvsNode;
  let daemon: TestDaemon;
  let server: TestMetadataServer;

  beforeAll(async () => {
    node = await OvsNode.start();
    daemon = await TestDaemon.start();
    // haproxy is not root, and has to reach the server's socket in there.
    chmodSync(daemon.directory, 0o711);
    server = new TestMetadataServer(daemon.directory, { metricsAddress: "off" });
    await server.run();
    await node.net.stopDaemon();
    await node.net.stopUpstream();
    symlinkSync(daemon.socket, join(node.net.directory, "d.sock"));
    symlinkSync(server.socket, join(node.net.directory, "m.sock"));
  });

  afterAll(async () => {
    const left = await node?.stop();
    await server?.end();
    await daemon?.stop();
    expect(left).toEqual([]);
  });

  const optionsOf = ({ name, vlan }: VlanNetwork, { namespace }: PortGuest) => ({
    netns: `/run/netns/${namespace}`,
    config: network(name, { subnets: "10.60.0.0/24", metadata: true }, { type: "ovs", bridge: "br-vm", vlan }),
  });

  /** Resolves with the guest and its address. */
  async function attach(on: VlanNetwork): Promise<{ guest: PortGuest; address: string }> {
    const guest = await node.net.guest(null, "127.0.0.2/32");
    await batch(["address flush dev eth0", "route flush dev eth0"], guest.namespace);
    await guest.run("ethtool", ["-K", "eth0", "tx", "off"]);
    const ids = {
      contPodUid: `uid-${guest.namespace}`,
      contNetns: `/run/netns/${guest.namespace}`,
      contIface: "eth0",
      owner: "ovs-cni.network.kubevirt.io",
    };
    const columns = Object.entries(ids).map(([key, value]) => `external_ids:${key}="${value}"`);
    const set = ["--", "set", "port", guest.port, ...columns];
    await node.plug("br-vm", guest, [`tag=${on.vlan}`, "vlan_mode=access", ...set]);
    const added = await daemon.cni("ADD", guest.namespace, optionsOf(on, guest));
    expect(added.code, added.stdout).toBe(0);
    const { ips, routes = [] } = added.json();
    const given: string = ips[0].address;
    const ways = (routes as { dst: string; gw?: string }[]).map(
      ({ dst, gw }) => `route add ${dst} dev eth0 ${gw === undefined ? "scope link" : `via ${gw}`}`,
    );
    await batch([`address add ${given} dev eth0`, ...ways], guest.namespace);
    return { guest, address: given.split("/")[0] as string };
  }

  const says = async (guest: PortGuest, leaf: string) =>
    (await guest.ask(`/latest/meta-data/${leaf}`, ["--max-time", "5"])).body;

  test("has its metadata with the end of its ADD, and none after its DEL", async () => {
    const red = await attach(RED);
    expect(await says(red.guest, "local-ipv4"), node.net.log).toBe(red.address);
    // The same address in another VLAN of the same bridge.
    const blue = await attach(BLUE);
    expect(blue.address).toBe(red.address);
    const ids = [await says(red.guest, "instance-id"), await says(blue.guest, "instance-id")];
    expect(new Set(ids).size, ids.join()).toBe(2);
    expect(await says(red.guest, "local-ipv4")).toBe(red.address);

    const done = await daemon.cni("DEL", red.guest.namespace, optionsOf(RED, red.guest));
    expect(done.code, done.stdout).toBe(0);
    const isServed = async () => (await red.guest.ask("/latest/", ["--max-time", "1"])).status === 200;
    await until(async () => !(await isServed()), "the port of a container that has ended to be nobody's");
    await node.ovs.vsctl("del-port", red.guest.port);
    expect(await says(blue.guest, "instance-id")).toBe(ids[1]);
  });
});
