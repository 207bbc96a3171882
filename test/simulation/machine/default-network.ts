import { sleep } from "../../../platform/time.ts";
import type { Chance } from "../engine/chance.ts";
import type { ActionKinds, World } from "../world.ts";
import { othersOf } from "./chosen.ts";
import { PRIMARY } from "./multus.ts";
import { OTHER_TYPE } from "./other-plugins.ts";
import { lookAtImport, makePods } from "./switch-over.ts";

const NAMESPACE = "shop";
const NETWORKS_MAX = 100;
const IPNETWORKS = "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks";

/**
 * The network of pods' primary interfaces, which a file on the nodes defines and no object, becomes ours. There is no
 * Multus: only the kubelets tell what the pods have.
 */
export const defaultNetworkActions: ActionKinds = {
  "default-network-switch-over": { weight: 0.2, run: switchOver },
};

async function switchOver(world: World, chance: Chance): Promise<void> {
  const { files } = othersOf(world);
  const number = chance.below(NETWORKS_MAX);
  const name = `primary-${number}`;
  if (world.cluster.etcd.get("ipam.holdfast.dev/ipnetworks", name) !== null) return;
  // As the documentation says: reserved for the administrators first.
  const spec = { network: name, definedIn: "" };
  const object = { apiVersion: "ipam.holdfast.dev/v1alpha1", kind: "IPNetwork", metadata: { name }, spec };
  await world.cluster.admin.create(IPNETWORKS, object);
  world.counts.add("network.default-switch-over");
  const config = (type: string) => JSON.stringify(configOf(name, number, type));
  files.set(name, config(OTHER_TYPE));
  world.story.tell("alice", `has ${name} as the network of pods that name it, of another plugin`);
  const pods = [...(await makePods(world, chance, NAMESPACE, name, "old", PRIMARY))];
  await sleep(world.clock, chance.between(4_000, 20_000));
  files.set(name, config("holdfast-ipam"));
  world.story.tell("alice", `gives ${name} to Holdfast on every node`);
  const look = lookAtImport(world, name, () => isKnown(world, name));
  pods.push(...(await makePods(world, chance, NAMESPACE, name, "new", PRIMARY)));
  await look;
  await sleep(world.clock, chance.between(10_000, 60_000));
  for (const path of pods) await world.cluster.admin.remove(path);
}

/**
 * A node has told of its definition: what it gave before that may have been lost with a restored etcd, and nobody asks
 * for it again.
 */
function isKnown({ cluster }: World, name: string): boolean {
  const network = cluster.etcd.get("ipam.holdfast.dev/ipnetworks", name);
  return (network?.status?.importedFrom ?? []).length > 0;
}

function configOf(name: string, number: number, type: string): object {
  const subnet = `10.11.${number}.0/26`;
  const ipam = type === OTHER_TYPE ? { type, range: subnet } : { type, subnets: subnet, cooldownSeconds: 3 };
  return { cniVersion: "0.4.0", name, type: "bridge", ipam };
}
