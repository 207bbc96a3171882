import { sleep } from "../../../../platform/time.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { create, isOpen, NADS, objectAt, remove } from "../objects.ts";
import { nadObject } from "../people/networks.ts";
import { createPod } from "./plain.ts";

const LATE_MS_MAX = 20_000;
const NAMESPACE = "lab";
/** Its definition comes and goes. */
export const LATE_NETWORK = "late";
const CONFIG = {
  cniVersion: "1.0.0",
  name: LATE_NETWORK,
  type: "bridge",
  ipam: { type: "holdfast-ipam", subnets: "10.9.0.0/26", cooldownSeconds: 5 },
};

/** Pods that are on their node before their network is defined. */
export const lateNetworkKinds: ActionKinds = {
  "pod-before-its-network": { weight: 0.4, run: beforeItsNetwork },
};

/** In times of peace there is nobody who waits for it. */
export function startLateNetwork(world: World): void {
  world.onPeace({ heal: () => define(world) });
}

async function define(world: World): Promise<void> {
  if (!isOpen(world, NAMESPACE)) return;
  if ((await create(world, NADS, nadObject(NAMESPACE, LATE_NETWORK, CONFIG))) !== null)
    world.story.tell("user", `creates NAD ${NAMESPACE}/${LATE_NETWORK}`);
}

async function beforeItsNetwork(world: World, chance: Chance): Promise<void> {
  const nad = objectAt(world, NADS, `${NAMESPACE}/${LATE_NETWORK}`);
  if (!isOpen(world, NAMESPACE)) return;
  if (nad !== null) {
    world.story.tell("user", `deletes NAD ${NAMESPACE}/${LATE_NETWORK}`);
    await remove(world, NADS, nad);
  }
  const late = { namespace: NAMESPACE, name: LATE_NETWORK, network: LATE_NETWORK };
  const pod = await createPod(world, chance, [{ ...late, isPersistent: false, subnets: [] }]);
  if (pod !== null) world.counts.add("pod.before-its-network");
  await sleep(world.clock, chance.below(LATE_MS_MAX));
  await define(world);
}
