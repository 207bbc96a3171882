import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { ALLOCATIONS, attempted, NADS, objectsOf, PODS, podPath } from "../people/look.ts";
import { MALLORY } from "../people/networks.ts";
import { endLater, makePod, tellAttack } from "./pods.ts";

/** Objects of tenants that say they are something else: nothing that happens to them takes an address from anybody. */
export const FORGERIES: ActionKinds = {
  "attack-forged-mirror": { weight: 0.3, run: forgedMirror },
  "attack-forged-owner": { weight: 0.3, run: forgedOwner },
  "attack-namespace": { weight: 0.1, run: namespaceGone },
};

const MIRROR = "kubernetes.io/config.mirror";
const HASH = "kubernetes.io/config.hash";

/** A pod with the UID of somebody else's, as the mirror of a static pod has one. It completes, and goes. */
async function forgedMirror(world: World, chance: Chance): Promise<void> {
  const victim = chance.of(othersPods(world));
  if (victim === undefined) return;
  const node = victim.spec.nodeName;
  const ownerReferences = [
    {
      apiVersion: "v1",
      kind: "Node",
      name: node,
      uid: world.cluster.etcd.get("/nodes", node)?.metadata.uid ?? "0",
    },
  ];
  const { uid } = victim.metadata;
  const pod = await makePod(world, chance, { ownerReferences, annotations: { [MIRROR]: uid, [HASH]: uid } });
  if (pod === null) return;
  const { namespace, name } = pod.metadata;
  tellAttack(world, "forged-mirror", `makes pod ${namespace}/${name} with the UID of ${describe(victim)}`);
  await sleep(world.clock, chance.between(1_000, 20_000));
  const status = { phase: "Succeeded", containerStatuses: [] };
  await attempted(world.cluster.admin.patch(`${podPath(namespace, name)}/status`, { status }));
  await endLater(world, pod, chance.between(5_000, 30_000));
}

/** A pod whose owner is said to be somebody else's pod, VM or claim. */
async function forgedOwner(world: World, chance: Chance): Promise<void> {
  const held = objectsOf(world, ALLOCATIONS).filter(({ spec }) => spec?.owner?.namespace !== MALLORY);
  const victim = chance.of(held);
  const nad = objectsOf(world, NADS).find(({ metadata }) => metadata.namespace === MALLORY);
  if (victim === undefined) return;
  const { kind, name, uid } = victim.spec.owner;
  const ownerReferences = [{ apiVersion: kind === "Pod" ? "v1" : "k8s.cni.cncf.io/v1alpha1", kind, name, uid }];
  const networks = nad === undefined ? [] : [{ name: nad.metadata.name, interface: "net1" }];
  const pod = await makePod(world, chance, { ownerReferences, networks });
  if (pod === null) return;
  tellAttack(world, "forged-owner", `makes pod ${MALLORY}/${pod.metadata.name} as if it belonged to ${kind} ${name}`);
  await endLater(world, pod, chance.between(5_000, 30_000));
}

/** Everything of the tenant goes at once, and its namespace comes again. */
async function namespaceGone(world: World, chance: Chance): Promise<void> {
  const { admin } = world.cluster;
  await attempted(admin.remove(`/api/v1/namespaces/${MALLORY}`));
  tellAttack(world, "namespace", `deletes the namespace ${MALLORY}`);
  const object = { apiVersion: "v1", kind: "Namespace", metadata: { name: MALLORY } };
  for (let i = 0; i < 30; i += 1) {
    await sleep(world.clock, chance.between(1_000, 4_000));
    if ((await attempted(admin.create("/api/v1/namespaces", object))) !== null) return;
  }
}

function othersPods(world: World): KubeObject[] {
  return objectsOf(world, PODS).filter(
    ({ metadata, spec }) => metadata.namespace !== MALLORY && typeof spec?.nodeName === "string",
  );
}

function describe({ metadata }: KubeObject): string {
  return `pod ${metadata.namespace}/${metadata.name}`;
}
