import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { run } from "../harness/daemon.ts";
import { whyNotReal } from "../network/containers.ts";
import { hexOf, listenTo, sendArp } from "./frames.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { startPython } from "./python-process.ts";
import { askAs, self } from "./who.ts";

const METADATA = "169.254.169.254";
const A = "10.30.0.5";
const B = "10.30.0.6";
/** Towards guests, of the listener's ends, and of its neighbour that is nobody. */
const LISTENER_MACS = ["02:6d:64:00:00:01", "02:6d:64:00:00:02", "02:6d:64:00:00:03"];

/** Floods with frames from these MACs until its input ends. */
const FLOOD = `
import socket, sys, threading
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("eth0", 0))
frames = [bytes.fromhex("02deadbeef01" + mac.replace(":", "") + "88b5") + bytes(46) for mac in sys.argv[1:]]
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
print("flooding", flush=True)
while not done.is_set():
    for frame in frames: s.send(frame)
`;

describe.skipIf(whyNotReal() !== null)("neighbours of a guest", () => {
  let node: NetNode;
  let bridge: string;
  let a: PortGuest;
  let b: PortGuest;
  let stranger: PortGuest;
  beforeAll(async () => {
    node = await NetNode.start();
    bridge = await node.bridge();
    a = await node.guest(bridge, `${A}/24`);
    b = await node.guest(bridge, `${B}/24`);
    stranger = await node.guest(bridge, "10.30.0.9/24");
    expect(await node.wanted(a.on("blue"), b.on("blue"))).toEqual({});
  });
  afterAll(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  test("get their own answer even with its address and MAC", async () => {
    await batch(
      [
        "link set eth0 down",
        `link set eth0 address ${a.mac}`,
        "link set eth0 up",
        `address add ${A}/32 dev eth0`,
        "route replace 169.254.0.0/16 dev eth0 scope link",
      ],
      b.namespace,
    );
    const before = node.echoes;
    // What it sends is taken as its own; what it is answered goes to the MAC that it was attached with.
    const got = await askAs(b, ["--interface", A, "--max-time", "2"]);
    expect(["status 0", self(b, A)]).toContain(got);
    for (let count = 0; count < 10; count += 1) expect(await askAs(a)).toBe(self(a));
    expect(node.echoes).toBeGreaterThan(before);
    await batch(
      ["link set eth0 down", `link set eth0 address ${b.mac}`, "link set eth0 up", `address del ${A}/32 dev eth0`],
      b.namespace,
    );
    await batch(["route replace 169.254.0.0/16 dev eth0 scope link"], b.namespace);
    expect(await askAs(b)).toBe(self(b));
  });

  test("without a record, or whose record was removed, are not answered", async () => {
    expect(await askAs(stranger, ["--max-time", "1"])).toBe("status 0");
    await node.wanted(a.on("blue"));
    expect(await askAs(b, ["--max-time", "1"])).toBe("status 0");
    expect(await askAs(a)).toBe(self(a));
    await node.wanted(a.on("blue"), b.on("blue"));
    expect(await askAs(b)).toBe(self(b));
  });

  test("lose it nothing by flooding the bridge with its MAC and with those of the listener", async () => {
    const floods = [
      await startPython(b.namespace, FLOOD, [a.mac, ...LISTENER_MACS]),
      await startPython(stranger.namespace, FLOOD, [a.mac, ...LISTENER_MACS]),
    ];
    const answers: string[] = [];
    for (let count = 0; count < 20; count += 1) answers.push(await askAs(a));
    for (const flood of floods) await flood.stop();
    expect(answers).toEqual(Array(20).fill(self(a)));
  });

  test("are not believed when they claim 169.254.169.254, served or not, however they encapsulate it", async () => {
    for (const liar of [b, stranger]) {
      const heard = await listenTo("eth0", a.namespace);
      const lies = sendArp(
        liar,
        [0, 1, 2].flatMap((tags) =>
          [false, true].flatMap((snap) => [
            { operation: "reply" as const, senderAddress: METADATA, targetAddress: A, to: a.mac, tags, snap },
            { operation: "request" as const, senderAddress: METADATA, targetAddress: A, tags, snap },
            { operation: "request" as const, senderAddress: METADATA, targetAddress: METADATA, tags, snap },
          ]),
        ),
        3,
      );
      for (let count = 0; count < 8; count += 1) {
        await batch(["neigh flush all"], a.namespace);
        expect(await askAs(a)).toBe(self(a));
      }
      await lies;
      const shown = await run("ip", ["-n", a.namespace, "-json", "neigh", "show", METADATA]);
      expect((JSON.parse(shown.stdout) as { lladdr: string }[])[0]?.lladdr).toBe(LISTENER_MACS[0]);
      const from = hexOf(liar.mac);
      const frames = (await heard.stop()).filter((frame) => frame.slice(12, 24) === from);
      expect(frames.filter((frame) => frame.includes(hexOf(METADATA)))).toEqual([]);
    }
  });

  test("get no packet through to it that claims to come from 169.254.169.254", async () => {
    const send = `
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("eth0", 0))
mac = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
to = bytes.fromhex(sys.argv[1].replace(":", ""))
udp = struct.pack("!HHHH", 80, 80, 12, 0) + b"lies"
for source in ["169.254.169.254", "10.30.0.77"]:
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton("${A}"))
    packet = b"\\x08\\0" + head + udp
    snap = struct.pack("!H", len(packet) + 6) + b"\\xaa\\xaa\\x03\\0\\0\\0" + packet
    for tags in [b"", b"\\x81\\0\\0\\0", b"\\x81\\0\\0\\0" * 2, b"\\x88\\xa8\\0\\0\\x81\\0\\0\\0"]: s.send(to + mac + tags + packet)
    s.send(to + mac + snap)`;
    for (const liar of [b, stranger]) {
      // A neighbour that flooded with its MAC had the bridge learn it at another port; what it sends itself puts that
      // right.
      await sendArp(a, [{ operation: "request", senderAddress: A, targetAddress: "10.30.0.99" }]);
      const heard = await listenTo("eth0", a.namespace);
      expect((await liar.python(send, [a.mac])).stderr).toBe("");
      const frames = (await heard.stop()).filter((frame) => frame.includes("6c696573"));
      expect(frames.filter((frame) => frame.includes(hexOf(METADATA)))).toEqual([]);
      expect(frames.length).toBeGreaterThan(0);
    }
  });

  test("reach nothing by sending to the address of its port", async () => {
    const shown = await run("nft", ["-j", "list", "map", "netdev", node.names.table, "address"]);
    const [, found] = (JSON.parse(shown.stdout) as { nftables: { map: { elem: [string, string][] } }[] }).nftables;
    const addresses = found?.map.elem.map(([, address]) => address) ?? [];
    expect(addresses).toHaveLength(2);
    const heard = await listenTo("eth0", node.names.namespace);
    const before = node.echoes;
    for (const liar of [b, stranger]) {
      for (const address of addresses) {
        for (const mac of LISTENER_MACS) {
          await batch(
            [
              "neigh replace 10.30.0.1 lladdr MAC dev eth0 nud permanent".replace("MAC", mac),
              `route replace ${address}/32 via 10.30.0.1 dev eth0`,
            ],
            liar.namespace,
          );
          expect((await liar.ask(`http://${address}/`, ["--max-time", "0.5"])).status).toBe(0);
        }
      }
    }
    expect(await heard.stop()).toEqual([]);
    expect(node.echoes).toBe(before);
  });

  test("get the right answers when they probe for a free address, and the host is not answered", async () => {
    const heard = await listenTo("eth0", a.namespace);
    const probe = (targetAddress: string) =>
      sendArp(a, [{ operation: "request", senderAddress: "0.0.0.0", targetAddress }]);
    const replies = (frames: readonly string[]) => frames.filter((frame) => frame.slice(40, 44) === "0002");
    await probe(A);
    await probe("10.30.0.77");
    expect(replies(await heard.stop())).toEqual([]);
    for (const taken of [METADATA, B]) {
      const answers = await listenTo("eth0", a.namespace);
      await probe(taken);
      expect(replies(await answers.stop()).map((frame) => frame.slice(56, 64))).toEqual([hexOf(taken)]);
    }
    await batch([`address add 10.30.0.1/24 dev ${bridge}`], node.space ?? undefined);
    const asHost = ["-s", "--max-time", "1", "--interface", bridge, `http://${METADATA}/`];
    expect((await node.run("curl", asHost)).code).not.toBe(0);
    expect((await node.run("ping", ["-c", "1", "-W", "2", "-I", bridge, A])).code).toBe(0);
  });

  test("cannot get another guest's answer by headers of their own", async () => {
    const names = [LISTENER_HEADERS.subject, LISTENER_HEADERS.source, LISTENER_HEADERS.network];
    const forged = names.flatMap((name) => ["-H", `${name}: container/container-${a.namespace}/eth0`]);
    expect(await askAs(b, forged)).toBe(self(b));
  });
});
