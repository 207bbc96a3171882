import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { readLinks } from "../../guests/kernel/links.ts";
import { run as runLimited } from "../../guests/kernel/run.ts";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";

/** What ip writes into its JSON as it is, or in a way that is no JSON. */
const NAMES = ["a\x01b", 'a"b', "a'b", "a\\b", "a\x7fb", "a,b]}", "\x1b[2J"];

describe.skipIf(whyNotReal() !== null)("a container whose link names are not valid JSON", () => {
  let node: NetNode;
  let bridge: string;
  let vm: PortGuest;
  let odd: PortGuest;
  beforeEach(async () => {
    node = await NetNode.start([], { apart: true });
    bridge = await node.bridge();
    vm = await node.guest(bridge, "10.30.0.5/24");
    odd = await node.guest(bridge, "10.30.0.6/24");
    for (const [at, name] of NAMES.entries()) {
      await odd.run("ip", ["link", "add", name, "type", "veth", "peer", "name", `p${at}`]);
      await odd.run("ip", ["link", "set", name, "alias", `${name}","ifname":"eth0`]);
    }
    const { stdout } = await odd.run("ip", ["-o", "link"]);
    expect(stdout.match(/^\d+: p\d/gm), stdout).toHaveLength(NAMES.length);
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  const source = async (guest: PortGuest) =>
    (await guest.ask("/", ["--max-time", "3"])).echo.headers[LISTENER_HEADERS.source];

  test("is served, and so are the others, also after a flush and a restart", async () => {
    const red = await node.bridge();
    const other = await node.guest(red, "10.30.0.5/24");
    const wanted = [odd.on("blue"), vm.on("blue"), other.on("red")];
    expect(await node.wanted(...wanted)).toEqual({});
    for (const guest of [vm, odd, other]) expect(await source(guest)).toBe(guest.address);
    await node.mustRun("nft", ["flush", "ruleset"]);
    await until(
      async () => (await node.run("nft", ["list", "table", "netdev", node.names.table])).code === 0,
      () => `the rules; log: ${node.log}`,
      20_000,
    );
    await node.endNet("SIGKILL");
    node.startNet();
    const late = await node.guest(bridge, "10.30.0.7/24");
    expect(await node.wanted(...wanted, late.on("blue"))).toEqual({});
    for (const guest of [vm, odd, other, late]) expect(await source(guest)).toBe(guest.address);
  });

  test("is still served after it renamed its own interface to such a name, and so are the others", async () => {
    await batch(["link set eth0 down", "link set eth0 name x1", "link set x1 up"], odd.namespace);
    await odd.run("ip", ["link", "set", "x1", "alias", "\x01\"'\\"]);
    await batch(["route add 169.254.0.0/16 dev x1"], odd.namespace);
    expect(await node.wanted(odd.on("blue", { mac: odd.mac }), vm.on("blue"))).toEqual({});
    expect(await source(vm)).toBe(vm.address);
    expect(await source(odd)).toBe(odd.address);
  });

  test("does not delay the others when it cannot be read in time", async () => {
    const many = Array.from({ length: 400 }, (_, at) => `link add m${at} type veth peer name n${at}\n`);
    await batch(many, odd.namespace);
    await batch(["link set eth0 down", "link set eth0 name x1"], odd.namespace);
    const problems = await node.wanted(odd.on("blue", { mac: odd.mac }), vm.on("blue"));
    expect(Object.keys(problems).filter((key) => !key.includes(odd.namespace))).toEqual([]);
    // The kernel is busy with 800 links: a request may take longer than it has.
    await expect.poll(() => source(vm), { timeout: 20_000 }).toBe(vm.address);
  });
});

test("the output of ip about links with odd names is read, or counts as no link", () => {
  const link = (name: string) => `{"ifindex":2,"link_index":7,"ifname":"${name}"}`;
  expect(readLinks(`[${link("a\x01b")},${link("a\\'b")}]`).map(({ ifname }) => ifname)).toEqual(["a b", "a'b"]);
  expect(readLinks("[{}]")).toEqual([]);
  expect(readLinks("")).toEqual([]);
  for (const text of ["[", '[{"ifname":"a\\x"}]', "null", '{"ifname":"a"}', '"x"']) expect(readLinks(text)).toEqual([]);
});

test("a command that prints or runs without end is ended", async () => {
  expect(await runLimited("yes", [], "", { outputMax: 1_000 })).toMatchObject({
    code: null,
    stderr: "yes printed more than 1000 characters",
  });
  expect(await runLimited("sleep", ["60"], "", { timeMax: 100 })).toMatchObject({
    code: null,
    stderr: "sleep took longer than 100 ms",
  });
});
