/**
 * Nothing here waits for a periodic pass that an event could have begun: every pass comes an hour after the one before.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Link } from "../harness/kube-fake/client/link.ts";
import type { NodeDaemon } from "../harness/node.ts";
import { added, addedInTheEnd, checked, deleted } from "../harness/world/guests.ts";
import { hourlyPasses } from "../harness/world/hourly-passes.ts";
import type { Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** From contact with the API server until new owners get addresses, ms. */
const AGAIN_MS_MAX = 10_000;
const GAPS = 10;
const WATCH_OPENS_MS = 200;

let undo: () => void;
let world: World;
let net: Network;
let node: NodeDaemon;

beforeAll(async () => {
  undo = hourlyPasses();
  world = await World.start({ api: "memory" });
  await world.startController();
  net = await world.network("blue", { subnets: "10.95.0.0/16" });
  // What a list begins is over before the watch that follows it is there.
  const way: Link = {
    fate: (_request, verb) => (verb === "watch" ? { answerMs: WATCH_OPENS_MS } : undefined),
  };
  node = await world.startNode("node-a", { way });
});
afterAll(async () => {
  await world?.stop();
  undo();
});

const readiness = async () => (await node.daemon.get("/readyz")).status;

test("a VM starts, migrates, stops and starts again; pods come and go", async () => {
  const other = await world.startNode("node-b");
  const vm = await world.vmGuest(net, node.name);
  const ips = await added(node, vm);
  const target = await world.target(vm, other.name);
  expect(await added(other, target)).toEqual(ips);
  await deleted(node, vm);
  const pod = await world.guest(net, node.name);
  await added(node, pod);
  await deleted(node, pod);
  await world.settledWith(net, [[target, ips]]);
});

test("after each gap in contact a node is not ready and refuses, then gives again without any pass", async () => {
  const found: number[] = [];
  for (let gap = 0; gap < GAPS; gap += 1) {
    await world.cluster.stopApiServer();
    await world.until(async () => (await readiness()) !== 200, "the node to say that it gives nothing");
    const { findings } = (await node.daemon.get("/v1/check")).json();
    found.push(findings.filter(({ invariant }: { invariant: string }) => invariant === "ready").length);
    // Its watch cache begins anew: a watch from before is refused as expired, and a list heals it.
    await world.cluster.startApiServer();
    const backMs = world.cluster.time.clock.monotonicMs();
    await addedInTheEnd(node, await world.guest(net, node.name));
    expect(world.cluster.time.clock.monotonicMs() - backMs).toBeLessThanOrEqual(AGAIN_MS_MAX);
    await world.until(async () => (await readiness()) === 200, "the node to be ready");
    // Once the watches are back no ADD is refused.
    for (let pods = 0; pods < 3; pods += 1) await added(node, await world.guest(net, node.name));
  }
  expect(found).toEqual(Array(GAPS).fill(1));
  await checked(node);
});
