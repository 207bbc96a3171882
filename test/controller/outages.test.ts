import { afterEach, beforeEach, expect, test } from "vitest";
import { CLAIMS_PATH, namespacedPath } from "../../kube/objects.ts";
import type { Fate, Link } from "../harness/kube-fake/client/link.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

// Who leads, and who writes, while whole controllers work and the API server is slow, frozen or killed.

const RETURN_MS = 5_000;
/** Between two looks at who leads, ms. */
const LOOK_MS = 250;
const SERVED = /^\/(apis\/coordination|api\/v1\/.*events|apis\/events)/;

let world: World;
let fate: () => Fate;
let ports: number[];
/** Who has sent a write that matters, in order. */
let writers: number[];
let claimCount: number;

beforeEach(async () => {
  world = await World.start({ api: "memory" });
  [fate, ports, writers, claimCount] = [() => ({}), [], [], 0];
});
afterEach(() => world.stop());

function nowMs(): number {
  return world.time.clock.monotonicMs();
}

async function start(count: number): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    const way: Link = {
      fate: ({ method, path }) => {
        if (method !== "GET" && !SERVED.test(path)) writers.push(index);
        return fate();
      },
    };
    ports.push((await world.startController({ identity: `c${index}` }, way)).port);
  }
  await world.importedNetwork("blue", { subnets: "10.9.0.0/16" });
}

/** The places of those that lead. */
async function leaders(): Promise<number[]> {
  const found: number[] = [];
  for (const [index, port] of ports.entries()) {
    const body = await world.time.run(fetch(`http://127.0.0.1:${port}/metrics`).then((one) => one.text()));
    if (body.includes("\nholdfast_controller_leader 1")) found.push(index);
  }
  return found;
}

/** Looks for so long, while there is always something to be written. Returns who led when. */
async function watch(ms: number): Promise<{ readonly atMs: number; readonly leaders: readonly number[] }[]> {
  const looks: { atMs: number; leaders: number[] }[] = [];
  for (const endMs = nowMs() + ms; nowMs() < endMs; ) {
    claimCount += 1;
    const address = `10.9.${Math.floor(claimCount / 200)}.${(claimCount % 200) + 10}/16`;
    (world.cluster as MemoryCluster).objects.put(namespacedPath(CLAIMS_PATH, NAMESPACE), {
      metadata: { name: `c${claimCount}`, namespace: NAMESPACE },
      spec: { network: "blue", interface: "" },
      status: { ips: [address] },
    });
    looks.push({ atMs: nowMs(), leaders: await leaders() });
    await world.advance(LOOK_MS);
  }
  return looks;
}

/** Each change of the writer is one. */
function changes(of: readonly number[]): number {
  return of.filter((one, index) => index > 0 && of[index - 1] !== one).length;
}

const OUTAGES = {
  frozen: (untilMs: number) => (): Fate => ({ requestMs: Math.max(1, untilMs - nowMs()) }),
  killed: (untilMs: number) => (): Fate => (nowMs() < untilMs ? { lost: "before" } : {}),
} as const;

test.each(
  (["frozen", "killed"] as const).flatMap((how) =>
    [3_000, 6_000, 20_000].flatMap((ms) => [1, 2].map((count) => ({ how, ms, count }))),
  ),
)(
  "after a server that was $how for $ms ms one of $count leads and works within 5 s, and never two",
  async ({ how, ms, count }) => {
    await start(count);
    await watch(5_000);
    const returnMs = nowMs() + ms;
    fate = OUTAGES[how](returnMs);
    if (how === "killed") await (world.cluster as MemoryCluster).stopApiServer();
    const away = await watch(ms);
    if (how === "killed") await (world.cluster as MemoryCluster).startApiServer();
    const written = writers.length;
    const back = await watch(30_000);
    const led = back.find((one) => one.leaders.length > 0);
    expect((led?.atMs ?? Number.POSITIVE_INFINITY) - returnMs).toBeLessThanOrEqual(RETURN_MS);
    expect(back.filter((one) => one.atMs > returnMs + RETURN_MS && one.leaders.length !== 1)).toEqual([]);
    expect([...away, ...back].filter((one) => one.leaders.length > 1)).toEqual([]);
    expect(writers.length).toBeGreaterThan(written);
    expect(changes(writers)).toBeLessThanOrEqual(1);
  },
);

test("a server that takes 1.5 s for everything costs the holder nothing", async () => {
  await start(2);
  await watch(3_000);
  const [holder] = await leaders();
  fate = () => ({ requestMs: 750, answerMs: 750 });
  const looks = await watch(120_000);
  expect(looks.filter((one) => one.leaders.join() !== `${holder}`)).toEqual([]);
  expect(changes(writers)).toBe(0);
});
