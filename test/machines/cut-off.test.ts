/**
 * A controller dies at each of its writes about a claim: whoever comes after it finds everything again, and nothing
 * twice.
 */
import { expect, test } from "vitest";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { CutLink } from "../harness/world/cut-link.ts";
import { World } from "../harness/world/world.ts";

/** About machines; not the status of pools and networks, which are written whenever they change. */
const WRITES = /\/(ipallocations|ipaddresses|ipaddressclaims)(\/|$)/;
/** A controller that takes the lease of the one before at once. */
const IDENTITY = "one";
/** Of a claim's whole life; one more finds nothing to cut. */
const CREATION = 3;
const DELETION = 2;

async function inWorld(work: (world: World, capi: ClusterApi) => Promise<void>): Promise<void> {
  const world = await World.start({ api: "memory" });
  try {
    const capi = await world.startClusterApi();
    const controller = await world.startController({ identity: IDENTITY });
    await world.network("blue", { subnets: "10.1.0.0/24" });
    await capi.pool("machines", "blue");
    await capi.untilPool("machines", "Serving");
    await controller.stop();
    await work(world, capi);
  } finally {
    await world.stop();
  }
}

/** Works until it is cut off, and dies of it. */
async function dying(world: World, way: CutLink, cause: () => Promise<unknown>): Promise<void> {
  const controller = await world.startController({ identity: IDENTITY }, way);
  await cause();
  await world.until(
    () => way.isCut,
    () => `the cut; it wrote ${way.writes.join(", ")}`,
  );
  await controller.stop();
}

const cuts = (writes: number) =>
  Array.from({ length: writes }, (_, index) => index + 1).flatMap((write) =>
    [true, false].map((delivered) => ({ write, delivered })),
  );

test.concurrent("a claim takes three writes to answer, and two to end", () =>
  inWorld(async (world, capi) => {
    const way = new CutLink();
    await world.startController({ identity: IDENTITY }, way);
    const claim = await capi.claim("node-0", "machines");
    const address = await capi.fulfilled("node-0");
    await world.settled();
    const about = () => way.writes.filter((one) => WRITES.test(one));
    expect(about().map((one) => one.split(" ")[0])).toEqual(["POST", "POST", "PATCH"]);
    expect(await world.bound({ name: "blue" })).toEqual([`${address} ${claim.metadata.uid}`]);
    await capi.deleteClaim("node-0");
    await world.becomes("blue", address, "Cooling");
    await world.until(async () => (await capi.address("node-0")) === null, "the IPAddress to go");
    expect(about()).toHaveLength(CREATION + DELETION);
  }));

test.concurrent.each(cuts(CREATION))("cut at write $write of an answer, delivered: $delivered", (cut) =>
  inWorld(async (world, capi) => {
    await dying(world, new CutLink({ ...cut, of: WRITES }), () => capi.claim("node-0", "machines"));
    const before = await world.bound({ name: "blue" });
    expect(before.length).toBe(cut.write > 1 || cut.delivered ? 1 : 0);
    await world.startController({ identity: IDENTITY });
    const address = await capi.fulfilled("node-0");
    if (before.length > 0) expect(before[0]).toContain(address);
    await world.settled();
    expect(await world.allocations({ name: "blue" })).toHaveLength(1);
  }),
);

test.concurrent.each(cuts(DELETION))("cut at write $write of an end, delivered: $delivered", (cut) =>
  inWorld(async (world, capi) => {
    const first = await world.startController({ identity: IDENTITY });
    await capi.claim("node-0", "machines");
    const address = await capi.fulfilled("node-0");
    await world.settled();
    await first.stop();
    await dying(world, new CutLink({ ...cut, of: WRITES }), () => capi.deleteClaim("node-0"));
    await world.startController({ identity: IDENTITY });
    await world.becomes("blue", address, "Cooling");
    await world.settled();
    expect(await capi.addresses()).toEqual([]);
    await capi.claim("node-0", "machines");
    expect(await capi.fulfilled("node-0")).toBe(address);
    await world.settled();
  }),
);
