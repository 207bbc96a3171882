import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { batch, type PortGuest } from "../metadata-net/node.ts";
import { startPython } from "../metadata-net/python-process.ts";
import { askOften, OvsNode, whoIs, whyNotOvs } from "./ovs-node.ts";

/** The MAC of every door's end in the listener's namespace. */
const DOOR_MAC = "02:6d:64:00:00:03";
/** Of the listener's port. */
const DOOR_VLAN = 4095;

/**
 * Begins connections to the first addresses of a block, with frames to the door's end: as they are, and in the VLAN of
 * the door. At the end of its input it prints how many frames came from such an address.
 */
const SEND_TO_EVERY_PORT = `
import socket, struct, sys, threading
block, to, own, vlan = int(sys.argv[1], 16), *(sys.argv[n] for n in (2, 3)), int(sys.argv[4])
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind(("eth0", 0)); s.setblocking(False)
mac = lambda text: bytes.fromhex(text.replace(":", ""))
def total(data):
    if len(data) % 2: data += b"\\0"
    n = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while n >> 16: n = (n & 0xffff) + (n >> 16)
    return ~n & 0xffff
def syn(address, port):
    a, b = socket.inet_aton("10.0.0.99"), struct.pack("!I", address)
    tcp = struct.pack("!HHIIBBHHH", port, 80, 1, 0, 5 << 4, 2, 1024, 0, 0)
    tcp = tcp[:16] + struct.pack("!H", total(a + b + struct.pack("!BBH", 0, 6, 20) + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, a, b)
    return ip[:10] + struct.pack("!H", total(ip)) + ip[12:] + tcp
print("sending", flush=True)
heard, port = 0, 1024
while not done.is_set():
    port = port + 1 if port < 60000 else 1024
    for last in range(1, 9):
        body = b"\\x08\\x00" + syn((block << 16) + last, port)
        for tag in (b"", b"\\x81\\x00" + struct.pack("!H", vlan)):
            try: s.send(mac(to) + mac(own) + tag + body)
            except OSError: pass
    try:
        while True:
            got = s.recv(2048)
            at = 12 if got[12:14] != b"\\x81\\x00" else 16
            if got[at:at + 2] == b"\\x08\\x00" and got[at + 14] & 0xf8 == 0xf0: heard += 1
    except OSError: pass
    done.wait(0.002)
print(heard)
`;

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

  const restartSwitch = async () => {
    await node.ovs.endSwitch("SIGKILL");
    await node.ovs.startSwitch();
  };

  const startNet = async () => {
    node.net.startNet();
    await node.net.process?.until(
      () => node.net.process?.log.includes("the daemon is heard") ?? false,
      "it to begin",
    );
    await node.net.applied();
  };

  /** `own`: the source MAC of what it sends; "": that of its link. */
  async function thief(own: string): Promise<{ start: () => Promise<{ stop: () => Promise<number> }> }> {
    const guest = await node.guest("br-vm", { address: "10.0.0.99/24" });
    const [first] = (await node.flows()).flatMap((line) => /nw_src=(2\d+\.\d+)\./.exec(line)?.[1] ?? []);
    const [high = 0, low = 0] = (first ?? "").split(".").map(Number);
    const args = [(high * 256 + low).toString(16), DOOR_MAC, own === "" ? guest.mac : own, String(DOOR_VLAN)];
    return {
      start: async () => {
        const sending = await startPython(guest.namespace, SEND_TO_EVERY_PORT, args);
        return { stop: async () => Number((await sending.stop()).split("\n").at(-2)) };
      },
    };
  }

  test("ovs-vswitchd killed again and again under load: no guest is taken for another, a thief gets nothing", async () => {
    const thieving = await (await thief("")).start();
    const asking = await Promise.all([askOften(a), askOften(b)]);
    for (let round = 0; round < 3; round++) {
      await restartSwitch();
      await served();
    }
    const [one = {}, other = {}] = await Promise.all(asking.map((load) => load.stop()));
    expect(Object.keys(one).filter((name) => name !== "nothing")).toEqual(["net-a"]);
    expect(Object.keys(other).filter((name) => name !== "nothing")).toEqual(["net-b"]);
    expect(await thieving.stop()).toBe(0);
  });

  test("while flows are missing nobody is heard but who knows the secret MAC", async () => {
    await node.net.endNet("SIGKILL");
    const { secretMac } = JSON.parse(readFileSync(join(node.net.runDir, "ports.json"), "utf8"));
    const [without, knowing] = [await thief(""), await thief(secretMac)];
    // What the test could not see otherwise: answers go to a MAC that no bridge forwards.
    await node.ovs.vsctl("set", "bridge", "br-vm", "other-config:forward-bpdu=true");
    await restartSwitch();
    expect(await node.flows()).toEqual([]);
    const one = await without.start();
    await pause(2_000);
    expect(await one.stop()).toBe(0);
    const other = await knowing.start();
    await pause(2_000);
    expect(await other.stop()).toBeGreaterThan(0);
    await startNet();
    await served();
  });

  test("flows that are deleted or changed are written again at once", async () => {
    const before = await node.flows();
    for (const change of [
      ["del-flows", "br-vm", `${node.cookie}/-1`],
      ["del-flows", "br-vm", `${node.cookie}/-1,table=202`],
      ["mod-flows", "br-vm", "table=203,ip,actions=drop"],
      ["del-flows", "br-vm"],
    ]) {
      await node.ovs.ofctl(change);
      await until(
        async () => (await node.flows()).join() === before.join(),
        `the flows after ${change.join(" ")}`,
      );
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
      await until(
        async () => (await node.ovs.vsctl("get", "port", door, "tag")).trim() === "4095",
        "its VLAN",
      );
    }
    expect(await node.doors()).toEqual([door]);
  });

  test("a bridge that is made anew serves its guests again", async () => {
    await node.ovs.vsctl("del-br", "br-vm");
    await until(() => Object.keys(node.net.problems()).length === 2, "both to be reported");
    await node.bridge("br-vm");
    for (const guest of [a, b]) await node.plug("br-vm", guest);
    await served();
  });

  test("a link that is made anew under its name is nobody's", async () => {
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

  test("a port that gets the number of a deleted one is nobody's", async () => {
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

  test("metadata-net killed leaves guests served, and adopts what it finds without a change", async () => {
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
  test("ovsdb-server killed and started again serves its guests again, and ports that come later", async () => {
    await node.ovs.endDatabase("SIGKILL");
    await pause(500);
    await node.ovs.startDatabase();
    await served();
    const late = await node.guest("br-vm", { address: "10.0.0.7/24" });
    await node.net.wanted(a.on("net-a"), b.on("net-b"), late.on("net-late"));
    await until(async () => (await whoIs(late, "/latest/", 2)) === "net-late", "the late guest");
    await served();
  });

  test("guests that go take their flows along, and the last one the listener's port", async () => {
    const both = (await node.flows()).length;
    expect(await node.net.wanted(a.on("net-a"))).toEqual({});
    expect(await whoIs(b, "/latest/", 1)).toBe("status 0");
    expect((await node.flows()).length).toBeLessThan(both);
    expect(await whoIs(a)).toBe("net-a");
    expect(await node.net.wanted()).toEqual({});
    expect([await node.flows(), await node.doors()]).toEqual([[], []]);
  });
});
