import { sleep } from "../../../../platform/time.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { attempted, objectsOf, PODS, podPath } from "./look.ts";
import { MALLORY } from "./networks.ts";

/** Somebody breaks what a pod reports of its addresses; it is told again later. Nothing may be freed for that. */
export const BROKEN_REPORTS: ActionKinds = { "people-break-report": { weight: 0.3, run: breakReport } };

const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";
const BROKEN = [null, "", "{", "[]", '[{"name":"shop/blue","interface":"net1"}]', '[{"ips":["10.1.0.1"]}]'] as const;

async function breakReport(world: World, chance: Chance): Promise<void> {
  const pods = objectsOf(world, PODS).filter(
    ({ metadata }) => metadata.namespace !== MALLORY && metadata.annotations?.[NETWORK_STATUS] !== undefined,
  );
  const pod = chance.of(pods);
  if (pod === undefined) return;
  const { namespace, name, uid, annotations } = pod.metadata;
  const text = chance.of(BROKEN) ?? null;
  const write = (value: string | null) =>
    attempted(
      world.cluster.admin.patch(podPath(namespace, name), {
        metadata: { annotations: { [NETWORK_STATUS]: value } },
      }),
    );
  await write(text);
  world.story.tell("alice", `breaks network-status of pod ${namespace}/${name}: ${text ?? "no annotation"}`);
  world.counts.add("people.break-report");
  await sleep(world.clock, chance.between(2_000, 40_000));
  const now = world.cluster.etcd.get(PODS, `${namespace}/${name}`);
  // A new sandbox has reported something else meanwhile.
  const isOurs = now?.metadata.uid === uid && (now.metadata.annotations?.[NETWORK_STATUS] ?? null) === text;
  if (isOurs) await write(annotations[NETWORK_STATUS]);
}
