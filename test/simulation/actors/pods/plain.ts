import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { type NetworkSelection, podObject } from "../../../harness/world/kubevirt-objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { addressIn } from "../addresses.ts";
import { EXIT_ANNOTATION, nadNameFor, scheduled } from "../kubevirt/machines.ts";
import { type Nad, nadsIn } from "../networks.ts";
import {
  create,
  hasEnded,
  isBeingDeleted,
  isOpen,
  keyOf,
  objectAt,
  objectsOf,
  PODS,
  patch,
  remove,
} from "../objects.ts";
import { ALLOCATIONS, objectsOf as objectsAt } from "../people/look.ts";
import { HONEST } from "../people/networks.ts";

const PODS_MAX = 30;
/** Few, so that they come again. */
const NAMES = 24;
const FLOOD = 8;
const JOB_MS_MAX = 20_000;
/** Pods that people create, delete, and that end by themselves. */
export const plainPodKinds: ActionKinds = {
  "pod-create": {
    weight: 6,
    run: async (world, chance) => {
      const nad = someNad(world, chance);
      if (nad !== undefined) await createPod(world, chance, [nad]);
    },
  },
  "pod-create-with-several-interfaces": {
    weight: 1,
    run: async (world, chance) => {
      const first = someNad(world, chance);
      const second = first && chance.of(nadsIn(world, first.namespace));
      if (first === undefined || second === undefined) return;
      if ((await createPod(world, chance, [first, second])) !== null)
        world.counts.add("pod.created-with-several-interfaces");
    },
  },
  "pod-create-with-address": { weight: 1.2, run: createWithAddress },
  "pod-flood": { weight: 0.6, run: flood },
  "pod-delete": {
    weight: 4,
    run: async (world, chance) => {
      const waiting = livePods(world).filter(({ status }) => status?.phase === "Pending");
      const pod = (chance.happens(0.4) ? chance.of(waiting) : undefined) ?? somePod(world, chance);
      if (pod === undefined) return;
      world.story.tell("user", `deletes pod ${keyOf(pod)}`);
      world.counts.add("pod.deleted");
      await remove(world, PODS, pod, chance.happens(0.3) ? { graceSeconds: 1 } : {});
    },
  },
  "pod-delete-by-force": {
    weight: 1.2,
    run: async (world, chance) => {
      const pod = somePod(world, chance);
      if (pod === undefined) return;
      world.story.tell("user", `deletes pod ${keyOf(pod)} by force`);
      world.counts.add("pod.deleted-by-force");
      await remove(world, PODS, pod, { graceSeconds: 0 });
    },
  },
  "pod-complete": { weight: 1, run: (world, chance) => exit(world, chance, "0", "pod.completed") },
  "pod-fail": { weight: 0.7, run: (world, chance) => exit(world, chance, "1", "pod.failed") },
  "pod-evict": { weight: 0.7, run: (world, chance) => exit(world, chance, "evicted", "pod.evicted") },
  "pod-job": { weight: 1, run: job },
  "pod-clean-up": {
    weight: 2,
    run: async (world, chance) => {
      const ended = chance.of(livePods(world).filter(hasEnded));
      if (ended === undefined) return;
      world.story.tell("user", `removes pod ${keyOf(ended)}, which has ended`);
      world.counts.add("pod.cleaned-up");
      await remove(world, PODS, ended);
    },
  },
};

/** Pods that no controller here looks after and that are not being deleted. */
function livePods(world: World): KubeObject[] {
  return objectsOf(world, PODS).filter(
    (pod) => !isBeingDeleted(pod) && (pod.metadata.ownerReferences ?? []).length === 0,
  );
}

const somePod = (world: World, chance: Chance) => chance.of(livePods(world));

/** Whether so many more pods may be made. */
export function hasRoom(world: World, more = 1): boolean {
  return objectsOf(world, PODS).length + more <= PODS_MAX;
}

/** A name that no pod of the namespace has now, one that was used before mostly; null: all are in use. */
export function freeName(world: World, chance: Chance, namespace: string): string | null {
  const names = Array.from({ length: NAMES }, (_, index) => `pod-${index}`);
  return chance.of(names.filter((name) => objectAt(world, PODS, `${namespace}/${name}`) === null)) ?? null;
}

/** Of an open namespace. */
export function someNad(world: World, chance: Chance): Nad | undefined {
  const namespace = chance.of(HONEST.filter((one) => isOpen(world, one)));
  return namespace === undefined ? undefined : chance.of(nadsIn(world, namespace));
}

/** A pod in the first NAD's namespace; now and then in another one. null: it was refused, or there is no room. */
export async function createPod(
  world: World,
  chance: Chance,
  nads: readonly Nad[],
  more: Partial<NetworkSelection> = {},
): Promise<KubeObject | null> {
  const [first] = nads;
  const elsewhere = chance.of(HONEST.filter((one) => isOpen(world, one)));
  const namespace = chance.happens(0.1) && elsewhere !== undefined ? elsewhere : first?.namespace;
  const node = scheduled(world, chance);
  if (namespace === undefined || node === null || !hasRoom(world)) return null;
  const name = freeName(world, chance, namespace);
  if (name === null) return null;
  const networks = nads.map((nad) => ({ name: nad.name, namespace: nad.namespace, ...more }));
  const pod = await create(world, PODS, podObject(namespace, { name }, { node, networks }));
  if (pod === null) return null;
  const on = nads.map((nad) => nadNameFor(namespace, nad)).join(", ");
  world.story.tell("user", `creates pod ${keyOf(pod)} on ${node}, in ${on}`);
  world.counts.add("pod.created");
  return pod;
}

/** One that is free, or reserved, or excluded, or somebody else's; often what somebody has just given back. */
async function createWithAddress(world: World, chance: Chance): Promise<void> {
  const nad = someNad(world, chance);
  if (nad === undefined || nad.subnets.length === 0) return;
  const ips = nad.subnets.map((subnet) => {
    const released = chance.happens(0.4) ? chance.of(coolingIn(world, nad.network, subnet)) : undefined;
    return released ?? addressIn(subnet, chance);
  });
  const pod = await createPod(world, chance, [nad], { ips });
  if (pod === null) return;
  world.story.tell("user", `${keyOf(pod)} asks for ${ips.join(", ")}`);
  world.counts.add("pod.created-with-address");
}

/** Addresses of a network that cool down, of the family of a subnet. */
function coolingIn(world: World, network: string, subnet: string): string[] {
  const isV6 = subnet.includes(":");
  return objectsAt(world, ALLOCATIONS).flatMap(({ spec, status }) =>
    status?.state === "Cooling" && spec?.network === network && spec.address.includes(":") === isV6
      ? [spec.address]
      : [],
  );
}

/** More than a small network has addresses for; some of them go again soon. */
async function flood(world: World, chance: Chance): Promise<void> {
  const small = HONEST.flatMap((one) => nadsIn(world, one)).filter(
    ({ namespace, name }) => namespace === "shop" && name === "tiny",
  );
  const nad = chance.of(small);
  if (nad === undefined || !isOpen(world, nad.namespace) || !hasRoom(world, FLOOD)) return;
  world.counts.add("pod.flood");
  const pods: KubeObject[] = [];
  for (let index = 0; index < FLOOD; index += 1) {
    const pod = await createPod(world, chance, [nad]);
    if (pod !== null) pods.push(pod);
    await sleep(world.clock, chance.below(300));
  }
  await sleep(world.clock, chance.below(30_000));
  for (const pod of pods) if (chance.happens(0.7)) await remove(world, PODS, pod);
}

async function exit(world: World, chance: Chance, code: string, count: string): Promise<void> {
  const pod = chance.of(livePods(world).filter(({ status }) => status?.phase === "Running"));
  if (pod === undefined) return;
  world.counts.add(count);
  await end(world, pod, code);
}

async function end(world: World, pod: KubeObject, code: string): Promise<void> {
  world.story.tell("pod", `${keyOf(pod)} ${code === "evicted" ? "is evicted" : `exits with ${code}`}`);
  await patch(world, PODS, pod, { metadata: { annotations: { [EXIT_ANNOTATION]: code } } });
}

/** A pod that runs for a while, ends, and is removed much later. */
async function job(world: World, chance: Chance): Promise<void> {
  const nad = someNad(world, chance);
  const pod = nad === undefined ? null : await createPod(world, chance, [nad]);
  if (pod === null) return;
  world.counts.add("pod.job");
  await sleep(world.clock, 2_000 + chance.below(JOB_MS_MAX));
  await end(world, pod, chance.happens(0.8) ? "0" : "1");
  await sleep(world.clock, chance.below(60_000));
  await remove(world, PODS, pod);
}
