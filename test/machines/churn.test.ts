/**
 * Claims come and go at random under faults of every kind, and after each write of anybody the addresses are looked at.
 */
import { expect, test } from "vitest";
import type { Controller } from "../../controller/controller.ts";
import { type Random, seededRandom } from "../faults/random.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import type { Fate, Link } from "../harness/kube-fake/client/link.ts";
import type { ClusterApi } from "../harness/machines/cluster-api.ts";
import type { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { ownLease } from "../harness/world/own-lease.ts";
import { World } from "../harness/world/world.ts";
import { AddressWatcher } from "./address-watcher.ts";

const NAMES = Array.from({ length: 48 }, (_, index) => `node-${index}`);
const CLUSTERS = ["east", "west"];
/** Pools share addresses, and have fewer than there are names. */
const RANGES = { one: ["10.1.0.16/28", "10.1.0.32/29"], two: ["10.1.0.32/28"] };
const STEPS = 250;
const STEP_MS_MAX = 120;
const PAUSED = "cluster.x-k8s.io/paused";
/** Of the requests of a controller that get lost or are refused, before it and behind it. */
const LOSS = 0.04;

const ACTS = {
  create: 30,
  delete: 14,
  replace: 10,
  pauseClaim: 4,
  pauseCluster: 5,
  deleteAddress: 6,
  admission: 4,
  away: 1,
  restart: 2,
  pool: 3,
} as const;
type Act = keyof typeof ACTS;

function actOf(random: Random): Act {
  const all = Object.entries(ACTS).flatMap(([act, weight]) => Array.from({ length: weight }, () => act as Act));
  return random.pick(all);
}

function lossy(random: Random, isFair: () => boolean): Link {
  const fates: readonly Fate[] = [
    { lost: "before" },
    { lost: "after" },
    { status: 500 },
    { status: 503 },
    { twice: true },
    { answerMs: 200 },
  ];
  return {
    fate: ({ path }, verb) => {
      if (path.includes("/leases") || isFair() || verb !== "send") return undefined;
      return random.chance(LOSS * fates.length) ? random.pick(fates) : { answerMs: random.below(15) };
    },
  };
}

/** Somebody who does not know what is there: what cannot be done is left. */
class Users {
  readonly #random: Random;
  readonly #world: World;
  readonly #capi: ClusterApi;
  readonly #restart: () => Promise<void>;

  constructor(random: Random, world: World, capi: ClusterApi, restart: () => Promise<void>) {
    this.#random = random;
    this.#world = world;
    this.#capi = capi;
    this.#restart = restart;
  }

  async act(act: Act): Promise<void> {
    const name = this.#random.pick(NAMES);
    const capi = this.#capi;
    switch (act) {
      case "create":
        return void (await this.#create(name));
      case "delete":
        return capi.deleteClaim(name);
      case "replace":
        await capi.deleteClaim(name);
        return void (await this.#create(name));
      case "pauseClaim": {
        const annotations = { [PAUSED]: this.#random.chance(0.5) ? "" : null };
        return void (await capi.editClaim(name, { metadata: { annotations } }).catch(() => {}));
      }
      case "pauseCluster": {
        const spec = { paused: this.#random.chance(0.5) };
        return void (await capi.editCluster(this.#random.pick(CLUSTERS), { spec }));
      }
      case "deleteAddress":
        return capi.deleteAddress(name);
      case "admission":
        return capi.admission.become(this.#random.pick(["up", "up", "down", "refusing"] as const));
      case "away":
        await this.#world.cluster.stopApiServer();
        await this.#world.advance(300);
        return this.#world.cluster.startApiServer();
      case "restart":
        return this.#restart();
      case "pool": {
        const ranges = this.#random.pick([RANGES.one, RANGES.two, ["10.1.0.40/29"]]);
        return void (await capi.editPool("two", { spec: { ranges } }));
      }
    }
  }

  /** From now on nothing hinders anybody. */
  async leave(): Promise<void> {
    await this.#capi.admission.become("up");
    for (const name of CLUSTERS) await this.#capi.editCluster(name, { spec: { paused: false } });
    for (const { metadata } of await this.#capi.claims())
      await this.#capi.editClaim(metadata.name, { metadata: { annotations: { [PAUSED]: null } } });
    await this.#capi.editPool("one", { spec: { ranges: ["10.1.0.16-10.1.0.120"] } });
    await this.#capi.editPool("two", { spec: { ranges: ["10.1.0.16-10.1.0.120"] } });
  }

  /**
   * What is left of claims that are gone: by two controllers at once, one of which tells a claim of its address while
   * the other releases that because the claim is gone, or by a creation that came late. An administrator deletes it.
   */
  async clearLeftovers(isLeftover: (address: KubeObject) => boolean): Promise<void> {
    const living = new Set((await this.#capi.claims()).map(({ metadata }) => metadata.uid));
    for (const address of await this.#capi.addresses())
      if (!address.metadata.ownerReferences?.some(({ uid }: KubeObject) => living.has(uid)) && isLeftover(address))
        await this.#capi.deleteAddress(address.metadata.name);
  }

  #create(name: string): Promise<unknown> {
    const cluster = this.#random.chance(0.5) ? { cluster: this.#random.pick(CLUSTERS) } : {};
    return this.#capi.claim(name, this.#random.pick(["one", "two"]), cluster).catch(() => {});
  }
}

test.each([1, 2])("claims that come and go are served by %i controllers over a lossy connection", async (count) => {
  const random = seededRandom(`${count} controllers`);
  const world = await World.start({ api: "memory" });
  try {
    const capi = await world.startClusterApi();
    await world.network("blue", { subnets: "10.1.0.0/24", cooldownSeconds: 1 });
    for (const [name, ranges] of Object.entries(RANGES)) await capi.pool(name, "blue", { ranges });
    for (const name of CLUSTERS) await capi.capiCluster(name);
    let isFair = false;
    const controllers: Controller[] = [];
    const start = async () => {
      controllers.push(
        await world.startController(
          { namespace: await ownLease(world.cluster) },
          lossy(random, () => isFair),
        ),
      );
    };
    for (let index = 0; index < count; index++) await start();
    await capi.untilPool("one", "Serving");
    const watcher = new AddressWatcher((world.cluster as MemoryCluster).objects);
    const users = new Users(random, world, capi, async () => {
      await controllers.shift()?.stop();
      await start();
    });
    for (let step = 0; step < STEPS; step++) {
      await users.act(actOf(random));
      expect(watcher.faults, `after step ${step}`).toEqual([]);
      if (count === 1) expect(watcher.races, `after step ${step}`).toEqual([]);
      await world.advance(random.below(STEP_MS_MAX));
    }
    isFair = true;
    await users.leave();
    if (count > 1) await users.clearLeftovers(() => true);
    // Creations may be under way still.
    await world.until(async () => {
      await users.clearLeftovers((address) => watcher.isLeftover(address));
      return (await capi.claims()).every(({ status }) => status?.addressRef !== undefined);
    }, "the claims to be answered");
    await Promise.all((await capi.claims()).map(({ metadata }) => capi.fulfilled(metadata.name)));
    await world.settled();
    expect(watcher.faults).toEqual([]);
    expect(watcher.told).toBeGreaterThan(20);
  } finally {
    await world.stop();
  }
});
