/**
 * Somebody leads soon after a real API server was frozen or killed: seen in the metric, and in how soon a claim is
 * answered.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Controller } from "../../controller/controller.ts";
import { sleep, systemClock } from "../../platform/time.ts";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import { pause, until } from "../harness/wait.ts";
import { World } from "../harness/world/world.ts";

/** Somebody leads so soon after the server answers again, ms. */
const RETURN_MS = 5_000;
/** How long it is looked at afterwards, ms: a lease that is lost by an outage is lost some seconds later. */
const AFTERWARDS_MS = 12_000;
const LOOK_MS = 50;

let world: World;
let capi: ClusterApi;
let controllers: Controller[] = [];
let claims = 0;

beforeAll(async () => {
  world = await World.start({ api: "server" });
  capi = await world.startClusterApi({ version: "v1beta1" });
  await world.network("blue", { subnets: "10.1.0.0/22" });
  const first = await world.startController();
  await capi.pool("machines", "blue");
  await capi.untilPool("machines", "Serving");
  await capi.capiCluster("prod");
  await first.stop();
});
afterAll(async () => {
  await world?.stop();
});
beforeEach(() => {
  controllers = [];
});
afterEach(async () => {
  await Promise.all(controllers.map((one) => one.stop()));
});

/** Who leads, as the metric shows, from now on until `stop`. */
class Leadership {
  /** Since when nobody leads; null: somebody does. */
  #sinceMs: number | null = null;
  readonly gaps: { readonly fromMs: number; toMs: number }[] = [];
  most = 0;
  readonly #life = new AbortController();
  readonly #looking: Promise<void>;

  constructor() {
    this.#looking = this.#look();
  }

  async stop(): Promise<void> {
    this.#life.abort();
    await this.#looking;
  }

  async #look(): Promise<void> {
    while (!this.#life.signal.aborted) {
      const leading = await Promise.all(controllers.map(leads));
      const count = leading.filter(Boolean).length;
      this.most = Math.max(this.most, count);
      const nowMs = systemClock.monotonicMs();
      const open = this.#sinceMs === null ? undefined : this.gaps.at(-1);
      if (open !== undefined) open.toMs = nowMs;
      if (count > 0) this.#sinceMs = null;
      else if (open === undefined) {
        this.#sinceMs = nowMs;
        this.gaps.push({ fromMs: nowMs, toMs: nowMs });
      }
      await sleep(systemClock, LOOK_MS);
    }
  }
}

async function leads({ port }: Controller): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
  return /^holdfast_controller_leader 1$/m.test(await answer.text());
}

const OUTAGES = {
  frozen: {
    begin: async () => world.server.pauseApiServer(),
    end: async () => world.server.continueApiServer(),
  },
  killed: { begin: () => world.server.stopApiServer(), end: () => world.server.startApiServer() },
} as const;

async function served(): Promise<void> {
  await until(
    async () => (await world.cluster.api.call("GET", "/readyz").catch(() => null))?.status === 200,
    "the API server",
  );
}

const CASES = (process.env.HOLDFAST_TEST_OUTAGES ?? "frozen 3 1, frozen 4 2, frozen 6 1, killed 8 2")
  .split(", ")
  .map((one) => one.split(" ") as ["frozen" | "killed", string, string]);

// A machine that is busy may take the time that the controllers have: it is tried once again.
test.each(CASES)(
  "after an API server that was %s for %s s somebody leads within 5 s, with %s controllers",
  {
    retry: 1,
  },
  async (how, seconds, count) => {
    for (let started = 0; started < Number(count); started += 1) {
      controllers.push(await world.startController());
      await until(async () => leads(controllers[0] as Controller), "the first to lead");
    }
    await pause(3_000);
    const leadership = new Leadership();
    const beganMs = systemClock.monotonicMs();
    await OUTAGES[how].begin();
    await pause(Number(seconds) * 1_000);
    const ended = OUTAGES[how].end();
    await served();
    const servedMs = systemClock.monotonicMs();
    claims += 1;
    await capi.claim(`claim-${claims}`, "machines", { cluster: "prod" });
    await capi.fulfilled(`claim-${claims}`);
    const answeredMs = systemClock.monotonicMs();
    await ended;
    await pause(Math.max(0, AFTERWARDS_MS - (answeredMs - servedMs)));
    await leadership.stop();
    const after = leadership.gaps.map(({ toMs }) => Math.round(toMs - servedMs));
    const s = (ms: number) => (ms / 1_000).toFixed(1);
    const without = leadership.gaps.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
    const gaps = leadership.gaps.map(({ fromMs, toMs }) => `${s(fromMs - servedMs)} to ${s(toMs - servedMs)}`);
    console.log(
      `${how} ${seconds} s, ${count} controllers: away ${s(servedMs - beganMs)} s; nobody led ${s(without)} s ` +
        `(${gaps.join(", ") || "never"}, from its return); a claim answered ${s(answeredMs - servedMs)} s after it`,
    );
    expect(leadership.most).toBe(1);
    expect(Math.max(0, ...after)).toBeLessThanOrEqual(RETURN_MS);
    expect(answeredMs - servedMs).toBeLessThanOrEqual(RETURN_MS * 2);
  },
);
