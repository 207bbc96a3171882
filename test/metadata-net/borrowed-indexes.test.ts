import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { mustRun, whyNotReal } from "../network/containers.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { askAs, self } from "./who.ts";

interface Indexes {
  readonly ifindex: number;
  readonly link_index: number;
}

describe.skipIf(whyNotReal() !== null)("a container that gives its links the indexes of others", () => {
  let node: NetNode;
  let thief: PortGuest;
  /** Where the other end of the thief's link is, which is nobody's on the node. */
  let nested: string;
  let holders: ChildProcess[];
  beforeEach(async () => {
    holders = [];
    node = await NetNode.start([], { apart: true });
    thief = await node.guest(null, "10.30.0.5/24");
    nested = `${thief.namespace}-in`;
    await mustRun("ip", ["netns", "add", nested]);
  });
  afterEach(async () => {
    for (const holder of holders) holder.kill("SIGKILL");
    await run("ip", ["netns", "delete", nested]);
    expect(await node.stop(), node.log).toEqual([]);
  });

  /** Takes the name of a guest's namespace away. Resolves with its path, and with what gives the name back. */
  async function unname({ namespace }: PortGuest) {
    const holder = spawn("ip", ["netns", "exec", namespace, "sh", "-c", "echo; exec sleep 600"]);
    holders.push(holder);
    await once(holder.stdout, "data");
    await mustRun("ip", ["netns", "delete", namespace]);
    const rename = () => mustRun("ip", ["netns", "attach", namespace, String(holder.pid)]);
    return { netns: `/proc/${holder.pid}/ns/net`, rename };
  }

  async function indexesOf(link: string): Promise<Indexes> {
    const { stdout } = await node.mustRun("ip", ["-json", "link", "show", "dev", link]);
    const [{ ifindex, link_index } = { ifindex: 0, link_index: 0 }] = JSON.parse(stdout) as Partial<Indexes>[];
    // Of an end on the node, ip's JSON has the name.
    const file = `/sys/class/net/${link}/iflink`;
    return {
      ifindex: ifindex as number,
      link_index: link_index ?? Number((await node.mustRun("cat", [file])).stdout),
    };
  }

  async function pretend({ ifindex, link_index }: Indexes): Promise<void> {
    await node.mustRun("ip", ["link", "delete", thief.port]);
    const peer = `type veth peer name p index ${ifindex} netns ${nested}`;
    await batch([`link add name eth0 index ${link_index} ${peer}`], thief.namespace);
  }

  const refused = () => ({
    [`container-${thief.namespace} eth0`]: "pending: the other end of eth0 is not on the node",
  });

  test("has no port of a container whose namespace has no name", async () => {
    const victim = await node.guest(null, "10.30.0.6/24");
    const [own, other] = [await unname(victim), await indexesOf(victim.port)];
    await pretend(other);
    const { netns } = await unname(thief);
    const claimed = thief.on("red", { netns, mac: victim.mac });
    expect(await node.wanted(claimed)).toEqual(refused());
    expect(await node.wanted(claimed, victim.on("blue", { netns: own.netns }))).toEqual(refused());
    await own.rename();
    expect(await askAs(victim)).toBe(self(victim));
  });

  test("has no end of a pair of which both are on the node", async () => {
    const [one, two] = [await node.bridge(), await node.bridge()];
    await node.mustRun("ip", ["link", "add", "pair0", "type", "veth", "peer", "name", "pair1"]);
    for (const [link, bridge] of [
      ["pair0", one],
      ["pair1", two],
    ] as const)
      await node.mustRun("ip", ["link", "set", link, "master", bridge, "up"]);
    await pretend(await indexesOf("pair0"));
    const { netns } = await unname(thief);
    expect(await node.wanted(thief.on("red", { netns, mac: thief.mac }))).toEqual(refused());
  });
});
