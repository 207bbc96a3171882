import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import { Violation } from "../../engine/violation.ts";
import type { ActionKinds, World } from "../../world.ts";
import { nthAddress } from "../people/configs.ts";
import { ALLOCATIONS, attempted, EVENTS, objectsOf, podPath } from "../people/look.ts";
import { NETWORKS, type PlannedNetwork } from "../people/networks.ts";
import { endLater, makePod, NETWORK_STATUS, POD_NETWORKS, podsOf, tellAttack } from "./pods.ts";

/**
 * Pods say of themselves which addresses they have. Whoever may annotate a pod may say anything: a pod gets no more of
 * a subnet by that than it could have interfaces, never what somebody else has, and others are served meanwhile.
 */
export const REPORTS: ActionKinds = {
  "attack-report-many": { weight: 0.3, run: (world, chance) => report(world, chance, "many") },
  "attack-report-huge": { weight: 0.1, run: (world, chance) => report(world, chance, "huge") },
  "attack-report-others": { weight: 0.4, run: (world, chance) => report(world, chance, "others") },
  "attack-report-nonsense": { weight: 0.3, run: (world, chance) => report(world, chance, "nonsense") },
};

type Kind = "many" | "huge" | "others" | "nonsense";

/** Interfaces that one pod may have on a network, as the documents say. */
const INTERFACES_MAX = 8;
const SUBNETS_MAX = 2;
/** Until it has been looked at by every controller, ms. */
const LOOKED_AT_MS = 25_000;
const MANY = 4_094;
/** 160 kB of addresses. */
const HUGE = 11_000;

const NONSENSE = [
  "{",
  "null",
  "[null, 1, {}]",
  '[{"name":"shop/blue","interface":"net1","ips":"10.1.0.7"}]',
  '[{"name":"shop/blue","interface":"net1","ips":["10.1.0.300","::ffff:10.1.0.9","fe80::1%eth0","", 7, null]}]',
  '[{"name":"shop/green","interface":"net1","ips":["fd00:2::7","10.1.0.7","010.2.0.7"]}]',
  `[{"name":"${"shop/blue".repeat(400)}","interface":"net1","ips":["10.1.0.11"]}]`,
  `${"[".repeat(20_000)}`,
] as const;

async function report(world: World, chance: Chance, kind: Kind): Promise<void> {
  const planned = chance.of(NETWORKS) as PlannedNetwork;
  const running = podsOf(world).filter(({ status }) => status?.phase === "Running");
  const pod = chance.happens(0.6) ? chance.of(running) : undefined;
  const annotations = annotationsOf(world, chance, planned, kind);
  const networks = chance.happens(0.5) ? [{ namespace: planned.namespace, name: planned.nad, interface: "net1" }] : [];
  const target = pod ?? (await makePod(world, chance, { networks, annotations }));
  if (target === null) return;
  const { namespace, name } = target.metadata;
  tellAttack(world, `report-${kind}`, `lets pod ${namespace}/${name} report addresses of ${planned.network} (${kind})`);
  // Its kubelet may write over it; then it is written once more.
  for (const afterMs of [0, 6_000]) {
    await sleep(world.clock, afterMs);
    await attempted(world.cluster.admin.patch(podPath(namespace, name), { metadata: { annotations } }));
  }
  await sleep(world.clock, LOOKED_AT_MS);
  checkBounded(world, target);
  if (kind === "huge") countTold(world, target);
  await endLater(world, target, chance.between(5_000, 60_000));
}

/** No more than its interfaces could have of each subnet. */
function checkBounded(world: World, { metadata }: KubeObject): void {
  const byNetwork = new Map<string, number>();
  for (const { spec, status } of objectsOf(world, ALLOCATIONS)) {
    if (spec?.owner?.uid !== metadata.uid || status?.state !== "Bound") continue;
    byNetwork.set(spec.network, (byNetwork.get(spec.network) ?? 0) + 1);
  }
  for (const [network, count] of byNetwork) {
    if (count <= INTERFACES_MAX * SUBNETS_MAX) continue;
    const what = `pod ${metadata.namespace}/${metadata.name} holds ${count} addresses of network ${network} by its annotations`;
    throw new Violation("attack drains", what);
  }
}

function countTold(world: World, { metadata }: KubeObject): void {
  const isTold = objectsOf(world, EVENTS).some(
    ({ reason, involvedObject }) => reason === "TooManyAddresses" && involvedObject?.uid === metadata.uid,
  );
  if (isTold) world.counts.add("attack.report-huge-told");
}

function annotationsOf(
  world: World,
  chance: Chance,
  planned: PlannedNetwork,
  kind: Kind,
): Readonly<Record<string, string>> {
  if (kind === "nonsense") return { [NETWORK_STATUS]: chance.of(NONSENSE) as string };
  const ips = addressesOf(world, chance, planned, kind);
  const nad = `${planned.namespace}/${planned.nad}`;
  if (chance.happens(0.3)) {
    const value = { ip_addresses: ips.map((ip) => `${ip}/24`), mac_address: "0a:00:00:00:00:01" };
    return { [POD_NETWORKS]: JSON.stringify({ [nad]: value }) };
  }
  // In one interface, or each in one of its own.
  const entries = chance.happens(0.5)
    ? [{ name: nad, interface: "net1", ips }]
    : ips.map((ip, i) => ({ name: nad, interface: `net${i + 1}`, ips: [ip] }));
  return { [NETWORK_STATUS]: JSON.stringify(entries) };
}

function addressesOf(world: World, chance: Chance, { network, config }: PlannedNetwork, kind: Kind): string[] {
  if (kind === "others") {
    const held = objectsOf(world, ALLOCATIONS).filter(({ spec }) => spec?.network === network);
    return Array.from({ length: 1 + chance.below(4) }, () => chance.of(held)).flatMap((one) =>
      one === undefined ? [] : [one.spec.address.split("/")[0] as string],
    );
  }
  return Array.from({ length: kind === "huge" ? HUGE : MANY }, (_, i) => nthAddress(config, i + 1));
}
