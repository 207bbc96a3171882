/** deploy/flowcontrol.yaml in an API server with few places, while a tenant takes all that it can get. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Flood } from "../harness/flood.ts";
import { type FlowCounts, flowControl, flowCounts } from "../harness/flow-control.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { collectionOf } from "../harness/kube-manifests.ts";
import { World } from "../harness/world/world.ts";

/** Of them the urgent level has two and the tenant four, by the shares of Kubernetes 1.20. */
const REQUESTS_MAX = 12;
const FLOOD = 24;
const ADDS = 20;
/** Of the tenant, as of every service account without a schema of its own. */
const OTHERS = "service-accounts";
const OURS = ["holdfast-adds", "holdfast-releases", "holdfast-lease", "holdfast-controller", "holdfast-node"];

let world: World;
beforeAll(async () => {
  const cluster = { requestsMax: REQUESTS_MAX };
  world = await World.start({ api: "server", cluster, nodes: ["node-a"], controller: {} });
}, 300_000);
afterEach(() => world.settled());
afterAll(() => world?.stop());

const counts = () => flowCounts(world.server.api);
const since = (before: FlowCounts, after: FlowCounts): FlowCounts => ({
  dispatched: after.dispatched - before.dispatched,
  rejected: after.rejected - before.rejected,
  waitedSeconds: after.waitedSeconds - before.waitedSeconds,
  waiting: after.waiting,
});

test("the API server takes every object, and no schema is without its level", async () => {
  const objects = await flowControl(world.server.api);
  await world.server.apply(objects);
  await world.server.apply(objects);
  const stored = (object: KubeObject) => world.server.api.get(`${collectionOf(object)}/${object.metadata.name}`);
  for (const object of objects) {
    // What a server does not know it drops without a word.
    expect((await stored(object)).spec).toMatchObject(object.spec);
    const dangling = async () => {
      const conditions: KubeObject[] = (await stored(object)).status?.conditions ?? [];
      return conditions.find(({ type }) => type === "Dangling")?.status;
    };
    if (object.kind === "FlowSchema")
      await world.until(async () => (await dangling()) === "False", `${object.metadata.name} to be in force`);
  }
});

test("requests of daemons and controller are in the flows that are meant for them", async () => {
  const before = await counts();
  const network = await world.network("calm", { subnets: "10.1.0.0/24" });
  const guests = [await world.guest(network, "node-a"), await world.vmGuest(network, "node-a")];
  for (const { pod, options } of guests) await world.given(pod, network, options);
  for (const { pod, options } of guests) await world.del(pod, network, options);
  const dispatched = async () => {
    const after = await counts();
    return OURS.map((name) => since(before(name), after(name)).dispatched);
  };
  // Releases, the Lease and the lists of the daemon come when they come.
  await world.until(async () => (await dispatched()).every((count) => count > 0), `requests of ${OURS}`);
  const after = await counts();
  expect(since(before("holdfast-adds"), after("holdfast-adds")).dispatched).toBeGreaterThanOrEqual(4);
  expect(since(before(OTHERS), after(OTHERS)).dispatched).toBe(0);
});

test("ADDs wait for nobody while a tenant's lists wait for each other", async () => {
  const network = await world.network("flooded", { subnets: "10.2.0.0/24" });
  const guests = [];
  for (let index = 0; index < ADDS; index += 1) guests.push(await world.guest(network, "node-a"));
  const flood = await Flood.prepare(world.server);
  flood.start(FLOOD);
  try {
    await world.until(async () => (await counts())(OTHERS).waiting > 0, "lists that wait");
    const before = await counts();
    for (const { pod } of guests) {
      // On a machine that is busy the API server may be slower than an ADD waits: the runtime tries again.
      const isGiven = async () => (await world.add(pod, network)).code === 0;
      await world.until(isGiven, `an address for ${pod.metadata.name}`);
    }
    await world.until(
      async () => (await counts())(OTHERS).dispatched > before(OTHERS).dispatched,
      "lists whose turn has come",
    );
    const after = await counts();
    const [adds, others] = ["holdfast-adds", OTHERS].map((name) => since(before(name), after(name))) as [
      FlowCounts,
      FlowCounts,
    ];
    expect(adds.rejected).toBe(0);
    expect(adds.dispatched).toBeGreaterThanOrEqual(ADDS);
    expect(others.waiting).toBeGreaterThan(0);
    const wait = ({ waitedSeconds, dispatched }: FlowCounts) => waitedSeconds / dispatched;
    expect(wait(adds)).toBeLessThan(wait(others) / 4);
  } finally {
    await flood.stop();
    flood.close();
  }
});
