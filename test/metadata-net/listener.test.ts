// @ts-nocheck
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listenerNames } from "../../metadata/net/kernel/names.ts";
import { IDENTITY_PREFIXES } from "../../metadata/proxy/client-headers.ts";
import { LISTENER_HEADERS } from "../../metadata/proxy/listener-headers.ts";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { listenTo } from "./frames.ts";
import { type BridgeGuest, batch, type EchoAnswer, NetNode, network } from "./node.ts";

const { network: NETWORK, source: SOURCE, clientForwarded: FORWARDED } = LISTENER_HEADERS;

/** Who the request came from, as the metadata server is told. */
function who({ echo }: EchoAnswer): string {
  return `${echo.headers[NETWORK]} ${echo.headers[SOURCE]}`;
}

describe.skipIf(whyNotReal() !== null)("what a listener lets through", () => {
  let node: NetNode;
  let bridge: string;
  let vm: BridgeGuest;
  beforeAll(async () => {
    node = await NetNode.start();
    bridge = await node.bridge();
    vm = await node.guest(bridge, "10.30.0.5/24");
    expect(await node.wanted(network("blue", bridge, [vm]))).toEqual({ blue: "up" });
  });
  afterAll(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  test("network and source arrive, through a link-local route and through the reserved address", async () => {
    const first = await vm.ask("/openstack?a=%20b");
    expect(first.status, node.log).toBe(200);
    expect(first.echo).toMatchObject({ method: "GET", url: "/openstack?a=%20b" });
    expect(who(first)).toBe("blue 10.30.0.5");
    expect(first.echo.headers[FORWARDED]).toBeUndefined();
    const routed = await node.guest(bridge, "10.30.0.6/24");
    await node.wanted(network("blue", bridge, [vm, routed]));
    await batch(
      ["route delete 169.254.0.0/16 dev eth0", "route add 169.254.169.254/32 via 10.30.0.254"],
      routed.namespace,
    );
    const second = await routed.ask("/", ["-X", "POST", "-d", "0123456789"]);
    expect(second.echo).toMatchObject({ method: "POST", bodyBytes: 10 });
    expect(who(second)).toBe("blue 10.30.0.6");
  });

  test("VMs of every subnet of a network are answered", async () => {
    const other = await node.bridge();
    const far = await node.guest(other, "10.77.0.9/24");
    const near = await node.guest(other, "10.78.0.9/24");
    const both = network("wide", other, [near, far], {
      address: "10.78.0.254/24",
      subnets: ["10.78.0.0/24", "10.77.0.0/24"],
    });
    expect(await node.wanted(network("blue", bridge, [vm]), both)).toEqual({ blue: "up", wide: "up" });
    expect(who(await near.ask("/"))).toBe("wide 10.78.0.9");
    expect(who(await far.ask("/"))).toBe("wide 10.77.0.9");
    await node.wanted(network("blue", bridge, [vm]));
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
        [FORWARDED, NETWORK, SOURCE].sort(),
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
      for (const line of [
        "GET /latest/meta-data/",
        "PUT /latest/api/token",
        `GET http://${host}/openstack`,
      ]) {
        const got = await vm.raw(`${line} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
        expect(got, `${line}, ${host}`).toMatch(
          /^HTTP\/1.1 403 [\s\S]*Please ask http:\/\/169\.254\.169\.254/,
        );
      }
    expect(node.echoes).toBe(before);
  });

  test("a listener gets only TCP and ICMP over IPv4", async () => {
    const { namespace } = listenerNames(node.names, "blue");
    const heard = await listenTo("eth0", namespace);
    const sent = await vm.python(
      `
import socket
for protocol in [1, 2, 4, 17, 41, 47, 50, 89, 132, 255]:
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol)
        s.sendto(b"\\x08\\0\\xf7\\xff" + bytes(28), ("169.254.169.254", 0))
        print(protocol)
    except OSError as e: print(protocol, e)
`,
    );
    expect(sent.stdout.trim().split("\n")).toHaveLength(10);
    expect((await vm.ask("/")).status).toBe(200);
    const protocols = (await heard.stop())
      .filter((frame) => frame.slice(24, 28) === "0800")
      .map((frame) => Number.parseInt(frame.slice(46, 48), 16));
    expect([...new Set(protocols)].sort((one, other) => one - other)).toEqual([1, 6]);
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
    const started = performance.now();
    const header = await vm.raw(`GET / HTTP/1.1\r\nHost: a\r\nX-Large: ${large}\r\n\r\n`, 3_000);
    expect(header).toMatch(/^HTTP\/1.1 4\d\d /);
    expect(performance.now() - started).toBeLessThan(5_000);
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
    const slow = vm.raw("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ", 9_000);
    const slowBody = vm.raw("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc", 9_000);
    expect((await vm.ask("/")).status).toBe(200);
    const started = performance.now();
    expect(await slow).toMatch(/^HTTP\/1.1 408 /);
    expect(await slowBody).toMatch(/^HTTP\/1.1 408 [\s\S]*took too long/);
    expect(performance.now() - started).toBeLessThan(8_000);
  });

  test("a thousand idle connections of one VM do not delay another VM", async () => {
    const other = await node.guest(bridge, "10.30.0.7/24");
    await node.wanted(network("blue", bridge, [vm, other]));
    const hoard = vm.python(`
import socket, time
held = []
for _ in range(1000):
    s = socket.socket(); s.setblocking(False)
    try: s.connect(("169.254.169.254", 80))
    except BlockingIOError: pass
    held.append(s)
time.sleep(1)
alive = 0
for s in held:
    try:
        s.setblocking(False)
        if s.recv(1) == b"": continue
    except BlockingIOError: alive += 1
    except OSError: pass
print(alive, flush=True)
time.sleep(2)
`);
    await pause(800);
    for (let count = 0; count < 20; count += 1) {
      const answer = await other.ask("/");
      expect(who(answer)).toBe("blue 10.30.0.7");
    }
    expect(Number((await hoard).stdout)).toBeLessThanOrEqual(64);
    await until(async () => (await vm.ask("/")).status === 200, "the hoarder is served again");
  });
});

describe.skipIf(whyNotReal() !== null)("several networks", () => {
  test("are told apart where their addresses are the same", async () => {
    const node = await NetNode.start();
    try {
      const bridges = [await node.bridge(), await node.bridge()];
      const [blue, red] = [
        await node.guest(bridges[0] as string, "10.30.0.5/24"),
        await node.guest(bridges[1] as string, "10.30.0.5/24"),
      ];
      const wanted = [
        network("blue", bridges[0] as string, [blue]),
        network("red", bridges[1] as string, [red]),
      ];
      expect(await node.wanted(...wanted)).toEqual({ blue: "up", red: "up" });
      for (let count = 0; count < 5; count += 1) {
        const answers = await Promise.all([blue.ask("/"), red.ask("/")]);
        expect(answers.map(who)).toEqual(["blue 10.30.0.5", "red 10.30.0.5"]);
      }
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });

  test("are told apart by the port on one bridge, even with one address", async () => {
    const node = await NetNode.start();
    try {
      const bridge = await node.bridge();
      const blue = await node.guest(bridge, "10.30.0.5/24");
      const red = await node.guest(bridge, "10.30.0.5/24");
      const wanted = [network("blue", bridge, [blue]), network("red", bridge, [red])];
      expect(await node.wanted(...wanted)).toEqual({ blue: "up", red: "up" });
      const answers = await Promise.all([blue.ask("/"), red.ask("/")]);
      expect(answers.map(who)).toEqual(["blue 10.30.0.5", "red 10.30.0.5"]);
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });

  test("have a request limit that refuses with a plain sentence, and ends with its period", async () => {
    const node = await NetNode.start(["--rate-limit", "60"]);
    try {
      const bridge = await node.bridge();
      const vm = await node.guest(bridge, "10.30.0.5/24");
      const other = await node.guest(bridge, "10.30.0.6/24");
      expect(await node.wanted(network("blue", bridge, [vm, other]))).toEqual({ blue: "up" });
      const many = await vm.python(`
import http.client, time
c = http.client.HTTPConnection("169.254.169.254", 80, timeout=5)
got = []
def one():
    c.request("GET", "/"); r = c.getresponse(); b = r.read()
    got.append((r.status, r.getheader("Retry-After"), b.decode() if r.status == 429 else ""))
    return r.status
for _ in range(70): one()
print([g[0] for g in got].count(200), got[-1])
end = time.monotonic() + 20
while one() != 200 and time.monotonic() < end: time.sleep(0.1)
print(got[-1][0])
`);
      expect(many.stdout).toBe("60 (429, '10', 'Too many requests. Please try again later.\\n')\n200\n");
      expect((await other.ask("/")).status).toBe(200);
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });
});
