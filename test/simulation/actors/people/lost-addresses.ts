import type { World } from "../../world.ts";
import { answered, askNode } from "./commands.ts";
import { attempted, podPath } from "./look.ts";

const LOST = /^(\S+) of network (\S+), in use by container (\S+) \(\S+\), belongs to /;

/** Whoever uses an address that was taken away by hand, and is somebody else's now, is started anew, as `check` of its node tells. */
export async function recreateLosers(world: World): Promise<void> {
  for (const machine of world.machines) {
    if (machine.daemon === null) continue;
    const told = await answered(() => askNode(machine, { path: "/v1/check" }));
    if (told.kind !== "answered") continue;
    for (const { message } of told.body.findings as { message: string }[]) {
      const [, address = "", network = "", containerId] = LOST.exec(message) ?? [];
      const one = [...machine.interfaces.keys()].find((other) => other.containerId === containerId);
      if (one === undefined) continue;
      const { namespace, name, uid } = one.pod;
      world.oracle.lossTold(network, address);
      world.story.tell(
        "alice",
        `starts pod ${namespace}/${name} anew, which has lost ${address} of ${network}`,
      );
      world.counts.add("people.loser-recreated");
      const [manifest] = [...machine.staticPods].find(([, { metadata }]) => metadata.uid === uid) ?? [];
      if (manifest === undefined) await attempted(world.cluster.admin.remove(podPath(namespace, name)));
      else machine.staticPods.delete(manifest);
    }
  }
}
