import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { bindingObject, isLauncher } from "../../../harness/world/kubevirt-objects.ts";
import type { World } from "../../world.ts";
import { attempt, hasEnded, isBeingDeleted, keyOf, objectAt, objectsOf, PODS, pathOf } from "../objects.ts";
import { Reconciler } from "../reconciler.ts";
import { chanceOf, scheduled } from "./machines.ts";

const WHO = "scheduler";

/** Binds launcher pods, which are created without a node. Other pods are told theirs by whoever creates them. */
export function startScheduler(world: World): Reconciler {
  const waiting = () => objectsOf(world, PODS).filter(isWaiting);
  return new Reconciler(world, {
    name: WHO,
    keysOf: ({ storage, key, object }) => (storage === PODS.storage && isWaiting(object) ? [key] : []),
    all: () => waiting().map(keyOf),
    reconcile: async (key) => {
      const pod = objectAt(world, PODS, key);
      if (pod === null || !isWaiting(pod)) return;
      const node = scheduled(world, chanceOf(world, `schedule ${pod.metadata.uid}`), besides(world, pod));
      if (node === null) return;
      const bound = await attempt(world.cluster.admin.create(`${pathOf(PODS, pod)}/binding`, bindingObject(pod, node)));
      if (bound !== null) world.story.tell(WHO, `binds ${key} to ${node}`);
    },
  });
}

const isWaiting = (pod: KubeObject): boolean =>
  isLauncher(pod) && pod.spec.nodeName === undefined && !isBeingDeleted(pod) && !hasEnded(pod);

/** Nodes with other launchers of its instance, which the target of a migration keeps away from. */
function besides(world: World, { metadata }: KubeObject): string[] {
  const owners: KubeObject[] = metadata.ownerReferences ?? [];
  return objectsOf(world, PODS, metadata.namespace).flatMap((other) => {
    const isOfSame = (other.metadata.ownerReferences ?? []).some(({ uid }: KubeObject) =>
      owners.some((one) => one.uid === uid),
    );
    const isElsewhere = other.metadata.uid !== metadata.uid && isOfSame && !hasEnded(other);
    return isElsewhere && other.spec.nodeName !== undefined ? [other.spec.nodeName as string] : [];
  });
}
