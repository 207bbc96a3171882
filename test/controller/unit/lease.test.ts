import { expect, test } from "vitest";
import { LEASE, LeaseWorld } from "./lease-candidates.ts";

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/system/leases";
const HOUR_MS = 3_600_000;

/** Two candidates, of which the first leads. */
async function both() {
  const world = new LeaseWorld();
  const a = world.join();
  await world.pass(1_000);
  const b = world.join({ wallMs: Date.UTC(2031, 4, 6) });
  await world.pass(5_000);
  expect([a.leads, b.leads]).toEqual([true, false]);
  return { world, a, b };
}

test("the first candidate acquires and renews the lease, with times of six fractional digits", async () => {
  const world = new LeaseWorld();
  const a = world.join({ wallMs: Date.UTC(2026, 0, 1) + 123 });
  expect(a.leads).toBe(false);
  await world.pass(60_000);
  expect(a.leads).toBe(true);
  expect(world.object.spec).toMatchObject({
    holderIdentity: "a",
    leaseDurationSeconds: 15,
    acquireTime: "2026-01-01T00:00:00.125000Z",
    renewTime: "2026-01-01T00:00:58.123000Z",
    leaseTransitions: 0,
  });
});

test("another candidate takes over 15 to 18 s after it has seen the last renewal", async () => {
  const { world, a, b } = await both();
  a.kill();
  const killedMs = world.time.nowMs;
  await world.pass(30_000);
  expect(b.leads).toBe(true);
  const { toMs = 0 } = world.gaps(killedMs)[0] ?? {};
  expect(toMs - killedMs).toBeGreaterThan(13_000);
  expect(toMs - killedMs).toBeLessThan(18_000);
  expect(world.object.spec).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
});

test("wall clocks that are hours apart, or jump, change nothing", async () => {
  const { world, a, b } = await both();
  for (const [one, hours] of [
    [a, -7],
    [b, 30],
    [a, 12],
    [b, -90],
  ] as const) {
    one.clock.jumpWall(hours * HOUR_MS);
    await world.pass(30_000);
    expect([a.leads, b.leads]).toEqual([true, false]);
  }
  expect(world.gaps(1_000)).toEqual([]);
});

test("a holder that cannot renew stops leading after 10 s", async () => {
  const { world, a, b } = await both();
  a.fate = () => ({ hangs: true });
  const cutMs = world.time.nowMs;
  await world.pass(30_000);
  const [gap] = world.gaps(cutMs);
  expect((gap?.fromMs ?? 0) - cutMs).toBeLessThanOrEqual(10_000);
  // It is over with whatever it began to write before that, which takes 5 s at most.
  expect((gap?.toMs ?? 0) - (gap?.fromMs ?? 0)).toBeGreaterThanOrEqual(5_000);
  expect([a.leads, b.leads]).toEqual([false, true]);
  a.fate = () => undefined;
  await world.pass(30_000);
  expect([a.leads, b.leads]).toEqual([false, true]);
});

test("the candidate that waits leads within 2.1 s of the clean stop of the leader", async () => {
  const { world, a, b } = await both();
  const stop = a.lease.stop();
  expect(a.leads).toBe(false);
  await world.pass(2_100);
  await stop;
  expect(b.leads).toBe(true);
  expect(world.doubled).toEqual([]);
});

test("a leader that stops in the middle of a renewal gives the lease back too, and does not take it again", async () => {
  for (const delayMs of [1, 400, 900]) {
    const { world, a, b } = await both();
    a.fate = ({ method }) => (method === "PUT" ? { requestMs: delayMs } : {});
    await world.pass(1_999);
    const stop = a.lease.stop();
    a.fate = () => undefined;
    await world.pass(2_100);
    await stop;
    expect(b.leads).toBe(true);
    await world.pass(30_000);
    expect([world.object.spec.holderIdentity, world.doubled]).toEqual(["b", []]);
  }
});

test("a leader that stops while it reads what became of a renewal does not take the lease again", async () => {
  const { world, a, b } = await both();
  let isReading = false;
  a.fate = ({ method }) => {
    isReading = method === "GET";
    return isReading ? { requestMs: 500 } : { hangs: true };
  };
  while (!isReading) await world.pass(10);
  expect(a.leads).toBe(true);
  // The lease is free before the read comes to it, and the answer to that is behind the read's.
  a.fate = ({ method }) => (method === "PUT" ? { answerMs: 900 } : undefined);
  const stop = a.lease.stop();
  await world.pass(2_100);
  await stop;
  await world.pass(5_000);
  expect([b.leads, world.object.spec.holderIdentity]).toEqual([true, "b"]);
});

test("a process that stops while the API server does not answer ends within a second", async () => {
  const { world, a } = await both();
  world.cutOffFor(60_000);
  const beginMs = world.time.nowMs;
  await world.time.run(a.lease.stop());
  expect(world.time.nowMs - beginMs).toBeLessThanOrEqual(1_000);
});

test.each([
  ["lost after it was done", { lost: "after" }],
  ["lost on its way", { lost: "before" }],
  ["never answered, and done", { unheard: true }],
  ["done twice by a proxy", { twice: true }],
  ["done when it was given up long ago", { requestMs: 9_000 }],
  ["answered with 500", { status: 500 }],
] as const)("a renewal that is %s is settled by reading the lease, and the leader goes on", async (_what, fate) => {
  const { world, a } = await both();
  let puts = 0;
  a.fate = ({ method }) => {
    puts += method === "PUT" ? 1 : 0;
    return method === "PUT" && puts % 4 === 1 ? fate : undefined;
  };
  await world.pass(120_000);
  expect(puts).toBeGreaterThan(30);
  expect(world.gaps(1_000)).toEqual([]);
  expect(world.object.spec).toMatchObject({ holderIdentity: "a", leaseTransitions: 0 });
});

test("a leader goes on when somebody else changes an annotation of the lease", async () => {
  const { world } = await both();
  for (let round = 0; round < 10; round += 1) {
    const { metadata, ...lease } = world.object;
    world.server.put(LEASES, { ...lease, metadata: { ...metadata, annotations: { round: `${round}` } } });
    await world.pass(3_000);
  }
  expect(world.gaps(1_000)).toEqual([]);
  expect(world.object.metadata.annotations).toEqual({ round: "9" });
});

test("a lease that somebody deletes is created again by the leader, and nobody else leads meanwhile", async () => {
  const { world, a, b } = await both();
  for (const ms of [100, 700, 1_300, 1_900]) {
    await world.pass(ms);
    world.server.remove(LEASE);
    await world.pass(5_000);
  }
  expect([a.leads, b.leads, world.object.spec.holderIdentity]).toEqual([true, false, "a"]);
  expect([world.doubled, world.gaps(1_000)]).toEqual([[], []]);
});

test("a former leader does not create a lease again that was deleted while another one leads", async () => {
  const { world, a, b } = await both();
  a.fate = () => ({ hangs: true });
  await world.pass(40_000);
  expect(b.leads).toBe(true);
  b.fate = () => ({ requestMs: 1_500 });
  a.fate = () => undefined;
  world.server.remove(LEASE);
  await world.pass(10_000);
  expect([world.doubled, world.object.spec.holderIdentity]).toEqual([[], "b"]);
});

test("a lease of a holder that is gone can be deleted: the next one leads 15 s later at the latest", async () => {
  const { world, a, b } = await both();
  a.kill();
  world.server.remove(LEASE);
  await world.pass(17_500);
  expect(b.leads).toBe(true);
});

test.each([
  ["no right to leases", { status: 403 }],
  ["a server without leases", "missing"],
] as const)("with %s every controller leads, after 15 s", async (_what, how) => {
  const world = new LeaseWorld();
  if (how === "missing") world.server.served.withheld.add("coordination.k8s.io/leases");
  else world.fate = () => how;
  const candidates = [world.join(), world.join()];
  await world.pass(14_000);
  expect(candidates.map(({ leads }) => leads)).toEqual([false, false]);
  await world.pass(20_000);
  expect(candidates.map(({ leads }) => leads)).toEqual([true, true]);
  expect(candidates.map(({ logged }) => logged.length)).toEqual([1, 1]);
  world.server.served.withheld.clear();
  world.fate = () => undefined;
  await world.pass(5_000);
  expect(candidates.filter(({ leads }) => leads)).toHaveLength(1);
});

test("a server that starts and refuses everything for a while makes nobody lead beside the holder", async () => {
  const { world } = await both();
  for (let round = 0; round < 5; round += 1) {
    world.fate = () => ({ status: 403 });
    await world.pass(3_000 * (round + 1));
    world.fate = () => undefined;
    await world.pass(20_000);
  }
  expect(world.doubled).toEqual([]);
});

test("a policy that refuses the lease does not stop the work, and is logged once", async () => {
  const world = new LeaseWorld();
  const a = world.join();
  a.fate = ({ method }) => (method === "GET" ? undefined : { status: 403, message: "the policy says no" });
  await world.pass(40_000);
  expect(a.leads).toBe(true);
  expect(a.logged).toEqual([{ status: 403, problem: "the policy says no" }]);
});
