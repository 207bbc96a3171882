import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { listenTo } from "./frames.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { startPython } from "./python-process.ts";
import { askAs, onlyDefaultRoute, self } from "./who.ts";

const NOBODY = "02:de:ad:00:00:01";

/** A guest behind a tap: sends a SYN for the metadata service and prints the answer. */
const TAP = `
import fcntl, os, select, socket, struct, sys
fd = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(fd, 0x400454ca, struct.pack("16sH22x", sys.argv[1].encode(), 0x1002))
print("ready", flush=True); sys.stdin.read()
def checksum(data):
    data += b"\\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
src, dst = socket.inet_aton("10.30.0.77"), socket.inet_aton("169.254.169.254")
tcp = struct.pack("!HHIIBBHHH", 40000, 80, 1, 0, 0x50, 2, 65535, 0, 0)
tcp = tcp[:16] + struct.pack("!H", checksum(src + dst + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)) + tcp[18:]
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 1, 0, 64, 6, 0, src, dst)
ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
os.write(fd, bytes.fromhex("02dead0000010200000000770800") + ip + tcp)
while select.select([fd], [], [], 5)[0]:
    f = os.read(fd, 2000)
    if f[12:14] != b"\\x08\\0" or f[23] != 6: continue
    good = checksum(f[26:34] + struct.pack("!BBH", 0, 6, len(f) - 34) + f[34:]) == 0
    print(f[:6].hex(), socket.inet_ntoa(f[26:30]), "%#x" % f[47], "good" if good else "bad"); break
`;

describe.skipIf(whyNotReal() !== null)("a guest is identified by its port", () => {
  let node: NetNode;
  beforeAll(async () => {
    node = await NetNode.start();
  });
  afterAll(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  async function routed(bridge: string | null, address: string, gateway: string, mac: string | null) {
    const guest = await node.guest(bridge, `${address}/32`);
    await batch(onlyDefaultRoute(gateway, mac), guest.namespace);
    return guest;
  }

  test("three guests on one bridge with one address and one MAC each get their own answer at the same time", async () => {
    const bridge = await node.bridge();
    const guests: PortGuest[] = [];
    for (let count = 0; count < 3; count += 1) {
      const guest = await node.guest(bridge, "10.30.0.5/24");
      await batch(
        ["link set eth0 down", "link set eth0 address 02:00:00:00:00:05", "link set eth0 up"],
        guest.namespace,
      );
      await batch(onlyDefaultRoute("10.30.0.1", NOBODY), guest.namespace);
      guests.push(guest);
    }
    expect(await node.wanted(...guests.map((guest) => guest.on("blue")))).toEqual({});
    for (let round = 0; round < 5; round += 1) {
      const answers = await Promise.all(guests.flatMap((guest) => [askAs(guest), askAs(guest)]));
      expect(answers).toEqual(guests.flatMap((guest) => [self(guest), self(guest)]));
    }
  });

  test("a guest is served whatever its link is plugged into and whoever its gateway is", async () => {
    const bridge = await node.bridge();
    await node.mustRun("ip", ["address", "add", "10.30.0.1/24", "dev", bridge]);
    const machine = await node.guest(bridge, "10.30.0.2/24");
    const guests = {
      "on a bridge, by the bridge": await routed(bridge, "10.30.0.5", "10.30.0.1", null),
      "on a bridge, by another machine": await routed(bridge, "10.30.0.6", "10.30.0.2", null),
      "on a bridge, by nobody": await routed(bridge, "10.30.0.7", "10.30.0.3", NOBODY),
      "on nothing, by nobody": await routed(null, "10.30.0.5", "10.30.0.1", NOBODY),
      "on nothing, with 169.254/16 on link": await node.guest(null, "10.30.0.8/24"),
      "on a bridge, with 169.254/16 on link": await node.guest(bridge, "10.30.0.9/24"),
    };
    expect(await node.wanted(...Object.values(guests).map((guest) => guest.on("blue")))).toEqual({});
    for (const [place, guest] of Object.entries(guests)) expect(await askAs(guest), place).toBe(self(guest));
    expect(await askAs(machine, ["--max-time", "1"])).toBe("status 0");
  });

  test("a guest is served under any address, and one of the listener's own range gets nothing", async () => {
    const bridge = await node.bridge();
    const places: readonly (readonly [string, string | null])[] = [
      ["10.0.0.5", bridge],
      ["10.0.0.5", null],
      ["100.64.0.5", bridge],
      ["169.254.169.1", null],
      ["169.254.169.2", null],
      ["169.254.0.9", bridge],
      ["172.16.5.4", null],
      ["192.168.1.1", bridge],
      ["8.8.8.8", null],
    ];
    const guests: PortGuest[] = [];
    for (const [address, where] of places) guests.push(await routed(where, address, "10.99.99.1", NOBODY));
    const own = await routed(bridge, "240.0.0.1", "10.99.99.1", NOBODY);
    expect(await node.wanted(...[...guests, own].map((guest) => guest.on("odd")))).toEqual({});
    for (const guest of guests) expect(await askAs(guest)).toBe(self(guest));
    expect(await askAs(own, ["--max-time", "1"])).toBe("status 0");
    // Whoever takes another address than the recorded one is still itself.
    const [first] = guests as [PortGuest];
    await batch(["address add 10.0.0.66/32 dev eth0"], first.namespace);
    expect(await askAs(first, ["--interface", "10.0.0.66"])).toBe(self(first, "10.0.0.66"));
  });

  test("a guest with IPv6 alone is served, and two with one address are each themselves", async () => {
    const bridge = await node.bridge();
    const guests = [await node.guest(bridge, "10.30.0.5/24"), await node.guest(bridge, "10.30.0.6/24")];
    for (const guest of guests)
      await batch(
        [
          "address flush dev eth0",
          "link set eth0 down",
          "link set eth0 address 02:00:00:00:00:06",
          "link set eth0 addrgenmode none",
          "link set eth0 up",
          "address add fe80::1234/64 dev eth0 nodad",
        ],
        guest.namespace,
      );
    const wanted = guests.map((guest, at) => guest.on("six", { addresses: [`2001:db8::${at + 1}`] }));
    expect(await node.wanted(...wanted)).toEqual({});
    const url = "http://[fe80::a9fe:a9fe%25eth0]/";
    for (const guest of guests) {
      const { status, echo } = await guest.ask(url, ["-6", "-g", "--max-time", "10"]);
      expect(status).toBe(200);
      expect(echo.headers["x-holdfast-subject"]).toBe(self(guest).split(" ")[0]);
      expect(echo.headers["x-holdfast-source"]).toBe(wanted[guests.indexOf(guest)]?.addresses[0]);
      expect((await guest.run("ping", ["-6", "-c", "1", "-W", "5", "fe80::a9fe:a9fe%eth0"])).code).toBe(0);
    }
  });

  test("20 MB come through whole, with every offload, other ports refuse at once, ping is answered", async () => {
    const bridge = await node.bridge();
    const guest = await node.guest(bridge, "10.30.0.5/24");
    await node.wanted(guest.on("blue"));
    const server = await startPython(
      node.names.namespace,
      `import hashlib, socket, sys
data = hashlib.shake_256(b"seed").digest(20000000)
s = socket.create_server(("", 8080)); print(hashlib.sha256(data).hexdigest(), flush=True)
c = s.accept()[0]; c.sendall(data); c.close(); sys.stdin.read()`,
      [],
    );
    const { stdout } = await guest.python(`import hashlib, socket
s = socket.create_connection(("169.254.169.254", 8080), 10); h = hashlib.sha256()
while True:
    part = s.recv(1 << 20)
    if not part: break
    h.update(part)
print(h.hexdigest())`);
    expect((await server.stop()).trim()).toBe(stdout.trim());
    // curl's code for a refusal; 28 would be a timeout.
    expect((await guest.run("curl", ["-s", "--max-time", "5", "http://169.254.169.254:81/"])).code).toBe(7);
    expect((await guest.run("ping", ["-c", "1", "-W", "5", "169.254.169.254"])).code).toBe(0);
  });

  test("a tap is answered, with checksums that are right", async () => {
    const bridge = await node.bridge();
    const tap = `${bridge}t`.slice(-15);
    const guest = await startPython(node.space, TAP, [tap]);
    try {
      await node.mustRun("ip", ["link", "set", tap, "master", bridge, "up"]);
      const wanted = {
        network: "blue",
        containerId: "tap",
        interface: tap,
        netns: "/proc/self/ns/net",
        addresses: ["10.30.0.77"],
        mac: "02:00:00:00:00:77",
      };
      expect(await node.wanted(wanted)).toEqual({});
    } finally {
      expect((await guest.stop()).split("\n")[1]).toBe("020000000077 169.254.169.254 0x12 good");
    }
  });

  test("no other port, nor the bridge itself, sees a guest's request", async () => {
    const bridge = await node.bridge();
    const guest = await node.guest(bridge, "10.30.0.5/24");
    const [neighbour, uplink] = [await node.guest(bridge, "10.30.0.6/24"), await node.uplink(bridge)];
    await node.wanted(guest.on("blue"), neighbour.on("blue"));
    const listening = [
      await listenTo("eth0", neighbour.namespace),
      await listenTo("eth0", uplink.namespace),
      await listenTo(bridge, node.space),
    ];
    await batch(["neigh flush all"], guest.namespace);
    expect(await askAs(guest)).toBe(self(guest));
    // What anybody may see, to know that frames were seen at all.
    await guest.run("ping", ["-c", "1", "-W", "1", "10.30.0.99"]);
    for (const heard of listening) {
      const frames = await heard.stop();
      expect(frames.some((frame) => frame.includes("0a1e0063"))).toBe(true);
      expect(frames.filter((frame) => frame.includes("a9fea9fe"))).toEqual([]);
    }
  });

  test("a recreated link is not served until its guest is admitted again", async () => {
    const bridge = await node.bridge();
    const victim = await node.guest(bridge, "10.30.0.5/24");
    expect(await node.wanted(victim.on("blue"))).toEqual({});
    await node.mustRun("ip", ["link", "delete", victim.port]);
    await batch(
      [
        `link add ${victim.port} type veth peer name eth1 address ${victim.mac} netns ${victim.namespace}`,
        `link set ${victim.port} master ${bridge} up`,
      ],
      node.space ?? undefined,
    );
    const heard = await listenTo("eth0", node.names.namespace);
    await batch(
      ["link set eth1 up", "address add 10.30.0.5/24 dev eth1", "route add 169.254.0.0/16 dev eth1"],
      victim.namespace,
    );
    await batch([`neigh replace 169.254.169.254 lladdr ${NOBODY} dev eth1`], victim.namespace);
    expect(await askAs(victim, ["--max-time", "2"])).toBe("status 0");
    expect(await heard.stop()).toEqual([]);
    await until(
      () => Object.values(node.problems()).some((problem) => problem.startsWith("pending")),
      () => `a report of the port: ${node.log}`,
    );
    expect(await node.wanted(victim.on("blue", { containerId: "other", interface: "eth1" }))).toEqual({});
    await batch(["neigh flush all nud permanent", "neigh flush all"], victim.namespace);
    await run("ip", ["-n", victim.namespace, "neigh", "del", "169.254.169.254", "dev", "eth1"]);
    expect(await askAs(victim)).toBe("container/other/eth1 10.30.0.5");
  });
});
