import type { Interface, Machine, World } from "../../world.ts";
import { answered, askNode, type Told } from "./commands.ts";
import { ALLOCATIONS, attempted, EVENTS, objectsOf, podPath } from "./look.ts";
import { takeTwiceLost } from "./twice-lost.ts";

const LOST = /^(\S+) of network (\S+), in use by container (\S+) \(\S+\), belongs to /;
const REPORTED = /^(\S+) of network (\S+), in use by pod (\S+), (?:belongs to |is recorded without its container$)/;
/** Of a pod whose address another one has. */
const CONFLICT = "IPAddressConflict";
const CONTESTED = /^the pod reports ([^/\s]+)\S* on network (\S+), which is held by /;

interface Loss {
  readonly machine: Machine;
  readonly one: Interface;
  readonly network: string;
  readonly address: string;
}

/**
 * Whoever uses an address that was taken away by hand, and is somebody else's now, is started anew, as `check` of its
 * node tells.
 */
export async function recreateLosers(world: World): Promise<void> {
  for (const loss of await toldByNodes(world)) await recreate(world, loss);
}

/** Whoever restored etcd starts pods anew where a node has lost its journal, too, as the documentation says. */
export async function recreateTwiceLost(world: World): Promise<void> {
  for (const { machine, one, ips } of takeTwiceLost(world))
    for (const ip of ips) {
      const [address = ""] = ip.split("/");
      await recreate(world, { machine, one, network: one.network, address }, "nobody knows");
    }
}

/**
 * A node that has lost its journal knows nothing of what was taken from its containers: `check` of the cluster tells of
 * them, also where the controller has recorded the address again, and so do the Events of their pods. After their nodes
 * had time to repair what they can.
 */
export async function recreateReportedLosers(world: World, told: Told): Promise<void> {
  if (told.kind !== "answered") return;
  for (const { message } of told.body.findings as { message: string }[]) {
    const [, address = "", network = "", key = ""] = REPORTED.exec(message) ?? [];
    for (const loss of usersOf(world, key, network, address)) await recreate(world, loss);
  }
  for (const { reason, message, involvedObject } of objectsOf(world, EVENTS)) {
    const [, address = "", network = ""] = (reason === CONFLICT && CONTESTED.exec(message)) || [];
    // It may have its address back by now.
    for (const loss of usersOf(world, `${involvedObject.namespace}/${involvedObject.name}`, network, address))
      if (loss.one.pod.uid === involvedObject.uid && !isAttached(world, loss)) await recreate(world, loss);
  }
}

/** The annotation of a pod may say what is not so: somebody looks at its interfaces. */
function usersOf(world: World, key: string, network: string, address: string): Loss[] {
  return world.machines.flatMap((machine) =>
    [...machine.interfaces].flatMap(([one, ips]) =>
      `${one.pod.namespace}/${one.pod.name}` === key &&
      one.network === network &&
      ips.some((ip) => ip.split("/")[0] === address)
        ? [{ machine, one, network, address }]
        : [],
    ),
  );
}

/** Whether the IPAllocation names its container. */
function isAttached(world: World, { one, network, address }: Loss): boolean {
  return objectsOf(world, ALLOCATIONS).some(
    ({ spec, status }) =>
      spec?.network === network &&
      spec.address.split("/")[0] === address &&
      Object.keys(status?.attachments ?? {}).some((key) => key.split("/")[0] === one.containerId),
  );
}

async function toldByNodes(world: World): Promise<Loss[]> {
  const losses: Loss[] = [];
  for (const machine of world.machines) {
    if (machine.daemon === null) continue;
    const told = await answered(() => askNode(machine, { path: "/v1/check" }));
    if (told.kind !== "answered") continue;
    for (const { message } of told.body.findings as { message: string }[]) {
      const [, address = "", network = "", containerId] = LOST.exec(message) ?? [];
      const one = [...machine.interfaces.keys()].find((other) => other.containerId === containerId);
      if (one !== undefined) losses.push({ machine, one, network, address });
    }
  }
  return losses;
}

async function recreate(world: World, { machine, one, network, address }: Loss, why = "check tells"): Promise<void> {
  const { namespace, name, uid } = one.pod;
  world.oracle.lossTold(network, address);
  world.story.tell("alice", `starts pod ${namespace}/${name} anew, as ${why} of ${address} of ${network}`);
  world.counts.add("people.loser-recreated");
  const [manifest] = [...machine.staticPods].find(([, { metadata }]) => metadata.uid === uid) ?? [];
  if (manifest === undefined) await attempted(world.cluster.admin.remove(podPath(namespace, name)));
  else machine.staticPods.delete(manifest);
}
