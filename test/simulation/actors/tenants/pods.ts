import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { World } from "../../world.ts";
import { attempted, PODS, podPath } from "../people/look.ts";
import { MALLORY } from "../people/networks.ts";

/** An element of the annotation by which a pod says which networks it wants. */
interface Selected {
  readonly name: string;
  readonly namespace?: string;
  readonly interface?: string;
  readonly ips?: readonly string[];
  readonly "ipam-claim-reference"?: string;
}

export interface PodParts {
  readonly namespace?: string;
  readonly networks?: readonly Selected[];
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly object[];
  readonly labels?: Readonly<Record<string, string>>;
}

export const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";
export const POD_NETWORKS = "k8s.ovn.org/pod-networks";
const NETWORKS = "k8s.v1.cni.cncf.io/networks";
/** A tenant has no more pods than this at a time. */
const PODS_MAX = 12;

/** Pods of the attacker that are there. */
export function podsOf(world: World): KubeObject[] {
  return world.cluster.etcd.range(PODS, `${MALLORY}/`).map(({ object }) => object);
}

/** A pod on some node, as somebody makes it who may make pods in a namespace; null: there is no room for one. */
export async function makePod(world: World, chance: Chance, parts: PodParts = {}): Promise<KubeObject | null> {
  const machine = chance.of(world.machines.filter(({ isUp }) => isUp));
  if (machine === undefined || podsOf(world).length >= PODS_MAX || !world.faults.isOn) return null;
  const { namespace = MALLORY, networks = [], annotations = {}, ownerReferences = [], labels = {} } = parts;
  const name = `mallory-${chance.below(100_000)}`;
  return attempted(
    world.cluster.admin.create(podPath(namespace), {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        namespace,
        name,
        labels,
        ownerReferences,
        annotations: { ...annotations, [NETWORKS]: JSON.stringify(networks) },
      },
      spec: {
        nodeName: machine.name,
        containers: [{ name: "main", image: "mallory" }],
        terminationGracePeriodSeconds: 1,
      },
    }),
  );
}

/** The pod goes after some time, if nobody else has deleted it. */
export async function endLater(world: World, pod: KubeObject, afterMs: number): Promise<void> {
  await sleep(world.clock, afterMs);
  const { namespace, name, uid } = pod.metadata;
  if (world.cluster.etcd.get(PODS, `${namespace}/${name}`)?.metadata.uid !== uid) return;
  await attempted(world.cluster.admin.remove(podPath(namespace, name)));
}

export function tellAttack(world: World, name: string, what: string): void {
  world.story.tell("mallory", what);
  world.counts.add(`attack.${name}`);
}
