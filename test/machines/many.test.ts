/** Many claims at once, and two controllers that both believe they are alone. */
import { afterEach, expect, test } from "vitest";
import { seededRandom } from "../faults/random.ts";
import type { Link } from "../harness/kube-fake/client/link.ts";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { World } from "../harness/world/world.ts";

const CLAIMS = 1_000;
/** Of two controllers. */
const CONTESTED = 300;
/** Longest way of a request or an answer, ms: long enough that writes of both cross. */
const WAY_MS_MAX = 30;

let world: World;
let capi: ClusterApi;
afterEach(async () => {
  await world?.stop();
});

async function begin(subnets: string): Promise<void> {
  world = await World.start({ api: "memory" });
  capi = await world.startClusterApi();
  await world.network("blue", { subnets });
  await capi.pool("machines", "blue");
}

const named = (count: number) => Array.from({ length: count }, (_, index) => `node-${index}`);

/** `claim address/prefix` of every claim, once all are answered. */
async function answers(count: number): Promise<string[]> {
  let found: string[] = [];
  await world.until(
    async () => {
      const answered = (await capi.claims()).filter(({ status }) => status?.addressRef?.name !== undefined);
      if (answered.length < count) return false;
      found = (await capi.addresses()).map(({ metadata, spec }) => `${metadata.name} ${spec.address}`);
      return found.length === count;
    },
    () => `${count} claims to be answered`,
  );
  return found.sort();
}

test("a thousand claims at once get as many addresses; claims of the same names get the same ones again", async () => {
  await begin("10.1.0.0/21");
  await world.startController();
  const names = named(CLAIMS);
  await Promise.all(names.map((name) => capi.claim(name, "machines")));
  const first = await answers(CLAIMS);
  expect(new Set(first.map((one) => one.split(" ")[1])).size).toBe(CLAIMS);
  await world.settled();
  await Promise.all(names.map((name) => capi.deleteClaim(name)));
  await world.until(async () => (await world.bound({ name: "blue" })).length === 0, "every address to cool down");
  await world.until(async () => (await capi.addresses()).length === 0, "the IPAddresses to go");
  await Promise.all(names.map((name) => capi.claim(name, "machines")));
  expect(await answers(CLAIMS)).toEqual(first);
  await world.settled();
});

test("two controllers that may use no lease give each claim one address, and none twice", async () => {
  const random = seededRandom("two controllers");
  await begin("10.1.0.0/22");
  const way: Link = {
    fate: ({ path }) =>
      path.includes("/leases")
        ? { status: 403 }
        : { requestMs: random.next() * WAY_MS_MAX, answerMs: random.next() * WAY_MS_MAX },
  };
  await world.startController({}, way);
  await world.startController({}, way);
  await Promise.all(named(CONTESTED).map((name) => capi.claim(name, "machines")));
  const given = await answers(CONTESTED);
  expect(new Set(given.map((one) => one.split(" ")[1])).size).toBe(CONTESTED);
  await world.settled();
  expect(await answers(CONTESTED)).toEqual(given);
});
