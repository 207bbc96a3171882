import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { anyCluster, CLUSTERS, ENDING_NAMESPACE, makeCluster, NAMESPACES, setPaused } from "./clusters.ts";
import { DATA_KINDS, DATA_OWED } from "./data.ts";
import { installCapi, switchCapi } from "./definitions.ts";
import { type FleetMachine, fleetOf } from "./fleet.ts";
import { isAway, moveThereAndBack } from "./move.ts";
import { allOf, at, create, isBeingDeleted, isOpen, keyOf, remove, servedVersion } from "./objects.ts";
import { machinePlan } from "./plan.ts";
import { anyAddressOf, anyPool, deletePool, editPool, makePool } from "./pools.ts";

/** Few names, so that machines come again under those of before. */
const MACHINES = 12;
/** More would fill every network, and nothing else could happen. */
const MACHINES_MAX = 40;

/** What users and operators of Cluster API do. */
export const MACHINE_KINDS: ActionKinds = {
  "machine-make": { weight: 4, run: makeMachine },
  "machine-delete": { weight: 1.5, run: (world, chance) => endMachine(world, chance, false) },
  "machine-replace": { weight: 1.5, run: (world, chance) => endMachine(world, chance, true) },
  "machine-address-delete": { weight: 0.4, run: deleteAddress },
  "machine-address-stranger": { weight: 0.4, run: strangeAddress },
  "pool-make": { weight: 0.7, run: makePool },
  "pool-edit": { weight: 0.5, run: editPool },
  "pool-delete": { weight: 0.3, run: deletePool },
  "cluster-pause": { weight: 0.4, run: pause },
  "cluster-unpause": { weight: 0.8, run: unpause },
  "cluster-move": { weight: 0.4, run: move },
  "cluster-teardown": { weight: 0.25, run: tearDown },
  "machine-namespace-end": { weight: 0.25, run: endNamespace },
  "capi-install": { weight: 0.3, run: install },
  "capi-switch-version": { weight: 0.2, run: switchVersion },
  ...DATA_KINDS,
};

/** What must be counted in a long run. */
export const MACHINES_OWED: readonly string[] = [
  "machines.claimed",
  "machines.answered",
  "machines.ended",
  "machines.replaced",
  "machines.moved-away",
  "machines.moved-back",
  "machines.paused",
  "machines.unpaused",
  "machines.torn-down",
  "machines.pool-made",
  "machines.pool-edited",
  "machines.pool-deleted",
  "machines.address-deleted",
  "machines.address-of-a-stranger",
  "machines.namespace-ended",
  "machines.version-switched",
  ...DATA_OWED,
];

async function makeMachine(world: World, chance: Chance): Promise<void> {
  const fleet = fleetOf(world);
  const namespace = chance.of(NAMESPACES);
  const cluster = chance.of(CLUSTERS);
  if (namespace === undefined || cluster === undefined || fleet.machines.size >= MACHINES_MAX) return;
  const key = `${namespace}/${cluster}`;
  if (servedVersion(world, "claims") === null || isAway(world, key)) return;
  if ((await makeCluster(world, namespace, cluster)) === null) return;
  const pool = anyPool(world, chance, namespace);
  if (pool === null) return;
  const name = `m-${chance.below(MACHINES)}`;
  const wished = chance.happens(0.15) ? anyAddressOf(world, pool, chance) : null;
  const annotations: Record<string, string> = wished === null ? {} : { "ipam.holdfast.dev/address": wished };
  const namesCluster = chance.happens(0.5);
  const poolName = pool.metadata.name;
  fleet.add({ namespace, name, cluster, pool: poolName, annotations, namesCluster });
}

/** Somebody deletes it: the provider turns it off, and lets its claim go. */
async function endMachine(world: World, chance: Chance, isReplaced: boolean): Promise<void> {
  const machine = anyMachine(world, chance);
  if (machine === null) return;
  machine.isWanted = false;
  machine.isReplaced = isReplaced;
  world.story.tell(
    "metal admin",
    `${isReplaced ? "replaces" : "deletes"} machine ${machine.namespace}/${machine.name}`,
  );
  const key = `${machine.namespace}/${machine.name}`;
  const by = chance.of(["its machine", "its claim", "the provider"]);
  if (by === "its machine") await remove(world, "vsphereVms", key, { propagation: "Background" });
  if (by === "its claim") await remove(world, "claims", key);
  fleetOf(world).mark(key);
}

function anyMachine(world: World, chance: Chance): FleetMachine | null {
  const all = [...fleetOf(world).machines.values()].filter((one) => one.isWanted && !one.isMoving);
  return chance.of(all) ?? null;
}

/** By hand: it comes back, and says the same. */
async function deleteAddress(world: World, chance: Chance): Promise<void> {
  const address = chance.of(allOf(world, "addresses").filter((one) => !isOnlyRecord(world, keyOf(one))));
  if (address === undefined) return;
  await remove(world, "addresses", keyOf(address));
  world.counts.add("machines.address-deleted");
  world.story.tell("metal admin", `deletes IPAddress ${keyOf(address)}`);
}

/**
 * A machine runs with it, and it is on its way with its cluster or has just come, so that no ledger has it for this
 * claim yet.
 */
function isOnlyRecord(world: World, key: string): boolean {
  const machine = fleetOf(world).machines.get(key);
  if (machine === undefined || machine.used === null) return false;
  const isMoved = isAway(world, `${machine.namespace}/${machine.cluster}`);
  return isMoved || at(world, "claims", key)?.status?.addressRef === undefined;
}

/** An IPAddress that nobody of ours has made: for a claim that waits, that does not exist, or with the name of none. */
async function strangeAddress(world: World, chance: Chance): Promise<void> {
  const pool = anyPool(world, chance);
  if (pool === null) return;
  const { namespace } = pool.metadata;
  const address = anyAddressOf(world, pool, chance);
  if (address === null || !isOpen(world, namespace)) return;
  const waiting = allOf(world, "claims", namespace).filter(
    ({ spec, status, metadata }) =>
      spec.poolRef.name === pool.metadata.name &&
      status?.addressRef === undefined &&
      !usesAddress(world, `${namespace}/${metadata.name}`),
  );
  const claim = chance.of(waiting)?.metadata.name ?? `m-${chance.below(MACHINES)}`;
  if (usesAddress(world, `${namespace}/${claim}`)) return;
  const made = await create(world, "addresses", {
    metadata: { name: chance.happens(0.7) ? claim : `stranger-${chance.below(5)}`, namespace },
    spec: {
      address,
      prefix: 24,
      claimRef: { name: claim },
      poolRef: { apiGroup: "ipam.holdfast.dev", kind: "AddressPool", name: pool.metadata.name },
    },
  });
  if (made === null) return;
  world.counts.add("machines.address-of-a-stranger");
  world.story.tell("another provider", `makes IPAddress ${keyOf(made)} ${address}`);
}

/** A machine that runs is not told anything else by anybody. */
function usesAddress(world: World, key: string): boolean {
  return fleetOf(world).machines.get(key)?.used != null;
}

async function pause(world: World, chance: Chance): Promise<void> {
  const key = anyCluster(world, chance);
  if (key === null || isAway(world, key)) return;
  await setPaused(world, key, true);
  world.counts.add("machines.paused");
}

async function unpause(world: World, chance: Chance): Promise<void> {
  const paused = allOf(world, "clusters").filter((one) => one.spec?.paused === true);
  const key = chance.of(paused.map(keyOf).filter((one) => !isAway(world, one)));
  if (key === undefined) return;
  await setPaused(world, key, false);
  world.counts.add("machines.unpaused");
}

async function move(world: World, chance: Chance): Promise<void> {
  const key = anyCluster(world, chance);
  if (key !== null) void moveThereAndBack(world, key, chance);
}

/** All of its machines, and then the Cluster. */
async function tearDown(world: World, chance: Chance): Promise<void> {
  const key = anyCluster(world, chance);
  if (key === null || isAway(world, key) || at(world, "clusters", key)?.spec?.paused === true) return;
  world.story.tell("metal admin", `tears down cluster ${key}`);
  for (const machine of fleetOf(world).of(key)) {
    machine.isWanted = false;
    fleetOf(world).mark(`${machine.namespace}/${machine.name}`);
  }
  const look = () => {
    if (isAway(world, key)) return;
    if (fleetOf(world).of(key).length > 0) return void world.clock.timer(1_000, look);
    world.counts.add("machines.torn-down");
    void remove(world, "clusters", key);
  };
  world.clock.timer(1_000, look);
}

/** With everything in it; it is made again when somebody wants a machine there. */
async function endNamespace(world: World): Promise<void> {
  const object = world.cluster.etcd.get("/namespaces", ENDING_NAMESPACE);
  const isMoving = CLUSTERS.some((name) => isAway(world, `${ENDING_NAMESPACE}/${name}`));
  if (object === null || isBeingDeleted(object) || isMoving) return;
  world.counts.add("machines.namespace-ended");
  world.story.tell("metal admin", `deletes namespace ${ENDING_NAMESPACE}`);
  for (const machine of fleetOf(world).machines.values()) {
    if (machine.namespace !== ENDING_NAMESPACE) continue;
    machine.isWanted = false;
    fleetOf(world).mark(`${machine.namespace}/${machine.name}`);
  }
  await world.cluster.admin.remove(`/api/v1/namespaces/${ENDING_NAMESPACE}`);
}

async function install(world: World): Promise<void> {
  if (servedVersion(world, "claims") !== null) return;
  const { version } = machinePlan(world.seed);
  await installCapi(world, version);
  world.counts.add("machines.installed");
  world.story.tell("metal admin", `installs Cluster API (${version})`);
}

async function switchVersion(world: World): Promise<void> {
  const version = await switchCapi(world);
  if (version === null) return;
  world.counts.add("machines.version-switched");
  world.story.tell("metal admin", `upgrades Cluster API: claims are ${version} now`);
}
