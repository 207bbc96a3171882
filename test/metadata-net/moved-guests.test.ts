import { rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { batch, NetNode } from "./node.ts";
import { askAs, self } from "./who.ts";

describe.skipIf(whyNotReal() !== null)("a guest whose namespace or interface is another now", () => {
  let node: NetNode;
  beforeEach(async () => {
    node = await NetNode.start([], { apart: true });
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  test("is served in the new namespace alone, though container and interface have the same names", async () => {
    const [before, now] = [await node.guest(null, "10.30.0.5/24"), await node.guest(null, "10.30.0.6/24")];
    const { containerId } = before.on("blue");
    expect(await node.wanted(before.on("blue"))).toEqual({});
    expect(await askAs(before)).toBe(self(before));
    expect(await node.wanted(now.on("blue", { containerId }))).toEqual({});
    expect(await askAs(now)).toBe(`container/${containerId}/eth0 ${now.address}`);
    expect(await askAs(before, ["--max-time", "1"])).toBe("status 0");
  });

  test("is served in the new namespace alone, though that has the path of the old one", async () => {
    const [before, now] = [await node.guest(null, "10.30.0.5/24"), await node.guest(null, "10.30.0.5/24")];
    const netns = join(node.directory, "guest");
    const on = before.on("blue", { netns });
    symlinkSync(`/run/netns/${before.namespace}`, netns);
    expect(await node.wanted(on)).toEqual({});
    expect(await askAs(before)).toBe(self(before));
    rmSync(netns);
    symlinkSync(`/run/netns/${now.namespace}`, netns);
    expect(await node.wanted(on)).toEqual({});
    expect(await askAs(now)).toBe(self(before));
    expect(await askAs(before, ["--max-time", "1"])).toBe("status 0");
  });

  test("is reported when another guest was found at its link, and is served once that one is gone", async () => {
    const guest = await node.guest(null, "10.30.0.5/24");
    await batch(["link set eth0 down", "link set eth0 name renamed", "link set renamed up"], guest.namespace);
    const [one, two] = ["net1", "net2"].map((name) => guest.on("blue", { interface: name, mac: guest.mac }));
    await node.wanted(one as never, two as never);
    const keys = ["net1", "net2"].map((name) => `container-${guest.namespace} ${name}`);
    const refused = () => keys.filter((key) => key in node.problems());
    await until(
      () => refused().length === 1 && Object.values(node.problems()).every((why) => !/searched/.test(why)),
      () => JSON.stringify(node.problems()),
    );
    const [loser] = refused();
    expect(node.problems()[loser as string]).toMatch(/^pending: .*(another attachment|no interface net)/);
    await node.wanted(loser === keys[0] ? (one as never) : (two as never));
    await until(
      () => refused().length === 0,
      () => JSON.stringify(node.problems()),
      10_000,
    );
  });
});
