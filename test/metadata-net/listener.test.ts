import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { IDENTITY_PREFIXES } from "../../guests/haproxy/client-headers.ts";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { METADATA_NET_SETTINGS } from "../../platform/settings/metadata-net.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { batch, type EchoAnswer, NetNode, type PortGuest } from "./node.ts";
import { startPython } from "./python-process.ts";

const {
  network: NETWORK,
  subject: SUBJECT,
  source: SOURCE,
  claimed: CLAIMED,
  clientForwarded: FORWARDED,
} = LISTENER_HEADERS;

/** Who the request came from, as the metadata server is told. */
function who({ status, body, echo }: EchoAnswer): string {
  return status === 200 ? `${echo.headers[NETWORK]} ${echo.headers[SOURCE]}` : `status ${status}: ${body}`;
}

/**
 * Opens a thousand connections that ask nothing, and holds them until no more than 64 of them are left and its input
 * has ended.
 */
const HOARD = `
import socket, sys, time
held = []
for _ in range(1000):
    s = socket.socket(); s.setblocking(False)
    try: s.connect(("169.254.169.254", 80))
    except BlockingIOError: pass
    held.append(s)
print("held", flush=True)
def alive(s):
    try: return s.recv(1) != b""
    except BlockingIOError: return True
    except OSError: return False
while len(held) > 64: held = [s for s in held if alive(s)]; time.sleep(0.1)
print("few", flush=True)
sys.stdin.read()
`;

describe.skipIf(whyNotReal() !== null)("what a listener lets through", () => {
  let node: NetNode;
  let bridge: string;
  let vm: PortGuest;
  beforeAll(async () => {
    node = await NetNode.start();
    bridge = await node.bridge();
    vm = await node.guest(bridge, "10.30.0.5/24");
    expect(await node.wanted(vm.on("blue"))).toEqual({});
  });
  afterAll(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  test("network, subject and the recorded address arrive, and what the guest calls itself beside them", async () => {
    const first = await vm.ask("/openstack?a=%20b");
    expect(first.status, node.log).toBe(200);
    expect(first.echo).toMatchObject({ method: "GET", url: "/openstack?a=%20b" });
    expect(first.echo.headers).toMatchObject({
      [NETWORK]: "blue",
      [SUBJECT]: `container/container-${vm.namespace}/eth0`,
      [SOURCE]: "10.30.0.5",
      [CLAIMED]: "10.30.0.5",
    });
    expect(first.echo.headers[FORWARDED]).toBeUndefined();
    const liar = await node.guest(bridge, "10.30.0.9/24");
    expect(await node.wanted(vm.on("blue"), liar.on("blue", { addresses: ["fd00::7", "10.30.0.7"] }))).toEqual({});
    const second = await liar.ask("/", ["-X", "POST", "-d", "0123456789"]);
    expect(second.echo).toMatchObject({ method: "POST", bodyBytes: 10 });
    expect(second.echo.headers).toMatchObject({ [SOURCE]: "10.30.0.7", [CLAIMED]: "10.30.0.9" });
  });

  test("a guest is answered by IPv6 as by IPv4", async () => {
    await until(async () => {
      const { stdout } = await vm.run("curl", ["-gs", "--max-time", "3", "http://[fe80::a9fe:a9fe%25eth0]/six"]);
      return stdout.includes('"url":"/six"') && stdout.includes(`"${SOURCE}":"10.30.0.5"`);
    }, "an answer");
  });

  test("a guest of an odd interface name is named so that the server can tell", async () => {
    const odd = await node.guest(null, "10.30.0.8/24");
    await batch(["link set eth0 down", "link set eth0 name a+b", "link set a+b up"], odd.namespace);
    await batch(["route add 169.254.0.0/16 dev a+b"], odd.namespace);
    expect(await node.wanted(vm.on("blue"), odd.on("blue", { interface: "a+b" }))).toEqual({});
    expect((await odd.ask("/")).echo.headers[SUBJECT]).toBe(`container/container-${odd.namespace}/a%2Bb`);
  });

  test("a guest cannot claim an identity, however it spells the header", async () => {
    const names = [
      ...IDENTITY_PREFIXES.map((prefix) => (prefix.endsWith("-") ? `${prefix}network-id` : prefix)),
      ...IDENTITY_PREFIXES.map((prefix) => `${prefix}-signature`),
      ...Object.values(LISTENER_HEADERS),
      "x-forwarded-for",
    ];
    const spellings = [
      (name: string) => name,
      (name: string) => name.toUpperCase(),
      (name: string) => name.replaceAll("-", "_"),
      (name: string) => name.replaceAll("-", "."),
      (name: string) => name.replace("-", "_").toUpperCase(),
      (name: string) => name.replaceAll("-", "~"),
      (name: string) => name.replaceAll("-", "'"),
    ];
    for (const spell of spellings) {
      const lines = names.flatMap((name) => [`${spell(name)}: forged`, `${spell(name)}: forged again`]);
      const answer = await vm.ask(
        "/",
        lines.flatMap((line) => ["-H", line]),
      );
      expect(answer.status).toBe(200);
      expect(answer.body).not.toContain("forged");
      expect(who(answer)).toBe("blue 10.30.0.5");
      expect(answer.echo.headers[FORWARDED]).toBe("1");
      const ours = answer.echo.rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
      expect(ours.filter((name) => name.startsWith("x-holdfast-")).sort()).toEqual(
        [CLAIMED, FORWARDED, NETWORK, SOURCE, SUBJECT].sort(),
      );
    }
    const token = await vm.ask("/", ["-H", "X-aws-ec2-metadata-token: abc", "-H", "Metadata-Flavor: x"]);
    expect(token.echo.headers).toMatchObject({ "x-aws-ec2-metadata-token": "abc", "metadata-flavor": "x" });
  });

  test("a request to the listener's own address or name is answered, whatever its request line", async () => {
    const request = (host: string, target = "/a?b") =>
      vm.raw(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    for (const host of [
      "169.254.169.254",
      "169.254.169.254:80",
      "10.30.0.254",
      "[fe80::a9fe:a9fe%25eth0]",
      "instance-data",
      "Metadata.Google.Internal.",
      "",
    ])
      expect(await request(host), host).toContain('"url":"/a?b"');
    expect(await vm.raw("GET /a?b HTTP/1.0\r\n\r\n")).toContain('"url":"/a?b"');
    const absolute = await request("10.30.0.9", "http://10.30.0.9/a?b");
    expect(absolute).toContain('"url":"/a?b"');
    expect(absolute).toContain(`"${NETWORK}":"blue"`);
  });

  test("a host name that a foreign name server can point here is refused, on every tree and for tokens", async () => {
    const before = node.echoes;
    for (const host of [
      "rebind.example",
      "rebind.example:80",
      "169.254.169.254.rebind.example",
      "a.b.",
      "x.internal.example",
    ])
      for (const line of ["GET /latest/meta-data/", "PUT /latest/api/token", `GET http://${host}/openstack`]) {
        const got = await vm.raw(`${line} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
        expect(got, `${line}, ${host}`).toMatch(/^HTTP\/1.1 403 [\s\S]*Please ask http:\/\/169\.254\.169\.254/);
      }
    expect(node.echoes).toBe(before);
  });

  test("nothing but TCP and ICMP is answered, and nothing that has another source MAC than drivers give", async () => {
    const sent = await vm.python(`
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("169.254.169.254", 80)); s.settimeout(1)
s.send(b"x")
try: print(s.recv(10))
except OSError as e: print(type(e).__name__)
`);
    expect(sent.stdout).toBe("TimeoutError\n");
    expect((await vm.run("ping", ["-c1", "-W2", "169.254.169.254"])).code).toBe(0);
    const { tag } = node.names;
    // Past all rules, straight into the door.
    const { address } = JSON.parse((await node.mustRun("cat", [`${node.runDir}/ports.json`])).stdout).ports[
      `blue container-${vm.namespace} eth0`
    ];
    const thief = await node.run("python3", ["-c", DOOR_THIEF, `hfm${tag}main`, String(address)]);
    expect(thief.stdout, thief.stderr).toBe("nothing\n");
  });

  test("a request that is ambiguous about its host is refused", async () => {
    const twoHosts = await vm.raw("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    expect(twoHosts).toMatch(/^HTTP\/1.1 400 /);
    const mixed = await vm.raw("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n");
    expect(mixed).toMatch(/^HTTP\/1.1 400 /);
    for (const line of ["CONNECT other:80 HTTP/1.1\r\nHost: other:80", "OPTIONS * HTTP/1.1\r\nHost: a"])
      expect(await vm.raw(`${line}\r\n\r\n`, 300)).toMatch(/^HTTP\/1.1 400 /);
    const path = await vm.ask("//openstack/../latest/./x");
    expect(path.echo.url).toBe("//openstack/../latest/./x");
  });

  test("a request cannot be smuggled in another", async () => {
    const hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    const attempts = {
      "length and chunks": `POST /shown HTTP/1.1\r\nHost: a\r\nContent-Length: ${hidden.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`,
      "two lengths": `POST /shown HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef${hidden}`,
      "length list": `POST /shown HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 6\r\n\r\nabcdef${hidden}`,
      "chunks in disguise": `POST /shown HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${hidden}`,
      "chunks twice": `POST /shown HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${hidden}`,
      "blank before the colon": `POST /shown HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\n${hidden}`,
      "bare line feed in a name": `GET /shown HTTP/1.1\r\nHost: a\r\nX: y\n${NETWORK}: other\r\n\r\n`,
      "a zero byte": `GET /shown HTTP/1.1\r\nHost: a\r\nX: y\0${NETWORK}: other\r\n\r\n`,
      "chunk size too large": `POST /shown HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n${hidden}`,
    };
    for (const [name, bytes] of Object.entries(attempts)) {
      const got = await vm.raw(bytes, 300);
      expect(got, name).toMatch(/^HTTP\/1.1 (200|400|408|413|422|501) /);
      // Whoever asks comes from the same network and address, and nothing that is part of one request is another.
      expect(got, name).not.toContain(`"${NETWORK}":"other"`);
      if (name !== "length and chunks") expect(got, name).not.toContain('"url":"/hidden"');
    }
  });

  test("a request that is too large is refused early, with a plain sentence", async () => {
    const large = "x".repeat(10_000_000);
    const header = await vm.raw(`GET / HTTP/1.1\r\nHost: a\r\nX-Large: ${large}\r\n\r\n`, 3_000);
    // Not 408, which one gets that is heard until it has taken too long.
    expect(header).toMatch(/^HTTP\/1.1 4(?!08)\d\d /);
    const body = await vm.raw(
      `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n${"x".repeat(20_000)}`,
      1_000,
    );
    expect(body).toMatch(/^HTTP\/1.1 413 [\s\S]*text\/plain[\s\S]*too large/);
    const chunk = `4000\r\n${"x".repeat(0x4000)}\r\n`;
    const chunked = await vm.raw(
      `POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(8)}0\r\n\r\n`,
      1_000,
    );
    expect(chunked).toMatch(/^HTTP\/1.1 413 /);
    const small = await vm.raw(
      "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
      1_000,
    );
    expect(small).toContain('"bodyBytes":5');
  });

  test("a request that does not end is given up after five seconds, and delays nobody", async () => {
    const slow = vm.raw("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
    const slowBody = vm.raw("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc");
    expect((await vm.ask("/")).status).toBe(200);
    expect(await slow).toMatch(/^HTTP\/1.1 408 /);
    expect(await slowBody).toMatch(/^HTTP\/1.1 408 [\s\S]*took too long/);
    const config = (await node.mustRun("cat", [`${node.runDir}/haproxy.cfg`])).stdout;
    expect(config).toMatch(/timeout http-request 5000ms/);
  });

  test("a thousand idle connections of one VM do not delay another VM", async () => {
    const other = await node.guest(bridge, "10.30.0.7/24");
    await node.wanted(vm.on("blue"), other.on("blue"));
    const hoard = await startPython(vm.namespace, HOARD, []);
    for (let count = 0; count < 20; count += 1) {
      const answer = await other.ask("/");
      expect(who(answer)).toBe("blue 10.30.0.7");
    }
    expect(await hoard.stop()).toBe("held\nfew\n");
    await until(async () => (await vm.ask("/")).status === 200, "the hoarder is served again");
  });
});

describe.skipIf(whyNotReal() !== null)("several guests", () => {
  test("of one address are told apart by their ports, on one bridge, on two and on none", async () => {
    const node = await NetNode.start();
    try {
      const bridges = [await node.bridge(), await node.bridge()] as const;
      const guests = [
        await node.guest(bridges[0], "10.30.0.5/24"),
        await node.guest(bridges[0], "10.30.0.5/24"),
        await node.guest(bridges[1], "10.30.0.5/24"),
        await node.guest(null, "10.30.0.5/24"),
      ];
      expect(await node.wanted(...guests.map((guest, at) => guest.on(`n${at}`)))).toEqual({});
      for (let count = 0; count < 5; count += 1) {
        const answers = await Promise.all(guests.map((guest) => guest.ask("/")));
        expect(answers.map(who)).toEqual(guests.map((_, at) => `n${at} 10.30.0.5`));
      }
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });

  test("have a request limit by port, whatever they call themselves, which refuses with a plain sentence and ends with its period", async () => {
    const node = await NetNode.start(["--rate-limit", "60"]);
    try {
      const vm = await node.guest(null, "10.30.0.5/24");
      const other = await node.guest(null, "10.30.0.5/24");
      await batch(["address add 10.30.0.6/24 dev eth0"], vm.namespace);
      expect(await node.wanted(vm.on("blue"), other.on("blue"))).toEqual({});
      const many = await vm.python(`
import http.client, time
cs = [http.client.HTTPConnection("169.254.169.254", 80, timeout=5, source_address=(a, 0)) for a in ("10.30.0.5", "10.30.0.6")]
got = []
def one(c):
    c.request("GET", "/"); r = c.getresponse(); b = r.read()
    got.append((r.status, r.getheader("Retry-After"), b.decode() if r.status == 429 else ""))
    return r.status
for n in range(70): one(cs[n % 2])
print([g[0] for g in got].count(200), got[-1])
end = time.monotonic() + 20
while one(cs[0]) != 200 and time.monotonic() < end: time.sleep(0.1)
print(got[-1][0])
`);
      expect(many.stdout).toBe("60 (429, '10', 'Too many requests. Please try again later.\\n')\n200\n");
      expect((await other.ask("/")).status).toBe(200);
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });

  test("may boot twice within the limit that there is by default", async () => {
    const node = await NetNode.start(["--rate-limit", String(METADATA_NET_SETTINGS.rateLimit.default)]);
    try {
      const vm = await node.guest(null, "10.30.0.5/24");
      expect(await node.wanted(vm.on("blue"))).toEqual({});
      const boots = await vm.run("curl", [
        "-s",
        "-w",
        "%{http_code}\n",
        "-o",
        "/dev/null",
        "http://169.254.169.254/[1-56]",
      ]);
      expect(new Set(boots.stdout.trim().split("\n"))).toEqual(new Set(["200"]));
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });
});

/** Sends a SYN into the door with a source MAC of its own, and says whether anything is answered. */
const DOOR_THIEF = `
import socket, struct, sys
link, d = sys.argv[1], struct.pack("!I", int(sys.argv[2]))
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)); s.bind((link, 0)); s.settimeout(1)
def sum16(b):
    t = sum(struct.unpack("!%dH" % (len(b) // 2), b)); t = (t >> 16) + (t & 0xffff); return ~(t + (t >> 16)) & 0xffff
src = bytes([10, 30, 0, 66])
tcp = struct.pack("!HHIIBBHHH", 40000, 80, 1, 0, 0x50, 2, 1000, 0, 0)
c = sum16(src + d + struct.pack("!BBH", 0, 6, 20) + tcp); tcp = tcp[:16] + struct.pack("!H", c) + tcp[18:]
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 1, 0, 64, 6, 0, src, d); ip = ip[:10] + struct.pack("!H", sum16(ip)) + ip[12:]
s.send(bytes.fromhex("026d64000003" + "020000000099" + "0800") + ip + tcp)
try:
    while True:
        f, a = s.recvfrom(2000)
        if a[2] != 4 and f[30:34] == src: print("answered"); break
except TimeoutError: print("nothing")
`;
