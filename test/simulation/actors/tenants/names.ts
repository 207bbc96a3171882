import { networkObjectName } from "../../../../kube/object-names.ts";
import { sleep } from "../../../../platform/time.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { firstSubnet, nthAddress } from "../people/configs.ts";
import { attempted, NETWORK_OBJECTS, nadPath } from "../people/look.ts";
import { MALLORY, NETWORKS, nadObject, type PlannedNetwork } from "../people/networks.ts";
import { mustGetNothing } from "./guard.ts";
import { endLater, makePod, tellAttack } from "./pods.ts";

/**
 * Whoever may write NetworkAttachmentDefinitions writes any name and any key into them. The networks of others stay
 * theirs, nothing of them is given to the attacker's pods, and no file of a node is read.
 */
export const NAMES: ActionKinds = {
  "attack-take-name": { weight: 0.4, run: takeName },
  "attack-squat-name": { weight: 0.3, run: squatName },
  "attack-resolv-conf": { weight: 0.3, run: resolvConf },
};

const FORBIDDEN_FILES = [
  "/proc/self/fd/1",
  "/dev/zero",
  "/etc/shadow",
  "/etc/resolv.conf",
  "/etc/../etc/resolv.conf",
  "/var/run/secrets/kubernetes.io/serviceaccount/token",
] as const;

/** A definition of one's own with the name of another's network, younger or, when theirs was made anew, older. */
async function takeName(world: World, chance: Chance): Promise<void> {
  const planned = chance.of(NETWORKS) as PlannedNetwork;
  const { network } = planned;
  // Whose it is must be recorded: before that, it belongs to whoever defines it.
  const object = world.cluster.etcd.get(NETWORK_OBJECTS, networkObjectName(network));
  if (object?.spec?.definedIn !== planned.namespace) return;
  const ipam = chance.of([{}, { gateway: nthAddress(planned.config, 9) }, { cooldownSeconds: 0 }]) as object;
  const config = { ...planned.config, ipam: { ...planned.config.ipam, ...ipam } };
  const nad = `taken-${planned.nad}`;
  if ((await attempted(world.cluster.admin.create(nadPath(MALLORY), nadObject(MALLORY, nad, config)))) === null) return;
  tellAttack(world, "take-name", `makes ${MALLORY}/${nad} for network ${network}, which is ${planned.namespace}'s`);
  for (let i = 0; i < 2; i += 1) {
    await sleep(world.clock, chance.between(100, 20_000));
    const pod = await makePod(world, chance, { networks: [{ name: nad, interface: "net1" }] });
    if (pod === null) continue;
    mustGetNothing(
      world,
      pod.metadata.uid,
      `it was given to pod ${pod.metadata.name}, whose namespace may not use it`,
      network,
    );
    await endLater(world, pod, chance.between(5_000, 60_000));
  }
  await attempted(world.cluster.admin.remove(nadPath(MALLORY, nad)));
}

/** A network of one's own whose name is what another network's objects are called. */
async function squatName(world: World, chance: Chance): Promise<void> {
  const planned = chance.of(NETWORKS) as PlannedNetwork;
  const squatted = chance.of([
    networkObjectName(planned.network),
    `${networkObjectName(planned.network)}-0123456789abcdef`,
    planned.network.toLowerCase(),
    planned.network.toUpperCase(),
  ]) as string;
  if (NETWORKS.some(({ network }) => network === squatted)) return;
  const nad = `squat-${chance.below(20)}`;
  const ipam = {
    type: "holdfast-ipam",
    subnets: firstSubnet(planned.config),
    cooldownSeconds: 1,
  };
  const config = { cniVersion: "1.0.0", type: "bridge", name: squatted, ipam };
  if ((await attempted(world.cluster.admin.create(nadPath(MALLORY), nadObject(MALLORY, nad, config)))) === null) return;
  tellAttack(world, "squat-name", `makes ${MALLORY}/${nad} for a network ${squatted}`);
  const pod = await makePod(world, chance, { networks: [{ name: nad, interface: "net1" }] });
  if (pod !== null) await endLater(world, pod, chance.between(10_000, 60_000));
  await attempted(world.cluster.admin.remove(nadPath(MALLORY, nad)));
}

/** A definition that names a file of the node, which a tenant must not read through a daemon that is root. */
async function resolvConf(world: World, chance: Chance): Promise<void> {
  const file = chance.of(FORBIDDEN_FILES) as string;
  const ipam = { type: "holdfast-ipam", subnets: "10.66.0.0/24", resolvConf: file };
  const nad = `files-${chance.below(20)}`;
  const config = { cniVersion: "1.0.0", type: "bridge", name: `mallory-${nad}`, ipam };
  if ((await attempted(world.cluster.admin.create(nadPath(MALLORY), nadObject(MALLORY, nad, config)))) === null) return;
  tellAttack(world, "resolv-conf", `makes ${MALLORY}/${nad} with resolvConf ${file}`);
  const pod = await makePod(world, chance, { networks: [{ name: nad, interface: "net1" }] });
  if (pod !== null) {
    mustGetNothing(world, pod.metadata.uid, `pod ${pod.metadata.name} was answered although its network names ${file}`);
    await endLater(world, pod, chance.between(10_000, 40_000));
  }
  await attempted(world.cluster.admin.remove(nadPath(MALLORY, nad)));
}
