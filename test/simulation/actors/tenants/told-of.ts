import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { Chance } from "../../engine/chance.ts";
import { Violation } from "../../engine/violation.ts";
import type { ActionKinds, Machine, World } from "../../world.ts";
import { attempted, CLAIMS, EVENTS, objectsOf, PODS, podPath } from "../people/look.ts";
import { MALLORY, nadsNow } from "../people/networks.ts";
import { endLater, tellAttack } from "./pods.ts";

/** How long a daemon may take to be there again, and then to refuse the pod, ms. */
const PATIENCE_MS = 30_000;
const LOOK_MS = 1_000;
/** What a pod is told that may not use the claim that it names. */
const MAY_NOT_USE = ["ClaimOtherOwner", "ClaimTerminating", "ClaimOtherNetwork", "ClaimInUse"];

/**
 * An event may be lost, and is not repeated for minutes. So the attempt is made in peace, on a node whose daemon has
 * just been started: then whoever owns the claim certainly learns of it.
 */
export const THIEF_TOLD_OF: ActionKinds = {
  "attack-thief-in-peace": {
    weight: 0.1,
    run: (world, chance) => {
      const known = wishes.get(world);
      if (known !== undefined) {
        known.seed = chance.below(2 ** 32);
        return;
      }
      const wish: Wish = { seed: chance.below(2 ** 32) };
      wishes.set(world, wish);
      world.onPeace({ ask: () => steal(world, wish) });
    },
  },
};

interface Wish {
  /** null: nobody wishes it. */
  seed: number | null;
}
const wishes = new WeakMap<World, Wish>();

async function steal(world: World, wish: Wish): Promise<void> {
  if (wish.seed === null) return;
  const chance = new Chance(wish.seed);
  wish.seed = null;
  const machine = chance.of(world.machines.filter(({ daemon }) => daemon !== null));
  const claim = chance.of(objectsOf(world, CLAIMS).filter(isOfVm));
  const nad = claim && nadsNow(world).find(({ network }) => network === claim.spec.network);
  if (machine === undefined || claim === undefined || nad === undefined) return;
  machine.restartDaemon();
  await sleep(world.clock, LOOK_MS);
  if (!(await within(world, () => isReady(machine)))) return;
  const { namespace, name } = claim.metadata;
  const network = { namespace: nad.namespace, name: nad.name, "ipam-claim-reference": name };
  const pod = await attempted(world.cluster.admin.create(podPath(namespace), thief(machine.name, network, claim)));
  if (pod === null) return;
  tellAttack(world, "thief-in-peace", `makes pod ${namespace}/${pod.metadata.name}, which names claim ${name} of a VM`);
  const isRefused = await within(world, () => eventsOf(world, pod).some(({ reason }) => MAY_NOT_USE.includes(reason)));
  await sleep(world.clock, LOOK_MS);
  const isTold = eventsOf(world, claim).some(({ message }) => message?.includes(pod.metadata.name));
  const isThere = world.cluster.etcd.get(PODS, `${namespace}/${pod.metadata.name}`) !== null;
  await endLater(world, pod, 0);
  await within(world, () => world.cluster.etcd.get(PODS, `${namespace}/${pod.metadata.name}`) === null);
  if (isRefused && isThere && !isTold)
    throw new Violation(
      "untold-attempt",
      `pod ${namespace}/${pod.metadata.name} may not use claim ${namespace}/${name}, and nobody has told the claim's owner`,
    );
}

function thief(node: string, network: object, { metadata }: KubeObject): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: metadata.namespace,
      name: `thief-of-${metadata.name}`.slice(0, 60),
      annotations: { "k8s.v1.cni.cncf.io/networks": JSON.stringify([network]) },
    },
    spec: {
      nodeName: node,
      containers: [{ name: "main", image: "mallory" }],
      terminationGracePeriodSeconds: 1,
    },
  };
}

const isOfVm = ({ metadata }: KubeObject): boolean =>
  metadata.namespace !== MALLORY &&
  metadata.deletionTimestamp === undefined &&
  (metadata.ownerReferences ?? []).some(({ kind }: KubeObject) => kind.startsWith("VirtualMachine"));

const isReady = ({ daemon }: Machine): boolean => daemon !== null && daemon.core.notReady() === null;

function eventsOf(world: World, { metadata }: KubeObject): KubeObject[] {
  return objectsOf(world, EVENTS).filter(({ involvedObject }) => involvedObject?.uid === metadata.uid);
}

async function within(world: World, holds: () => boolean): Promise<boolean> {
  for (let leftMs = PATIENCE_MS; leftMs > 0; leftMs -= LOOK_MS) {
    if (holds()) return true;
    await sleep(world.clock, LOOK_MS);
  }
  return holds();
}
