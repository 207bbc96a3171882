import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../harness/wait.ts";
import { hexOf, listenTo, sendArp } from "../metadata-net/frames.ts";
import { batch, type PortGuest } from "../metadata-net/node.ts";
import { askOften, OvsNode, whoIs, whyNotOvs } from "./ovs-node.ts";

const NAMES = ["a", "b", "c", "d", "e", "six"] as const;
type Name = (typeof NAMES)[number];
const MAC = { a: "02:00:00:00:00:0a", c: "02:00:00:00:00:0c", d: "02:00:00:00:00:0d" };
const SERVICE_MAC = "02:6d:64:00:00:01";
const MD = "169.254.169.254";
const MD_6 = "http://[fe80::a9fe:a9fe%25eth0]/latest/";

describe.skipIf(whyNotOvs() !== null)("guests of one bridge with the userspace datapath", () => {
  let node: OvsNode;
  let guests: Record<Name, PortGuest>;
  /** It is not admitted. */
  let stranger: PortGuest;

  beforeAll(async () => {
    node = await OvsNode.start();
    const nobody = (mac: string) => [`neigh replace 10.0.0.1 lladdr ${mac} dev eth0 nud permanent`];
    const routes = ["default via 10.0.0.1 dev eth0 onlink"];
    const same = { address: "10.0.0.5/24", mac: MAC.a, routes, commands: nobody("02:de:ad:00:00:01") };
    guests = {
      a: await node.guest("br-vm", same),
      b: await node.guest("br-vm", same),
      c: await node.guest("br-vm", { ...same, mac: MAC.c, port: ["tag=7"] }),
      d: await node.guest("br-vm", { ...same, address: "10.0.0.8/24", mac: MAC.d }),
      e: await node.guest("br-vm", { address: "169.254.10.10/32" }),
      six: await node.guest("br-vm", {
        address: "10.0.0.66/32",
        commands: ["address delete 10.0.0.66/32 dev eth0"],
      }),
    };
    stranger = await node.guest("br-vm", { address: "10.0.0.9/24" });
    const wanted = NAMES.map((name) => guests[name].on(`net-${name}`, { mac: guests[name].mac }));
    expect(await node.net.wanted(...wanted)).toEqual({});
  });

  afterAll(async () => {
    expect(await node?.stop()).toEqual([]);
  });

  test.each(["a", "b", "c", "d", "e"] as const)(
    "%s gets its own answer, whoever shares its address, MAC or VLAN",
    async (name) => {
      const { status, echo } = await guests[name].ask("/latest/");
      expect(status).toBe(200);
      expect(echo.headers).toMatchObject({
        "x-holdfast-network": `net-${name}`,
        "x-holdfast-claimed": guests[name].address,
      });
    },
  );

  test("two guests with one address and one MAC get their own answers in 200 concurrent requests each", async () => {
    const before = node.net.echoes;
    const asking = await Promise.all([askOften(guests.a, 200), askOften(guests.b, 200)]);
    await until(async () => node.net.echoes >= before + 400, "all requests");
    const all = await Promise.all(asking.map((one) => one.stop()));
    expect(all).toEqual([{ "net-a": 200 }, { "net-b": 200 }]);
  });

  test.each(["a", "six"] as const)(
    "%s is served by IPv6, and the switch answers its neighbour solicitation",
    async (name) => {
      await until(async () => (await whoIs(guests[name], MD_6)) === `net-${name}`, "an answer by IPv6");
      const { stdout } = await guests[name].run("ip", ["-6", "neigh", "show", "fe80::a9fe:a9fe"]);
      expect(stdout).toContain(`lladdr ${SERVICE_MAC}`);
      expect(stdout).not.toContain("router");
    },
  );

  test("a guest that takes the address and MAC of another gets no answer of it, and disturbs none", async () => {
    const neighbour = "neigh replace 10.0.0.1 lladdr 02:de:ad:00:00:01 dev eth0 nud permanent";
    const route = "route replace default via 10.0.0.1 dev eth0 onlink";
    const address = ["address flush dev eth0", "address add 10.0.0.5/24 dev eth0"];
    await batch([...address, neighbour, route], guests.d.namespace);
    expect(await whoIs(guests.d)).toBe("net-d");
    await batch([`link set eth0 address ${MAC.a}`, neighbour, route], guests.d.namespace);
    try {
      const thief = await askOften(guests.d);
      const victim = await askOften(guests.a, 30);
      const before = node.net.echoes;
      await until(() => node.net.echoes >= before + 30, "the victim's requests");
      expect(await victim.stop()).toEqual({ "net-a": 30 });
      expect(Object.keys(await thief.stop())).toEqual(["nothing"]);
    } finally {
      await batch([`link set eth0 address ${MAC.d}`, neighbour, route], guests.d.namespace);
    }
    await until(async () => (await whoIs(guests.d)) === "net-d", "the neighbour with its own MAC");
  });

  test("an ARP claim of the metadata address reaches no guest", async () => {
    const heard = await Promise.all([listenTo("eth0", guests.e.namespace), listenTo("eth0", stranger.namespace)]);
    const claim = { operation: "reply", senderAddress: MD, targetAddress: MD } as const;
    // Both a guest and a port that is nobody's; once more as a question.
    for (const liar of [guests.b, stranger])
      await sendArp(liar, [claim, { ...claim, operation: "request", targetAddress: "10.0.0.77" }]);
    await sendArp(stranger, [{ operation: "request", senderAddress: "10.0.0.9", targetAddress: "10.0.0.77" }]);
    const [admitted = [], other = []] = await Promise.all(heard.map((one) => one.stop()));
    const claims = (frames: readonly string[]) =>
      frames.filter((frame) => frame.slice(24, 28) === "0806" && frame.slice(56, 64) === hexOf(MD));
    expect(admitted.filter((frame) => frame.includes(hexOf("10.0.0.77")))).not.toEqual([]);
    expect(claims(admitted)).toEqual([]);
    expect(claims(other)).toEqual([]);
    expect(await whoIs(guests.e)).toBe("net-e");
    const { stdout } = await guests.e.run("ip", ["neigh", "show", MD]);
    expect(stdout).toContain(`lladdr ${SERVICE_MAC}`);
  });

  test("an ARP claim in a VLAN without metadata is not blocked", async () => {
    const [one, two] = [
      await node.guest("br-vm", { address: "10.9.0.1/24", port: ["tag=9"] }),
      await node.guest("br-vm", { address: "10.9.0.2/24", port: ["tag=9"] }),
    ];
    const heard = await listenTo("eth0", two.namespace);
    await sendArp(one, [{ operation: "reply", senderAddress: MD, targetAddress: MD }]);
    expect((await heard.stop()).filter((frame) => frame.slice(56, 64) === hexOf(MD))).not.toEqual([]);
  });

  test("a port that is not admitted gets no metadata, and its other traffic passes", async () => {
    expect(await whoIs(stranger, "/latest/", 1)).toBe("status 0");
    const ping = (address: string) => stranger.run("ping", ["-c", "1", "-W", "2", address]);
    const plain = await node.guest("br-vm", { address: "10.0.0.50/24" });
    expect((await ping("10.0.0.50")).code).toBe(0);
    expect((await plain.run("ping", ["-c", "1", "-W", "2", "10.0.0.9"])).code).toBe(0);
  });

  test("other ports of the address are refused at once, and a ping is answered", async () => {
    const refused = await guests.a.run("curl", ["-s", "-m", "5", "-w", "%{time_total}", `http://${MD}:8080/`]);
    expect(refused.code).toBe(7);
    expect((await guests.a.run("ping", ["-c", "2", "-i", "0.2", "-W", "2", MD])).code).toBe(0);
    expect((await guests.a.run("ping", ["-6", "-c", "2", "-W", "2", "fe80::a9fe:a9fe%eth0"])).code).toBe(0);
  });

  test("a request and an answer of several segments arrive whole", async () => {
    const long = `/latest/${"y".repeat(6_000)}`;
    expect((await guests.c.ask(long)).echo.url).toBe(long);
  });

  test("the listener's port does not lower the MTU of the bridge", async () => {
    const mtu = async () => (await node.net.mustRun("cat", ["/sys/class/net/br-vm/mtu"])).stdout.trim();
    const [door] = await node.doors();
    const shown = await node.net.mustRun("cat", [`/sys/class/net/${door}/mtu`]);
    expect(Number(shown.stdout)).toBeGreaterThan(Number(await mtu()));
  });
});
