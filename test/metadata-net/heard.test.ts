import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { whyNotReal } from "../network/containers.ts";
import { listenTo } from "./frames.ts";
import { NetNode, type PortGuest } from "./node.ts";
import { askAs, self } from "./who.ts";

const SERVICE_MAC = "02:6d:64:00:00:01";
const SERVICE_6 = "fe80::a9fe:a9fe";

/**
 * Sends what a guest has no use for: datagrams, errors and other messages of ICMP, among them "fragmentation needed"
 * for an answer that the listener never gave.
 */
const SEND_4 = `
import socket, struct
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("eth0", 0))
own = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
to = bytes.fromhex("${SERVICE_MAC}".replace(":", ""))
def total(data):
    value = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while value >> 16: value = (value & 0xffff) + (value >> 16)
    return ~value & 0xffff
def ip(protocol, body, offset=0, src="10.30.0.5", dst="169.254.169.254"):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 7, offset, 64, protocol, 0, socket.inet_aton(src), socket.inet_aton(dst))
    return head[:10] + struct.pack("!H", total(head)) + head[12:] + body
def icmp(kind, code, rest):
    body = struct.pack("!BBH", kind, code, 0) + rest
    return body[:2] + struct.pack("!H", total(body)) + body[4:]
inner = ip(1, icmp(0, 0, bytes(8)), src="169.254.169.254", dst="10.30.0.6")
for packet in [
    ip(1, icmp(3, 4, struct.pack("!HH", 0, 552) + inner)), ip(1, icmp(3, 1, bytes(4) + inner)), ip(1, icmp(5, 1, bytes(4) + inner)),
    ip(1, icmp(0, 0, bytes(8))), ip(1, icmp(13, 0, bytes(16))), ip(1, bytes(64), 8), ip(17, struct.pack("!HHHH", 80, 80, 12, 0) + b"lies"),
    ip(132, bytes(16)), ip(2, bytes(8)),
]: s.send(to + own + b"\\x08\\0" + packet)
`;

/**
 * Solicits the service from addresses that nobody has, and prints how many were answered, how many of these wrongly.
 */
const SOLICIT = `
import os, socket, struct, sys, time
count, option = int(sys.argv[1]), sys.argv[2] == "option"
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86dd)); s.bind(("eth0", 0)); s.settimeout(1)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
own = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
service = socket.inet_pton(socket.AF_INET6, "${SERVICE_6}")
def total(src, dst, body):
    data = src + dst + struct.pack("!II", len(body), 58) + body
    value = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while value >> 16: value = (value & 0xffff) + (value >> 16)
    return ~value & 0xffff
def message(src, dst, body): return struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + src + dst + body[:2] + struct.pack("!H", total(src, dst, body)) + body[4:]
groups = [(bytes.fromhex("3333fffea9fe"), socket.inet_pton(socket.AF_INET6, "ff02::1:fffe:a9fe")), (bytes.fromhex("026d64000001"), service)]
asked, good, bad = set(), set(), []
for number in range(count):
    src = bytes.fromhex("fe80000000000000") + os.urandom(8)
    to, dst = groups[0 if option else number % 2]
    body = struct.pack("!BBHI", 135, 0, 0, 0) + service + ((b"\\1\\1" + own) if option else b"")
    asked.add(src); s.send(to + own + b"\\x86\\xdd" + message(src, dst, body)); time.sleep(0.0005)
end = time.monotonic() + 2
while len(good) < count and time.monotonic() < end:
    try: frame, (_, _, kind, *_) = s.recvfrom(2048)
    except OSError: break
    if kind == 4 or frame[20:21] != b"\\x3a" or frame[54] != 136: continue
    src, dst, body = frame[22:38], frame[38:54], frame[54:]
    expected = bytes.fromhex("88000000" + "60000000") + service + (bytes.fromhex("0201" + "026d64000001") if option else b"")
    right = frame[:12] == own + bytes.fromhex("026d64000001") and src == service and dst in asked and frame[21] == 255
    if right and total(src, dst, body) == 0 and body[:2] + b"\\0\\0" + body[4:] == expected: good.add(dst)
    else: bad.append(frame.hex())
print(len(good), bad[:1])
`;

const DRIVERS = whyNotReal() === null ? ["auto", "bridge"] : [];

describe.each(DRIVERS)("traffic of guests that reaches the listener, driver %s", (driver) => {
  let node: NetNode;
  let a: PortGuest;
  beforeAll(async () => {
    node = await NetNode.start(["--driver", driver]);
    a = await node.guest(await node.bridge(), "10.30.0.5/24");
    expect(await node.wanted(a.on("blue"))).toEqual({});
  });
  afterAll(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  const inside = (...words: readonly string[]) => run("ip", ["netns", "exec", node.names.namespace, ...words]);
  const doors = async () =>
    [...(await inside("ip", "-o", "link")).stdout.matchAll(/^\d+: ([^:@ ]+)/gm)]
      .map(([, name]) => name as string)
      .filter((name) => name !== "lo");

  test("only TCP and echo requests reach it over IPv4, so that no forged error changes a path's MTU", async () => {
    const [door] = await doors();
    const heard = await listenTo(door as string, node.names.namespace);
    const { stderr } = await a.python(SEND_4);
    expect(stderr).toBe("");
    expect((await a.run("ping", ["-c1", "-W2", "169.254.169.254"])).code).toBe(0);
    expect(await askAs(a)).toBe(self(a));
    const protocols = (await heard.stop())
      .filter((frame) => frame.slice(24, 28) === "0800")
      .map((frame) => `${frame.slice(46, 48)}${frame.slice(46, 48) === "01" ? frame.slice(68, 70) : ""}`);
    expect([...new Set(protocols)].sort()).toEqual(["0108", "06"]);
    const { stdout } = await inside("ip", "route", "show", "cache");
    expect(stdout).not.toContain("mtu");
  });

  test("ICMP errors are dropped in the namespace, even past a driver's rules", async () => {
    const { stdout } = await inside("nft", "list", "chain", "inet", "holdfast_metadata", "heard");
    expect(stdout).toContain("policy drop");
    expect(stdout.match(/ accept/g)).toHaveLength(3);
    expect(stdout.match(/echo-request accept/g)).toHaveLength(2);
  });

  test.skipIf(driver === "bridge")(
    "thousands of neighbour solicitations are answered and create no neighbour entries",
    async () => {
      const before = (await inside("ip", "-6", "-o", "neigh", "show", "nud", "all")).stdout.split("\n").length;
      const frames: string[] = [];
      for (const [form, count] of [
        ["option", 1500],
        ["bare", 300],
      ] as const) {
        const { stdout, stderr } = await a.python(SOLICIT, [String(count), form]);
        expect(`${stdout}${stderr}`, form).toBe(`${count} []\n`);
      }
      expect(frames).toEqual([]);
      const after = (await inside("ip", "-6", "-o", "neigh", "show", "nud", "all")).stdout;
      expect(after.split("\n").length, after).toBe(before);
      const { stdout } = await a.run("ping", ["-6", "-c1", "-W2", `${SERVICE_6}%eth0`]);
      expect(stdout).toContain("1 received");
    },
  );

  test("the memory and sockets that one guest can hold are bounded", async () => {
    const read = async (key: string) =>
      (await inside("cat", `/proc/sys/net/ipv4/${key}`)).stdout.trim().split(/\s+/).map(Number);
    expect((await read("tcp_orphan_retries"))[0]).toBeGreaterThan(0);
    expect((await read("tcp_orphan_retries"))[0]).toBeLessThan(8);
    expect((await read("tcp_wmem"))[2]).toBeLessThanOrEqual(1 << 18);
    expect((await read("tcp_rmem"))[2]).toBeLessThanOrEqual(1 << 18);
  });
});
