/** Pods, VMs and machines take the addresses of one network at the same time, from daemons and from the controller. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { World } from "../harness/world/world.ts";

const NODES = ["node-a", "node-b", "node-c"];
/** Of each kind; together more than a /24 has. */
const EACH = 96;
/** ADDs of a node that run at once. */
const TOGETHER = 8;

let world: World;
let capi: ClusterApi;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: NODES });
  capi = await world.startClusterApi();
  await world.startController();
});
afterAll(async () => {
  await world?.stop();
});

/** The results of `work` for numbers from 0, some at a time. */
async function each<T>(count: number, together: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const index = next++;
      results[index] = await work(index);
    }
  };
  await Promise.all(Array.from({ length: together }, worker));
  return results;
}

test("pods, VMs and machines that use up a /24 get each address exactly once", async () => {
  const network = await world.importedNetwork("blue", { subnets: "10.1.0.0/24", cooldownSeconds: 1 });
  await capi.pool("machines", "blue");
  await capi.untilPool("machines", "Serving");
  const shown = async () => (await world.networkObject("blue")).status;
  await world.until(async () => (await shown()).free !== undefined, "the network to be counted");
  const free = Number((await shown()).free);
  expect(free).toBeGreaterThan(250);
  expect(3 * EACH).toBeGreaterThan(free);
  const nodeOf = (index: number) => NODES[index % NODES.length] as string;
  const asked = async (kind: "guest" | "vmGuest", index: number) => {
    const guest = await world[kind](network, nodeOf(index), `${kind.toLowerCase()}-${index}`);
    const answer = await world.add(guest.pod, network, guest.options);
    if (answer.code === 0) return answer.json().ips[0].address as string;
    expect(answer.json(), answer.stdout).toMatchObject({ code: 11 });
    return null;
  };
  const machine = async (index: number) => {
    const name = `machine-${index}`;
    await capi.claim(name, "machines");
    let reason: string | undefined;
    await world.until(
      async () => {
        reason = (await capi.ready(name))?.reason;
        return reason === "AddressAllocated" || reason === "PoolExhausted";
      },
      () => `${name} to be served or refused; it says ${reason}`,
    );
    return reason === "AddressAllocated" ? capi.fulfilled(name) : null;
  };
  const answers = await Promise.all([
    each(EACH, TOGETHER, (index) => asked("guest", index)),
    each(EACH, TOGETHER, (index) => asked("vmGuest", index)),
    each(EACH, EACH, machine),
  ]);
  const given = answers.map((one) => one.filter((address) => address !== null));
  const all = given.flat();
  expect(new Set(all).size).toBe(all.length);
  expect(all).toHaveLength(free);
  for (const one of given) expect(one.length).toBeGreaterThan(0);
  expect((await world.bound(network)).map((text) => text.split(" ")[0]).sort()).toEqual(all.sort());
  await world.until(async () => (await shown()).free === "0", "the network to be counted as full");
  // Who waits is served with what machines release.
  const waiting = answers[2].flatMap((address, index) => (address === null ? [`machine-${index}`] : []));
  const holding = answers[2].flatMap((address, index) => (address === null ? [] : [`machine-${index}`]));
  expect(waiting.length + holding.length).toBe(EACH);
  const leaving = holding.slice(0, waiting.length);
  for (const name of leaving) await capi.deleteClaim(name);
  await Promise.all(waiting.slice(0, leaving.length).map((name) => capi.fulfilled(name)));
  await world.settled();
});
