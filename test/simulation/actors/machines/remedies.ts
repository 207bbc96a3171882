import type { Timer } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { World } from "../../world.ts";
import { type FleetMachine, fleetOf } from "./fleet.ts";
import { allOf, at, create, isBeingDeleted, keyOf, patch, remove } from "./objects.ts";
import { OWN_NETWORK, ownPool } from "./pools.ts";

/**
 * Between two looks at what claims say, in peace, ms: controllers may begin late, and one remedy may show the next
 * trouble.
 */
const LOOK_MS = 10_000;

const ALLOCATION = "ipam.holdfast.dev/allocation";

const LOOKS = new WeakMap<World, Timer>();

/**
 * In peace, people make pools again without which nobody can put right what machines have: at once, and until
 * `stopMending` from time to time, where the machine, its claim or the pool says so.
 */
export async function mendPools(world: World): Promise<void> {
  await lookAtMachines(world);
  const timer = world.clock.timer(LOOK_MS, () => {
    timer.restart();
    void lookAtMachines(world).then(() => lookAtClaims(world));
  });
  LOOKS.set(world, timer);
}

/** clusterctl brings the pool of those that it moves along, before their claims. */
async function lookAtMachines(world: World): Promise<void> {
  for (const machine of fleetOf(world).machines.values())
    if (!machine.isMoving && machine.used !== null && lacksAddress(world, machine))
      await makeAgain(world, machine.namespace, machine.pool, machine.used.network);
}

export function stopMending(world: World): void {
  LOOKS.get(world)?.cancel();
  LOOKS.delete(world);
}

/**
 * It uses an address, and its pool is gone, without which nobody records the address again where nothing keeps it, nor
 * makes its IPAddress again.
 */
function lacksAddress(world: World, { namespace, name, pool, used }: FleetMachine): boolean {
  if (used === null || at(world, "pools", `${namespace}/${pool}`) !== null) return false;
  if (at(world, "addresses", `${namespace}/${name}`) === null) return true;
  return !allOf(world, "allocations").some(
    ({ spec, status }) =>
      spec.network === used.network &&
      spec.owner.namespace === namespace &&
      spec.owner.name === name &&
      status?.state === "Bound",
  );
}

async function lookAtClaims(world: World): Promise<void> {
  for (const claim of allOf(world, "claims")) {
    const { namespace, uid } = claim.metadata;
    if (isHeldByAnother(world, claim)) await deleteAnswer(world, keyOf(claim));
    if (!isWithoutAnswer(world, claim)) continue;
    const held = allOf(world, "allocations").find(
      ({ spec, status }) => spec.owner.uid === uid && status?.state === "Bound",
    );
    if (held !== undefined) await mend(world, namespace, claim.spec.poolRef.name, held.spec.network);
  }
}

/**
 * What it came back with was given to somebody else meanwhile, after a restore, and its machine does not run with it.
 */
function isHeldByAnother(world: World, claim: KubeObject): boolean {
  const key = keyOf(claim);
  const name = at(world, "addresses", key)?.metadata.annotations?.[ALLOCATION];
  const machine = fleetOf(world).machines.get(key);
  if (name === undefined || machine === undefined || machine.used !== null || machine.isMoving) return false;
  const holder = at(world, "allocations", name)?.spec.owner;
  return holder !== undefined && holder.uid !== claim.metadata.uid && whyNotReady(claim) === "AllocationFailed";
}

async function deleteAnswer(world: World, key: string): Promise<void> {
  await remove(world, "addresses", key);
  world.counts.add("machines.address-given-up");
  world.story.tell("metal admin", `deletes IPAddress ${key}, which somebody else holds, as its claim tells`);
}

/** Its IPAddress was deleted, and it says that its pool does not let it come back. */
function isWithoutAnswer(world: World, claim: KubeObject): boolean {
  const { addressRef } = claim.status ?? {};
  if (claim.spec.poolRef.kind !== "AddressPool" || isBeingDeleted(claim) || addressRef === undefined) return false;
  if (at(world, "addresses", `${claim.metadata.namespace}/${addressRef.name}`) !== null) return false;
  return whyNotReady(claim) === "PoolNotReady";
}

/** As the messages say that the claim and the pool have. */
async function mend(world: World, namespace: string, name: string, network: string): Promise<void> {
  const pool = at(world, "pools", `${namespace}/${name}`);
  if (pool === null) return makeAgain(world, namespace, name, network);
  const spec = remedyOf(whyNotReady(pool), network);
  if (spec === null) return;
  await patch(world, "pools", keyOf(pool), { spec });
  world.counts.add("machines.pool-mended");
  world.story.tell("metal admin", `edits pool ${keyOf(pool)} as it tells: ${JSON.stringify(spec)}`);
}

function remedyOf(reason: string | null, network: string): object | null {
  switch (reason) {
    case "NetworkChanged":
      return { network };
    case "RangeOutsideNetwork":
      return { ranges: null };
    case "PreallocationInvalid":
      return { preallocations: null };
    default:
      return null;
  }
}

async function makeAgain(world: World, namespace: string, name: string, network: string): Promise<void> {
  const own = ownPool(namespace);
  const isOwn = network === OWN_NETWORK.network && name === own.metadata.name;
  const plain = { metadata: { name, namespace }, spec: { network, family: 4 } };
  if ((await create(world, "pools", isOwn ? own : plain)) === null) return;
  world.counts.add("machines.pool-made-again");
  world.story.tell(
    "metal admin",
    `makes pool ${namespace}/${name} of network ${network} again, as its claims and check tell`,
  );
}

/** The reason of a condition Ready that is False, in whichever form; null: there is none. */
function whyNotReady({ status }: KubeObject): string | null {
  const all = [...(status?.v1beta2?.conditions ?? []), ...(status?.conditions ?? [])];
  return all.find((one) => one.type === "Ready" && one.status === "False")?.reason ?? null;
}
