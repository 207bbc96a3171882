import { beforeAll, describe, expect, test } from "vitest";
import { type CniAnswer, network, type Release, TestDaemon } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { PortClient, wantedNow, withMetadata } from "../harness/port-client.ts";
import { releaseOf } from "../harness/release.ts";
import { until } from "../harness/wait.ts";
import { ipsOf, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/*
 * Release 0.2.0 reserved an address of each network with metadata, and its guests have their route to 169.254.169.254 by
 * it. Built from its commit, it attaches guests here; the present daemon takes over, or runs beside it.
 */

const COMMIT = "79a1b26104b896bf83045040ab95163bb02eda68";
const NO_HISTORY = "the release is built from the history, which this clone has not: git fetch --unshallow";
const BUILD_MS_MAX = 300_000;
/** Six addresses, of which the last is the reserved one. */
const TINY = { subnets: "10.10.0.0/29", cooldownSeconds: 0 };
const HURRIED = ["--metadata-wait-ms", "100"];

let built: Release | null;
beforeAll(async () => {
  built = await releaseOf(COMMIT);
  if (built === null) console.warn(`skipped: ${NO_HISTORY}`);
}, BUILD_MS_MAX);

const done = (answer: CniAnswer): CniAnswer => {
  expect(answer.code, answer.stdout + answer.stderr).toBe(0);
  return answer;
};

describe("on a node that was upgraded", () => {
  test("guests keep their route, their ports answer for it, and the address returns with the last of them", async ({
    skip,
  }) => {
    const release = built ?? skip(NO_HISTORY);
    const before = await TestDaemon.start({ release, args: HURRIED });
    let daemon = before;
    try {
      const blue = withMetadata("blue", TINY, { mtu: 1400 });
      const plain = network("plain", { subnets: "10.20.0.0/29" }, { bridge: "br-plain" });
      const first = done(await before.cni("ADD", "c1", { config: blue }));
      const second = done(await before.cni("ADD", "c2", { config: blue }));
      const other = done(await before.cni("ADD", "c3", { config: plain }));
      expect(first.json().routes).toEqual([{ dst: "169.254.169.254/32", gw: "10.10.0.6" }]);
      await before.end();

      daemon = await TestDaemon.start({ folder: before.folder, args: HURRIED });
      const client = PortClient.start(daemon);
      await client.untilWanted(["blue c1/eth0", "blue c2/eth0"]);
      expect(client.wanted.map(({ formerGateways }) => formerGateways)).toEqual([
        ["10.10.0.6"],
        ["10.10.0.6"],
      ]);
      expect((await daemon.cni("ADD", "c1", { config: blue })).stdout).toBe(first.stdout);
      expect((await daemon.cni("ADD", "c2", { config: blue })).stdout).toBe(second.stdout);
      expect((await daemon.cni("ADD", "c3", { config: plain })).stdout).toBe(other.stdout);
      expect((await daemon.cli("show", "blue")).stdout).toContain(
        "10.10.0.6 is kept for guests of an earlier release",
      );
      const asked = await daemon.get("/v1/identity?container=c1");
      expect(asked.json().identity.interfaces[0]).toMatchObject({
        mtu: 1400,
        routes: [{ dst: "169.254.169.254/32", gw: "10.10.0.6" }],
      });

      const fresh = done(await daemon.cni("ADD", "n1", { config: blue }));
      expect(fresh.json().routes).toEqual([{ dst: "169.254.169.254/32" }]);
      expect((await wantedNow(daemon)).ports.at(-1)).toMatchObject({ containerId: "n1", formerGateways: [] });
      for (const name of ["n2", "n3"]) done(await daemon.cni("ADD", name, { config: blue }));
      expect((await daemon.cni("ADD", "n4", { config: blue })).json().code).toBe(11);
      expect((await daemon.cni("ADD", "n4", { config: blue, args: "IP=10.10.0.6" })).json().code).toBe(122);
      done(await daemon.cni("DEL", "c1", { config: blue }));
      expect((await daemon.cni("ADD", "n4", { config: blue, args: "IP=10.10.0.6" })).json().code).toBe(122);
      done(await daemon.cni("DEL", "c2", { config: blue }));
      expect(ipsOf(await daemon.cni("ADD", "n4", { config: blue, args: "IP=10.10.0.6" }))).toEqual([
        "10.10.0.6/29",
      ]);
      expect((await daemon.cli("show", "blue")).stdout).not.toContain("earlier release");
      await client.stop();
    } finally {
      await daemon.stop();
    }
  });
});

describe("in a cluster of both releases", () => {
  test("the address is given to nobody while a guest of the earlier one runs, on whatever node", async ({
    skip,
  }) => {
    const release = built ?? skip(NO_HISTORY);
    const world = await World.start({ api: "server" });
    try {
      await world.startNode("node-a", { release, args: HURRIED });
      await world.startNode("node-b", { args: HURRIED });
      const blue = await world.network("blue", { ...TINY, metadata: true });
      const reserved = "10.10.0.6/29";
      const former = await world.pod("former", "node-a", blue);
      const first = await world.add(former, blue);
      expect(first.json().routes).toEqual([{ dst: "169.254.169.254/32", gw: "10.10.0.6" }]);

      for (const name of ["n1", "n2", "n3", "n4"]) {
        expect(await world.given(await world.pod(name, "node-b", blue), blue)).not.toContain(reserved);
      }
      const next = await world.pod("next", "node-b", blue);
      const asks = await world.pod("asks", "node-b", blue, { ips: ["10.10.0.6"] });
      const isRefused = async () => {
        expect((await world.add(next, blue)).json().code).toBe(11);
        expect((await world.add(asks, blue)).json().code).toBe(122);
      };
      await isRefused();

      // The node is upgraded, and the guest runs on.
      await world.node("node-a").restart("SIGTERM", { release: undefined });
      expect((await wantedNow(world.node("node-a").daemon)).ports).toMatchObject([
        { formerGateways: ["10.10.0.6"] },
      ]);
      expect((await world.add(former, blue)).stdout).toBe(first.stdout);
      await isRefused();

      await world.del(former, blue);
      const taken = await givenAtLast(world, next, blue);
      const last = await givenAtLast(world, asks, blue);
      expect([taken, last]).toEqual([ipsOf(first), [reserved]]);
      // With nobody to serve guests, a node's check has something to say.
      const clients = ["node-a", "node-b"].map((node) => PortClient.start(world.node(node).daemon));
      await world.settled();
      await Promise.all(clients.map((client) => client.stop()));
    } finally {
      await world.stop();
    }
  });
});

/** As a runtime does, which tries again. */
async function givenAtLast(world: World, pod: KubeObject, blue: Network): Promise<string[]> {
  let ips: string[] = [];
  await until(async () => {
    const answer = await world.add(pod, blue);
    if (answer.code === 0) ips = ipsOf(answer);
    return answer.code === 0;
  }, `an address for ${pod.metadata.name}`);
  return ips;
}
