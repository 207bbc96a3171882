import { listenTo } from "./frames.ts";
import type { PortGuest } from "./node.ts";

/** The two addresses as they stand in a frame. */
const CLAIMED = ["fe8000000000000000000000a9fea9fe", "fd000ec2000000000000000000000254"];

/**
 * Sends one frame of each kind: every message that claims or asks for an IPv6 address, bare and in what may hide it.
 * Ends with one that names nobody's address, to see that frames arrive at all.
 */
const SEND = `
import socket, struct, sys, time
mac = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
to, own = bytes.fromhex(sys.argv[1].replace(":", "")), "fe80::1234"
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("eth0", 0))
a = lambda text: socket.inet_pton(socket.AF_INET6, text)
def checksum(src, dst, body):
    data = a(src) + a(dst) + struct.pack("!II", len(body), 58) + body
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
def icmp(kind, src, dst, rest):
    body = struct.pack("!BBH", kind, 0, 0) + rest
    return body[:2] + struct.pack("!H", checksum(src, dst, body)) + body[4:]
def ip6(src, dst, body, header=58): return struct.pack("!IHBB", 6 << 28, len(body), header, 255) + a(src) + a(dst) + body
option = lambda kind: struct.pack("!BB", kind, 1) + mac
def messages(claimed):
    yield icmp(136, own, "ff02::1", b"\\x20\\0\\0\\0" + a(claimed) + option(2)), own, "ff02::1"
    yield icmp(136, own, "fe80::5", b"\\x60\\0\\0\\0" + a(claimed) + option(2)), own, "fe80::5"
    yield icmp(135, claimed, "fe80::5", bytes(4) + a("fe80::5") + option(1)), claimed, "fe80::5"
    yield icmp(135, "::", "ff02::1:fffe:a9fe", bytes(4) + a(claimed)), "::", "ff02::1:fffe:a9fe"
    yield icmp(135, own, "ff02::1", bytes(4) + a(claimed) + option(1)), own, "ff02::1"
    yield icmp(134, claimed, "ff02::1", bytes(12) + option(1)), claimed, "ff02::1"
    yield icmp(137, own, "fe80::5", bytes(4) + a(claimed) + a("2001:db8::1") + option(2)), own, "fe80::5"
    yield icmp(137, own, "fe80::5", bytes(4) + a(own) + a(claimed) + option(2)), own, "fe80::5"
    yield icmp(128, own, claimed, bytes(4)), own, claimed
    yield icmp(129, claimed, "fe80::5", bytes(4)), claimed, "fe80::5"
hop = lambda body, header: (bytes([header, 0, 1, 4, 0, 0, 0, 0]) + body)
def wrapped(message, src, dst):
    yield ip6(src, dst, message)
    yield ip6(src, dst, hop(message, 58), 0)
    yield ip6(src, dst, hop(hop(hop(message, 58), 60), 60), 60)
    yield ip6(src, dst, struct.pack("!BBHI", 58, 0, 0, 7) + message, 44)
    yield ip6(src, dst, hop(struct.pack("!BBHI", 58, 0, 0, 7) + message, 44), 60)
sent = 0
for claimed in ["fe80::a9fe:a9fe", "fd00:ec2::254"]:
    for message in messages(claimed):
        for packet in wrapped(*message):
            bare = b"\\x86\\xdd" + packet
            snap = b"\\xaa\\xaa\\x03\\0\\0\\0" + bare
            for tags in [b"", b"\\x81\\0\\0\\0", b"\\x81\\0\\0\\0" * 2, b"\\x88\\xa8\\0\\0\\x81\\0\\0\\0"]:
                s.send(to + mac + tags + bare); sent += 1
            # No queue on the way is filled.
            time.sleep(0.002)
            s.send(to + mac + struct.pack("!H", len(snap)) + snap); sent += 1
s.send(to + mac + b"\\x86\\xdd" + ip6("fe80::1234", "fe80::77", icmp(136, "fe80::1234", "fe80::77", bytes(4) + a("fe80::77") + option(2))))
print(sent)
`;

/** What arrives at one guest of all that another one sends it. */
export async function arrivingClaims(
  to: PortGuest,
  from: PortGuest,
): Promise<{ sent: number; claims: readonly string[]; others: readonly string[] }> {
  const heard = await listenTo("eth0", to.namespace);
  const { stdout, stderr } = await from.python(SEND, [to.mac]);
  if (stderr !== "") throw new Error(stderr);
  const own = from.mac.replaceAll(":", "");
  const frames = (await heard.stop()).filter((frame) => frame.slice(12, 24) === own);
  return {
    sent: Number(stdout),
    claims: frames.filter((frame) => CLAIMED.some((hex) => frame.includes(hex))),
    others: frames.filter((frame) => frame.endsWith(`0201${own}`) && frame.includes("00000077")),
  };
}
