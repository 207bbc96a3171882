import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { until } from "../harness/wait.ts";
import type { PortGuest } from "../metadata-net/node.ts";
import { addressOf, makeIntegrationBridge, type PodRow, plugPod } from "./ovn-pod.ts";
import { OvsNode, whyNotOvs } from "./ovs-node.ts";

const BLUE = "cluster_udn_blue";
const GREEN = "shop_green";
const [SUBJECT, SOURCE, NETWORK] = [LISTENER_HEADERS.subject, LISTENER_HEADERS.source, LISTENER_HEADERS.network];

/** Pods as OVN-Kubernetes attaches them. */
describe.skipIf(whyNotOvs() !== null)("pods on networks of OVN-Kubernetes", () => {
  let node: OvsNode;
  let a: PortGuest;
  let b: PortGuest;

  beforeEach(async () => {
    node = await OvsNode.start([]);
    await makeIntegrationBridge(node.ovs);
    // The same address in both networks.
    a = await pod("uid-a", BLUE);
    b = await pod("uid-b", GREEN);
    expect(await node.net.serve(BLUE, GREEN)).toEqual({});
    await until(async () => (await who(b)) === "pod/uid-b", "the guests to be served");
  });

  afterEach(async () => {
    expect(await node.stop(), node.net.log).toEqual([]);
  });

  async function pod(uid: string, network: string | null, more: Partial<PodRow> = {}): Promise<PortGuest> {
    const guest = await node.net.guest(null, "10.20.0.5/16");
    await plug(guest, uid, network, more);
    return guest;
  }

  const plug = (guest: PortGuest, uid: string, network: string | null, more: Partial<PodRow> = {}) =>
    plugPod(node.ovs, guest.port, {
      ...{ uid, mac: guest.mac, addresses: "fd00:20::5/64,10.20.0.5/16", network },
      ...more,
    });

  const ask = (guest: PortGuest) => guest.ask("/latest/", ["--max-time", "2"]);
  const who = async (guest: PortGuest) => {
    const { status, echo } = await ask(guest);
    return echo.headers[SUBJECT] ?? `status ${status}`;
  };
  const address = (guest: PortGuest) => addressOf(node.net.runDir, guest);
  const nobody = (guest: PortGuest) =>
    until(
      () => address(guest) === null,
      () => `${guest.port} to be nobody's; log: ${node.net.log}`,
    );
  const isServed = (guest: PortGuest, subject: string) =>
    until(
      async () => (await who(guest)) === subject,
      () => `${subject}; log: ${node.net.log}`,
    );

  test("two with one address are identified by pod, network and recorded address", async () => {
    for (const [guest, uid, network] of [
      [a, "uid-a", BLUE],
      [b, "uid-b", GREEN],
    ] as const) {
      const { status, echo } = await ask(guest);
      expect(status).toBe(200);
      expect(echo.headers).toMatchObject({
        [SUBJECT]: `pod/${uid}`,
        [NETWORK]: network,
        [SOURCE]: "10.20.0.5",
      });
    }
    // OVN's bridge has no port and no flow of ours.
    expect(await node.doors()).toEqual([]);
    expect(await node.flows("br-int")).toEqual([]);
  });

  test("pods on the default network and on networks without metadata are ignored", async () => {
    const others = [
      await pod("uid-default", null),
      await pod("uid-other", "cluster_udn_other"),
      await node.guest("br-int", { address: "10.20.0.9/16" }),
    ];
    const last = await pod("uid-last", BLUE);
    await isServed(last, "pod/uid-last");
    expect(await Promise.all(others.map(who))).toEqual(["status 0", "status 0", "status 0"]);
    for (const guest of others) {
      expect(address(guest)).toBeNull();
      const { stdout } = await node.net.run("nft", ["list", "ruleset"]);
      expect(stdout).toContain(`"${last.port}"`);
      expect(stdout).not.toContain(`"${guest.port}"`);
    }
  });

  test("a pod whose row is deleted is no longer served, and gets another port address when recreated", async () => {
    const before = address(a);
    await node.ovs.vsctl("del-port", a.port);
    await nobody(a);
    await isServed(a, "status 0");
    expect(await who(b)).toBe("pod/uid-b");
    await plug(a, "uid-a", BLUE);
    await isServed(a, "pod/uid-a");
    expect(address(a)).not.toBe(before);
  });

  test("a row that names another pod is that pod's, behind another port address", async () => {
    const before = address(a);
    await node.ovs.vsctl("set", "interface", a.port, "external_ids:iface-id-ver=uid-next");
    await isServed(a, "pod/uid-next");
    expect(address(a)).not.toBe(before);
    await node.ovs.vsctl("set", "interface", a.port, `external_ids:"k8s.ovn.org/network"=${GREEN}`);
    await until(async () => (await ask(a)).echo.headers[NETWORK] === GREEN, "its network");
  });

  test("a network without metadata has no guests, and has them again once it is switched on", async () => {
    expect(await node.net.serve(GREEN)).toEqual({});
    expect(address(a)).toBeNull();
    expect(await who(a)).toBe("status 0");
    expect(await who(b)).toBe("pod/uid-b");
    expect(await node.net.serve(GREEN, BLUE)).toEqual({});
    await isServed(a, "pod/uid-a");
  });

  test("metadata-net that starts without Open vSwitch's database serves the known guests", async () => {
    const before = [address(a), address(b)];
    await node.net.endNet("SIGKILL");
    await node.ovs.endDatabase();
    node.net.startNet();
    await until(() => node.net.process?.log.includes("the daemon is heard") ?? false, "it to begin");
    await node.net.serve(BLUE, GREEN);
    await isServed(a, "pod/uid-a");
    await isServed(b, "pod/uid-b");
    await node.ovs.startDatabase();
    await node.ovs.vsctl("del-port", b.port);
    await nobody(b);
    expect(await who(a)).toBe("pod/uid-a");
    expect(address(a)).toBe(before[0]);
  });

  test("a restart of the database or the switch changes nothing for the guests", async () => {
    const before = [address(a), address(b)];
    await node.ovs.endDatabase("SIGKILL");
    await until(() => node.net.log.includes("is lost"), "the loss to be noticed");
    expect(await who(a)).toBe("pod/uid-a");
    await node.ovs.startDatabase();
    await node.ovs.endSwitch("SIGKILL");
    expect(await who(a)).toBe("pod/uid-a");
    await node.ovs.startSwitch();
    expect(await who(b)).toBe("pod/uid-b");
    const late = await pod("uid-late", BLUE);
    await isServed(late, "pod/uid-late");
    expect([address(a), address(b)]).toEqual(before);
  });

  test("a row without its link, its MAC or its address is reported and logged, and is served once that is there", async () => {
    const guest = await pod("uid-poor", BLUE, { mac: "", addresses: "10.20.0.7/16" });
    await plugPod(node.ovs, "gone0", {
      uid: "uid-gone",
      mac: guest.mac,
      addresses: "10.20.0.8/16",
      network: BLUE,
    }).catch(() => {});
    const problems = () => node.net.problems();
    const known = () => Object.values(problems()).filter((one) => !one.includes("searched for"));
    await until(() => known().length === 2, "both problems");
    expect(problems()).toEqual({
      "sandbox-of-uid-poor ovn-udn1": "pending: Open vSwitch's database has no MAC address of it",
      "sandbox-of-uid-gone ovn-udn1": "pending: there is no link gone0 on the node",
    });
    // Only what lasts is logged.
    await until(() => node.net.log.includes("there is no link gone0"), "the log");
    await node.ovs.vsctl("set", "interface", guest.port, `external_ids:attached_mac="${guest.mac}"`);
    await isServed(guest, "pod/uid-poor");
    await node.ovs.vsctl("del-port", "gone0");
    await until(() => Object.keys(problems()).length === 0, "no problem any more");
  });

  test("a pod whose link is gone is not served, although its row is there", async () => {
    await node.net.mustRun("ip", ["link", "delete", a.port]);
    await nobody(a);
    const reported = () => node.net.problems()["sandbox-of-uid-a ovn-udn1"] ?? "";
    await until(() => reported().includes(`there is no link ${a.port}`), "the report");
    expect(await who(b)).toBe("pod/uid-b");
  });
});
