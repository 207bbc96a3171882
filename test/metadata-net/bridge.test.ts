// @ts-nocheck
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { listenerNames } from "../../metadata/net/kernel/names.ts";
import { LISTENER_HEADERS } from "../../metadata/proxy/listener-headers.ts";
import { run } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { hexOf, listenTo, sendArp } from "./frames.ts";
import { type BridgeGuest, batch, type EchoAnswer, NetNode, network } from "./node.ts";

const METADATA = "169.254.169.254";
const RESERVED = "10.30.0.254";
const A = "10.30.0.5";
const B = "10.30.0.6";

function who({ echo }: EchoAnswer): string {
  return `${echo.headers[LISTENER_HEADERS.network]} ${echo.headers[LISTENER_HEADERS.source]}`;
}

describe.skipIf(whyNotReal() !== null)("the listener's port of the bridge", () => {
  let node: NetNode;
  let bridge: string;
  let a: BridgeGuest;
  let b: BridgeGuest;
  beforeEach(async () => {
    node = await NetNode.start();
    bridge = await node.bridge();
    a = await node.guest(bridge, `${A}/24`);
    b = await node.guest(bridge, `${B}/24`);
    expect(await node.wanted(network("blue", bridge, [a, b]))).toEqual({ blue: "up" });
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  async function neighbours(): Promise<string[]> {
    const { namespace } = listenerNames(node.names, "blue");
    const { stdout } = await run("ip", ["-n", namespace, "-json", "neigh", "show", "nud", "permanent"]);
    return (JSON.parse(stdout) as { dst: string; lladdr: string }[])
      .map((one) => `${one.dst} ${one.lladdr}`)
      .sort();
  }

  test("a VM that takes another one's address is not answered", async () => {
    await batch([`address add ${A}/24 dev eth0`], b.namespace);
    const before = node.echoes;
    for (const address of [A, "10.30.0.99"]) {
      await batch([`address replace ${address}/24 dev eth0`], b.namespace);
      expect((await b.ask("/", ["--interface", address, "--max-time", "2"])).status).toBe(0);
    }
    expect(node.echoes).toBe(before);
    await until(
      async () => who(await b.ask("/", ["--interface", B])) === `blue ${B}`,
      "an answer to its own",
    );
  });

  test("a VM without a record is not answered, nor one whose record has been removed", async () => {
    const stranger = await node.guest(bridge, "10.30.0.9/24");
    expect((await stranger.ask("/", ["--max-time", "1"])).status).toBe(0);
    expect((await b.ask("/")).status).toBe(200);
    await node.wanted(network("blue", bridge, [a]));
    expect((await b.ask("/", ["--max-time", "1"])).status).toBe(0);
    expect((await a.ask("/")).status).toBe(200);
    expect(await neighbours()).toEqual([`${A} ${a.mac}`]);
  });

  test("a VM that answers for another one's address steals no answer", async () => {
    const { mac } = listenerNames(node.names, "blue");
    const lies = sendArp(
      b,
      [
        { operation: "reply", senderAddress: A, targetAddress: METADATA, to: mac },
        { operation: "reply", senderAddress: A, targetAddress: RESERVED, to: mac },
        { operation: "request", senderAddress: A, targetAddress: METADATA },
        { operation: "request", senderAddress: A, targetAddress: A },
      ],
      4,
    );
    const heard = await listenTo("eth0", b.namespace);
    for (let count = 0; count < 20; count += 1) expect(who(await a.ask("/"))).toBe(`blue ${A}`);
    const stolen = (await heard.stop()).filter((frame) =>
      frame.includes(hexOf("169.254.169.254") + hexOf(A)),
    );
    expect(stolen).toEqual([]);
    await lies;
    // The same without an entry for the victim's MAC.
    await batch([`neigh del ${A} dev eth0`], listenerNames(node.names, "blue").namespace);
    let lying = true;
    const more = sendArp(
      b,
      [{ operation: "reply", senderAddress: A, targetAddress: RESERVED, to: mac }],
      3,
    ).finally(() => {
      lying = false;
    });
    while (lying) expect(who(await a.ask("/", ["--max-time", "3"]))).toBe(`blue ${A}`);
    await more;
  });

  test("a VM that claims the metadata service's address is not believed, however it encapsulates the claim", async () => {
    for (const address of [METADATA, RESERVED])
      await batch([`address add ${address}/32 dev eth0`], b.namespace);
    const server = b.python("import http.server; http.server.test(port=80)");
    const lies = sendArp(
      b,
      [0, 1, 2].flatMap((tags) =>
        [METADATA, RESERVED].flatMap((claimed) => [
          { operation: "reply" as const, senderAddress: claimed, targetAddress: A, to: a.mac, tags },
          { operation: "request" as const, senderAddress: claimed, targetAddress: A, tags },
          { operation: "request" as const, senderAddress: claimed, targetAddress: claimed, tags },
          { operation: "request" as const, senderAddress: claimed, targetAddress: A, tags, snap: true },
        ]),
      ),
      5,
    );
    const heard = await listenTo("eth0", a.namespace);
    for (let count = 0; count < 15; count += 1) {
      await batch(["neigh flush all"], a.namespace);
      expect(who(await a.ask("/"))).toBe(`blue ${A}`);
    }
    const claims = (await heard.stop()).filter((frame) => frame.slice(12, 24) === hexOf(b.mac));
    expect(claims.filter((frame) => [METADATA, RESERVED].some((one) => frame.includes(hexOf(one))))).toEqual(
      [],
    );
    await lies;
    await run("ip", ["netns", "pids", b.namespace]).then(({ stdout }) => {
      for (const pid of stdout.split("\n").filter(Boolean)) process.kill(Number(pid), "SIGKILL");
    });
    await server;
  });

  test("nobody can take over the listener's MAC, neither a VM nor a host outside", async () => {
    const { mac } = listenerNames(node.names, "blue");
    const uplink = await node.uplink(bridge);
    expect((await a.ask("/")).status).toBe(200);
    const frame = { operation: "request", senderAddress: B, targetAddress: "10.30.0.99", from: mac } as const;
    for (const liar of [b, uplink]) {
      const lies = sendArp(liar, [frame, { ...frame, tags: 1 }], 4);
      for (let count = 0; count < 15; count += 1)
        expect(who(await a.ask("/", ["--max-time", "2"]))).toBe(`blue ${A}`);
      await lies;
    }
    // Without being sent anything, the bridge still knows.
    expect((await a.ask("/")).status).toBe(200);
  });

  test("nothing leaves through other ports, and nothing comes in through them", async () => {
    const uplink = await node.uplink(bridge);
    await batch([`address add 10.30.0.200/24 dev eth0`], uplink.namespace);
    const outside = await listenTo("eth0", uplink.namespace);
    const host = await listenTo(bridge, null);
    for (const address of [METADATA, RESERVED]) {
      await batch(["neigh flush all"], a.namespace);
      await a.run("ping", ["-c", "2", "-W", "1", address]);
    }
    expect((await a.ask("/")).status).toBe(200);
    // What anybody may see, to know that frames were seen at all.
    await a.run("ping", ["-c", "1", "-W", "1", "10.30.0.99"]);
    const { mac } = listenerNames(node.names, "blue");
    for (const seen of [await outside.stop(), await host.stop()]) {
      expect(seen.some((frame) => frame.includes(hexOf("10.30.0.99")))).toBe(true);
      expect(
        seen.filter((frame) => frame.includes(hexOf(METADATA)) || frame.includes(hexOf(RESERVED))),
      ).toEqual([]);
      expect(seen.filter((frame) => frame.slice(12, 24) === hexOf(mac))).toEqual([]);
    }
    expect((await uplink.ask("/", ["--max-time", "1"])).status).toBe(0);
    // Another node's listener has the same MAC and claims the same addresses.
    const lies = sendArp(
      uplink,
      [{ operation: "reply", senderAddress: METADATA, targetAddress: A, to: a.mac }],
      1,
    );
    await batch(["neigh flush all"], a.namespace);
    expect(who(await a.ask("/"))).toBe(`blue ${A}`);
    await lies;
  });

  test("the host is not answered", async () => {
    await batch([`address add 10.30.0.1/24 dev ${bridge}`]);
    const heard = await listenTo("eth0", listenerNames(node.names, "blue").namespace);
    const args = ["-s", "--max-time", "1", "--interface", bridge, `http://${RESERVED}/`];
    expect((await run("curl", args)).code).not.toBe(0);
    expect((await run("ping", ["-c", "1", "-W", "1", "-I", bridge, RESERVED])).code).not.toBe(0);
    expect(await heard.stop()).toEqual([]);
    // A VM and the host speak with each other as before.
    expect((await run("ping", ["-c", "1", "-W", "2", "-I", bridge, A])).code).toBe(0);
  });

  test("a VM's probe for a free address gets the right answer", async () => {
    const heard = await listenTo("eth0", a.namespace);
    const probe = (targetAddress: string) =>
      sendArp(a, [{ operation: "request", senderAddress: "0.0.0.0", targetAddress }]);
    await probe(A);
    await probe("10.30.0.77");
    const free = await heard.stop();
    expect(free.filter((frame) => frame.slice(24, 28) === "0806" && frame.slice(40, 44) === "0002")).toEqual(
      [],
    );
    for (const taken of [METADATA, RESERVED, B]) {
      const answers = await listenTo("eth0", a.namespace);
      await probe(taken);
      const got = (await answers.stop()).filter((frame) => frame.slice(40, 44) === "0002");
      expect(got.map((frame) => frame.slice(56, 64))).toEqual([hexOf(taken)]);
    }
  });

  test("a VM has the requested MAC, else that of its attachment, also after a rename and a crash", async () => {
    expect(await neighbours()).toEqual([`${A} ${a.mac}`, `${B} ${b.mac}`]);
    await node.wanted(network("blue", bridge, [a, b.attachment({ mac: "02-AA-00-00-00-01" })]));
    expect(await neighbours()).toEqual([`${A} ${a.mac}`, `${B} 02:aa:00:00:00:01`]);
    // As KubeVirt does: the pod's interface gets another name and another MAC, and the guest has the old one.
    await batch(
      ["link set eth0 down", "link set eth0 name eth0-nic address 02:bb:00:00:00:01", "link set eth0-nic up"],
      a.namespace,
    );
    await node.endNet("SIGKILL");
    node.startNet();
    node.want(network("blue", bridge, [a]));
    await node.applied();
    expect(await neighbours()).toEqual([`${A} ${a.mac}`]);
  });

  test("an interface that was renamed before anybody looked is found by its pair", async () => {
    const late = await node.guest(bridge, "10.30.0.8/24");
    await batch(
      ["link set eth0 down", "link set eth0 name x1", "link set x1 up", "route add 169.254.0.0/16 dev x1"],
      late.namespace,
    );
    await node.wanted(network("blue", bridge, [a, b, late]));
    expect(who(await late.ask("/"))).toBe("blue 10.30.0.8");
    // Its guest may have another MAC than what is there now.
    expect(await neighbours()).toEqual([`${A} ${a.mac}`, `${B} ${b.mac}`]);
  });

  test("a VM that migrates finds the same listener: MAC and addresses follow from the network", async () => {
    const arp = async () => {
      await a.ask("/");
      const { stdout } = await run("ip", ["-n", a.namespace, "-json", "neigh", "show", METADATA]);
      return (JSON.parse(stdout) as { lladdr: string }[])[0]?.lladdr;
    };
    const here = await arp();
    const elsewhere = await NetNode.start();
    try {
      const twin = await elsewhere.bridge();
      const vm = await elsewhere.guest(twin, `${A}/24`);
      await elsewhere.wanted(network("blue", twin, [vm]));
      await vm.ask("/");
      const { stdout } = await run("ip", ["-n", vm.namespace, "-json", "neigh", "show", METADATA]);
      expect((JSON.parse(stdout) as { lladdr: string }[])[0]?.lladdr).toBe(here);
    } finally {
      expect(await elsewhere.stop(), elsewhere.log).toEqual([]);
    }
  });

  test("the bridge keeps its MAC and MTU, and the port has the plugin's settings", async () => {
    const mac = async () => JSON.parse((await run("ip", ["-j", "link", "show", bridge])).stdout)[0].address;
    const before = await mac();
    await node.wanted(network("blue", bridge, [a, b], { mtu: 1400 }));
    expect(await mac()).toBe(before);
    const { link, namespace } = listenerNames(node.names, "blue");
    const [outer] = JSON.parse((await run("ip", ["-j", "link", "show", link])).stdout);
    const [inner] = JSON.parse((await run("ip", ["-n", namespace, "-j", "address", "show", "eth0"])).stdout);
    expect([outer.mtu, inner.mtu, outer.address.slice(0, 5)]).toEqual([1400, 1400, "fe:ff"]);
    expect(inner.addr_info.map((one: { local: string }) => one.local)).toEqual([RESERVED, METADATA]);
    expect((await a.ask("/")).status).toBe(200);
    await until(
      async () => (await run("ip", ["-j", "-6", "address", "show", "dev", link])).stdout.trim() === "[]",
      "no IPv6",
    );
  });
});
