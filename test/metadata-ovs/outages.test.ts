import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import type { PortGuest } from "../metadata-net/node.ts";
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

describe.skipIf(whyNotOvs() !== null)("a switch in userspace that is killed", () => {
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
    await node.net.process?.until(() => node.net.process?.log.includes("the daemon is heard") ?? false, "it to begin");
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

  test("no guest gets another one's answer while ovs-vswitchd is killed repeatedly under load", async () => {
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

  test("while flows are missing only frames with the secret MAC are accepted", async () => {
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
});
