import { networkObjectName } from "../../../../kube/object-names.ts";
import { sleep } from "../../../../platform/time.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { askCluster } from "./commands.ts";
import { NETWORK_OBJECTS } from "./look.ts";
import { NETWORKS, type PlannedNetwork } from "./networks.ts";
import { said } from "./releases.ts";

/** Networks are moved to other namespaces, and back. What is allocated stays. */
export const OWNERS: ActionKinds = { "people-network-own": { weight: 0.2, run: move } };

const ATTEMPTS_MAX = 5;
const AGAIN_MS = 3_000;

async function move(world: World, chance: Chance): Promise<void> {
  const planned = chance.of(NETWORKS) as PlannedNetwork;
  const to = chance.of(["shop", "bank", null]) ?? null;
  await own(world, planned.network, to);
  await sleep(world.clock, chance.between(2_000, 30_000));
  await giveBack(world, planned);
}

/** To whom it belongs as it was meant. */
export async function giveBack(world: World, { network, namespace }: PlannedNetwork): Promise<void> {
  for (let i = 0; i < ATTEMPTS_MAX; i += 1) {
    const object = world.cluster.etcd.get(NETWORK_OBJECTS, networkObjectName(network));
    const { definedIn } = object?.spec ?? {};
    if (definedIn === undefined || definedIn === namespace) return;
    await own(world, network, namespace);
    await sleep(world.clock, AGAIN_MS);
  }
}

/** `namespace` null: to the administrators. */
async function own(world: World, network: string, namespace: string | null): Promise<void> {
  const body = namespace === null ? { administrators: true } : { namespace };
  const outcome = await askCluster(world, { method: "POST", path: `/v1/networks/${network}`, body });
  const to = namespace === null ? "--administrators" : `--namespace ${namespace}`;
  world.story.tell("alice", `holdfast networks own ${network} ${to}: ${said(outcome)}`);
  world.counts.add(`people.network-own.${outcome.kind}`);
}
