import { sleep } from "../../../platform/time.ts";
import type { Chance } from "../engine/chance.ts";
import type { ActionKinds, World } from "../world.ts";
import { machineOf, othersOf } from "./chosen.ts";
import { LOOK_MS, OTHER_TYPE } from "./other-plugins.ts";

const POD_NETWORKS = "k8s.v1.cni.cncf.io/networks";
const NADS = "network-attachment-definitions";
const NETWORKS_MAX = 200;
/** The last octet of the first address that the other plugin gives, of so many. */
const FIRST = 2;
const FIRSTS = 45;

/**
 * A network of another plugin, with pods that run, becomes ours: with new pods at once, and with a second definition
 * later.
 */
export const switchOverActions: ActionKinds = { "network-switch-over": { weight: 0.5, run: switchOver } };

async function switchOver(world: World, chance: Chance): Promise<void> {
  const number = chance.below(NETWORKS_MAX);
  const name = `former-${number}`;
  // One network, one owner: the same number is always of the same namespace.
  const [owner, guest] = number % 2 === 0 ? ["shop", "bank"] : ["bank", "shop"];
  const isShared = chance.happens(0.4);
  // Where a node begins to search is its own: some of those that were there before are in its way. What a definition
  // that has not joined yet has given is not kept from others (known-limits): a shared network gives these only to
  // those who ask for one.
  const first = isShared ? FIRST : FIRST + ((number * 7) % FIRSTS);
  const reserved = isShared ? [`10.9.${number}.0/29`] : [];
  const config = (type: string) => configOf(name, `10.9.${number}`, first, reserved, type);
  // A definition that an earlier one has left would be the older one, and own the network.
  if (isThere(world, owner, name) || isThere(world, guest, name)) return;
  if (!(await put(world, owner, name, config(OTHER_TYPE), guest))) return;
  world.counts.add("network.switch-over");
  if (isShared) {
    // The older definition owns the network.
    await sleep(world.clock, 1_500);
    await put(world, guest, name, config(OTHER_TYPE), null);
  }
  const pods = [...(await makePods(world, chance, owner, name, "old"))];
  if (isShared) pods.push(...(await makePods(world, chance, guest, name, "old")));
  await sleep(world.clock, chance.between(2_000, 20_000));
  await change(world, owner, name, config("holdfast-ipam"));
  const look = lookAtImport(world, name, () => isOurs(world, name));
  pods.push(...(await makePods(world, chance, owner, name, "new")));
  await sleep(world.clock, chance.between(100, 30_000));
  if (isShared) {
    await change(world, guest, name, config("holdfast-ipam"));
    pods.push(...(await makePods(world, chance, guest, name, "new")));
  }
  await look;
  await sleep(world.clock, chance.between(10_000, 60_000));
  for (const path of pods) await world.cluster.admin.remove(path);
  await sleep(world.clock, chance.between(5_000, 30_000));
  for (const namespace of [owner, guest]) await world.cluster.admin.remove(pathOf(namespace, name));
}

/**
 * Until everybody who was there is told of: at the latest when a controller has run in times of peace, and an import
 * must be done.
 */
export async function lookAtImport(world: World, network: string, isDefined: () => boolean): Promise<void> {
  const others = othersOf(world);
  for (let peacefulMs = 0; peacefulMs < 60_000; ) {
    await sleep(world.clock, LOOK_MS);
    const mayImport = !world.faults.isOn && world.controllers.some(({ isRunning }) => isRunning);
    peacefulMs = mayImport ? peacefulMs + LOOK_MS : 0;
    for (let told = others.tellImported(network, false); told > 0; told -= 1) world.counts.add("network.imported");
    if (others.areAllTold(network)) return;
  }
  // Without a definition nobody can know that they are in use.
  if (isDefined()) others.tellImported(network, true);
}

/** In every namespace that has it: a restored etcd may have one as it was before. */
function isOurs(world: World, network: string): boolean {
  const nads = ["shop", "bank"].flatMap((namespace) => nadOf(world, namespace, network) ?? []);
  return nads.length > 0 && nads.every((nad) => nad.spec.config.includes("holdfast-ipam"));
}

function isThere(world: World, namespace: string, network: string): boolean {
  return nadOf(world, namespace, network) !== null;
}

function nadOf(world: World, namespace: string, network: string) {
  return world.cluster.etcd.get("k8s.cni.cncf.io/network-attachment-definitions", `${namespace}/${network}`);
}

/** `by`: the annotation that names their network. */
export async function makePods(
  world: World,
  chance: Chance,
  namespace: string,
  network: string,
  kind: string,
  by = POD_NETWORKS,
): Promise<string[]> {
  const paths: string[] = [];
  for (let left = chance.between(1, 3); left > 0; left -= 1) {
    const name = `${network}-${kind}-${left}`;
    const node = machineOf(world, chance)?.name;
    if (node === undefined) continue;
    const annotations = { [by]: network };
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace, name, annotations },
      spec: { nodeName: node, containers: [{ name: "main", image: "none" }] },
    };
    if (await created(world, `/api/v1/namespaces/${namespace}/pods`, pod))
      paths.push(`/api/v1/namespaces/${namespace}/pods/${name}`);
  }
  return paths;
}

function put(world: World, namespace: string, name: string, config: string, guest: string | null): Promise<boolean> {
  const annotations = guest === null ? {} : { "ipam.holdfast.dev/shared-with": guest };
  const nad = {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace, name, annotations },
    spec: { config },
  };
  world.story.tell("alice", `creates NetworkAttachmentDefinition ${namespace}/${name}, of another plugin`);
  return created(world, pathOf(namespace), nad);
}

async function change(world: World, namespace: string, name: string, config: string): Promise<void> {
  world.story.tell("alice", `gives network ${name} of ${namespace} to Holdfast`);
  try {
    await world.cluster.admin.patch(pathOf(namespace, name), { spec: { config } });
  } catch {
    // It is gone, with its namespace.
  }
}

async function created(world: World, collection: string, object: object): Promise<boolean> {
  try {
    await world.cluster.admin.create(collection, object);
    return true;
  } catch {
    // There is one, or the namespace is going.
    return false;
  }
}

function configOf(name: string, prefix: string, first: number, reserved: readonly string[], type: string): string {
  const subnet = `${prefix}.0/26`;
  const ipam =
    type === OTHER_TYPE
      ? { type, range: subnet, range_start: `${prefix}.${first}` }
      : { type, subnets: subnet, reservedSubnets: reserved.join(","), cooldownSeconds: 3 };
  return JSON.stringify({ cniVersion: "0.4.0", name, type: "bridge", ipam });
}

function pathOf(namespace: string, name = ""): string {
  return `/apis/k8s.cni.cncf.io/v1/namespaces/${namespace}/${NADS}${name === "" ? "" : `/${name}`}`;
}
