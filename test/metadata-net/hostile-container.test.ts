import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNotReal } from "../network/containers.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { askAs, self } from "./who.ts";

/** What ip writes into its JSON as it is, or in a way that is no JSON. */
const NAMES = ["a\x01b", 'a"b', "a'b", "a\\b", "a\x7fb", "a,b]}", "\x1b[2J"];

describe.skipIf(whyNotReal() !== null)("a container with NET_ADMIN in its own namespace", () => {
  let node: NetNode;
  let bridge: string;
  let victim: PortGuest;
  let hostile: PortGuest;
  beforeAll(async () => {
    node = await NetNode.start();
    bridge = await node.bridge();
    victim = await node.guest(bridge, "10.30.0.5/24");
    hostile = await node.guest(bridge, "10.30.0.6/24");
    expect(await node.wanted(victim.on("blue"), hostile.on("blue"))).toEqual({});
  });
  afterAll(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  /** Another guest comes while the hostile one does what it does: each is served as itself. */
  async function allIsWell(): Promise<void> {
    const late = await node.guest(bridge, "10.30.0.7/24");
    const problems = await node.wanted(victim.on("blue"), hostile.on("blue"), late.on("blue"));
    for (const key of Object.keys(problems)) expect(key).toContain(hostile.namespace);
    expect(await askAs(victim)).toBe(self(victim));
    expect(await askAs(late)).toBe(self(late));
    await node.wanted(victim.on("blue"), hostile.on("blue"));
    await node.removeGuest(late);
  }

  test("cannot disturb others by link names and aliases that are not valid JSON", async () => {
    for (const [at, name] of NAMES.entries()) {
      await hostile.run("ip", ["link", "add", name, "type", "veth", "peer", "name", `p${at}`]);
      await hostile.run("ip", ["link", "set", name, "alias", `${name}","ifname":"eth0`]);
    }
    await allIsWell();
    expect(await askAs(hostile)).toBe(self(hostile));
    for (const [at] of NAMES.entries()) await hostile.run("ip", ["link", "delete", `p${at}`]);
  });

  test("cannot disturb others by a thousand links and addresses, or by the victim's link index", async () => {
    const index = (await node.run("cat", [`/sys/class/net/${victim.port}/ifindex`])).stdout.trim();
    await batch(
      [
        ...Array.from({ length: 1_000 }, (_, at) => `link add n${at} type veth peer name m${at}`),
        ...Array.from({ length: 500 }, (_, at) => `address add 10.31.${at >> 8}.${at & 255}/32 dev eth0`),
        `link add ${victim.port} type bridge`,
        `link add name ${index} type bridge`,
      ],
      hostile.namespace,
    );
    await allIsWell();
    expect(await askAs(hostile)).toBe(self(hostile));
  });

  test("gets no other identity by taking the victim's name, MAC, address and interface ID", async () => {
    const attempts = [
      ["link set eth0 down", `link set eth0 address ${victim.mac}`, "link set eth0 up"],
      [`address add ${victim.address}/32 dev eth0`],
      ["link set eth0 down", "link set eth0 name eth1", "link set eth1 up"],
      ["link set eth1 down", "link set eth1 name eth0", "link set eth0 up"],
    ];
    for (const attempt of attempts) {
      await batch(attempt, hostile.namespace);
      await hostile.run("ip", ["route", "replace", "169.254.0.0/16", "dev", "eth0"]);
      const got = await askAs(hostile, ["--max-time", "2"]);
      expect(got === "status 0" || got.startsWith(self(hostile).split(" ")[0] as string), got).toBe(true);
      expect(await askAs(victim)).toBe(self(victim));
    }
    await batch(["link set eth0 down", `link set eth0 address ${hostile.mac}`, "link set eth0 up"], hostile.namespace);
    await batch(["route replace 169.254.0.0/16 dev eth0"], hostile.namespace);
    expect(await askAs(hostile)).toBe(self(hostile));
  });

  test("cannot disturb others by flushing and dropping everything in its own namespace", async () => {
    await hostile.run("nft", ["flush", "ruleset"]);
    await hostile.run("nft", [
      "-f",
      "-",
      `table netdev ${node.names.table} { chain c { type filter hook ingress device "eth0" priority -500; policy drop; }; }`,
    ]);
    await hostile.run("nft", ["delete", "table", "netdev", node.names.table]);
    await hostile.run("sysctl", ["-qw", "net.ipv4.ip_forward=1"]);
    await allIsWell();
    expect(await askAs(hostile)).toBe(self(hostile));
  });

  test("ends only its own port by deleting its interface", async () => {
    await batch(["link delete eth0"], hostile.namespace);
    await allIsWell();
    expect(Object.keys(await node.wanted(victim.on("blue"), hostile.on("blue")))).toHaveLength(1);
  });
});
