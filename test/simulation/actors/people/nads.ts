import { sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { configOf, nthAddress, withIpam, withSubnets } from "./configs.ts";
import { ALLOCATIONS, attempted, NADS, nadPath, objectsOf } from "./look.ts";
import { MALLORY, NETWORKS, type NetworkConfig, nadObject, plannedNads, SHARED_WITH } from "./networks.ts";

/** Names of definitions that join a network begin so. */
export const JOINED = "also-";
const OFFLINE_MS_MAX = 40_000;
const NO_TEXTS = ["", "{", "null", '{"name":"blue"}', "[]"];

/** An edit of a definition: its name for people, and what it makes of the configuration. */
type Edit = readonly [name: string, change: (config: NetworkConfig, chance: Chance, world: World) => NetworkConfig];

const EDITS: readonly Edit[] = [
  ["grow", (config) => withSubnets(config, (bits, size) => Math.max(bits - 1, size === 32 ? 24 : 60))],
  ["shrink", (config, chance) => withSubnets(config, (bits) => bits + chance.between(1, 2))],
  ["exclude", (config, chance, world) => withIpam(config, { excludeSubnets: excludedOf(config, chance, world) })],
  ["gateway", (config, chance, world) => withIpam(config, { gateway: someAddress(config, chance, world) })],
  ["cooldown", (config, chance) => withIpam(config, { cooldownSeconds: chance.below(15) })],
  ["routes", (config) => withIpam(config, { routes: [{ dst: "192.168.0.0/16" }] })],
  ["dns", (config) => withIpam(config, { dns: { nameservers: ["10.0.0.53"] } })],
];

/**
 * NetworkAttachmentDefinitions are made, edited and deleted while guests use them. None of it takes an address from
 * anybody.
 */
export const NAD_EDITS: ActionKinds = {
  "people-nad-edit": { weight: 1, run: (world, chance) => edit(world, chance, null) },
  ...Object.fromEntries(
    EDITS.map((one) => [
      `people-nad-${one[0]}`,
      { weight: 0, isInTurn: true, run: (world: World, chance: Chance) => edit(world, chance, one) },
    ]),
  ),
  "people-nad-break": { weight: 0.4, run: breakIt },
  "people-nad-other-plugin": { weight: 0.3, run: otherPlugin },
  "people-nad-delete": { weight: 0.4, run: deleteIt },
  "people-nad-join": { weight: 0.4, run: join },
  "people-nad-share": { weight: 0.2, run: share },
};

/** A wrong edit, and what is told of it: nobody is given anything through it until it is mended. */
const MISTAKES: readonly ((config: NetworkConfig) => NetworkConfig)[] = [
  (config) => withIpam(config, { subnets: "10.1.0.0/33", ranges: undefined }),
  (config) => withIpam(config, { subnet: "10.9.0.0/24", subnets: "10.1.0.0/24" }),
  (config) => withIpam(config, { exclude: ["10.1.0.0/30"] }),
  (config) => withIpam(config, { gateway: "192.0.2.1" }),
  (config) => withIpam(config, { cooldownSeconds: -1 }),
];

/** `which` null: any. */
async function edit(world: World, chance: Chance, which: Edit | null): Promise<void> {
  const nad = chance.of(honest(world));
  const config = nad && configOf(nad);
  if (!config) return;
  const [name, change] = which ?? (chance.of(EDITS) as Edit);
  await write(world, nad, change(config, chance, world), name);
  // Where it is shared, the others follow, or their pods are refused.
  if (chance.happens(0.5)) await follow(world, nad, config.name, chance.between(100, 5_000));
  if (chance.happens(0.7)) await mendLater(world, nad, chance.between(3_000, 60_000));
}

async function breakIt(world: World, chance: Chance): Promise<void> {
  const nad = chance.of(honest(world));
  const config = nad && configOf(nad);
  if (!config) return;
  const text = chance.happens(0.4) ? (chance.of(NO_TEXTS) as string) : (chance.of(MISTAKES)?.(config) ?? "");
  await write(world, nad, text, "broken");
  await mendLater(world, nad, chance.between(1_000, 30_000));
}

/** Another plugin, and back: what was attached meanwhile is none of ours. */
async function otherPlugin(world: World, chance: Chance): Promise<void> {
  const nad = chance.of(honest(world));
  const config = nad && configOf(nad);
  if (!config) return;
  await write(world, nad, withIpam(config, { type: "static" }), "other-plugin");
  await mendLater(world, nad, chance.between(1_000, OFFLINE_MS_MAX));
}

async function deleteIt(world: World, chance: Chance): Promise<void> {
  const nad = chance.of(honest(world));
  if (nad === undefined) return;
  const { namespace, name } = nad.metadata;
  await attempted(world.cluster.admin.remove(nadPath(namespace, name)));
  done(world, "delete", `deletes NetworkAttachmentDefinition ${namespace}/${name}`);
  await mendLater(world, nad, chance.happens(0.3) ? 1 : chance.between(1_000, OFFLINE_MS_MAX));
}

/** A second definition of a network: in a namespace with which it is shared or is not, of the same text or another. */
async function join(world: World, chance: Chance): Promise<void> {
  const planned = chance.of(NETWORKS);
  if (planned === undefined) return;
  const namespace = chance.happens(0.5) ? "shop" : "bank";
  const name = `${JOINED}${planned.nad}`;
  const others = chance.happens(0.3);
  const config = others ? withIpam(planned.config, { cooldownSeconds: 7 }) : planned.config;
  const made = await attempted(world.cluster.admin.create(nadPath(namespace), nadObject(namespace, name, config)));
  if (made === null) return;
  done(world, "join", `makes ${namespace}/${name} for network ${planned.network}${others ? ", of another text" : ""}`);
  await sleep(world.clock, chance.between(2_000, 60_000));
  await attempted(world.cluster.admin.remove(nadPath(namespace, name)));
}

async function share(world: World, chance: Chance): Promise<void> {
  const planned = chance.of(NETWORKS.filter(({ sharedWith }) => sharedWith.length > 0));
  if (planned === undefined) return;
  const path = nadPath(planned.namespace, planned.nad);
  const value = chance.of([null, "", "*", planned.sharedWith.join()]) ?? null;
  const written = await attempted(
    world.cluster.admin.patch(path, { metadata: { annotations: { [SHARED_WITH]: value } } }),
  );
  if (written === null) return;
  done(world, "share", `shares ${planned.namespace}/${planned.nad} with ${value === null ? "nobody" : `"${value}"`}`);
  await mendLater(world, written, chance.between(2_000, 30_000));
}

/** As it is meant to be, some time later; sooner when the world is to be at rest. */
export async function mendLater(world: World, { metadata }: KubeObject, afterMs: number): Promise<void> {
  await sleep(world.clock, afterMs);
  const planned = plannedNads().find(
    (one) => one.metadata.namespace === metadata.namespace && one.metadata.name === metadata.name,
  );
  if (planned !== undefined) await put(world, planned);
}

/** Makes it, or writes over what is there. */
export async function put(world: World, nad: KubeObject): Promise<void> {
  const { namespace, name, annotations = {} } = nad.metadata;
  const { admin, etcd } = world.cluster;
  const now = etcd.get(NADS, `${namespace}/${name}`);
  const shared = annotations[SHARED_WITH] ?? null;
  if (now === null) await attempted(admin.create(nadPath(namespace), nad));
  else {
    const isAsMeant = now.spec.config === nad.spec.config;
    if (isAsMeant && (now.metadata.annotations?.[SHARED_WITH] ?? null) === shared) return;
    const change = { metadata: { annotations: { [SHARED_WITH]: shared } }, spec: nad.spec };
    await attempted(admin.patch(nadPath(namespace, name), change));
  }
  done(world, "mend", `writes ${namespace}/${name} as it was meant`);
}

async function follow(world: World, nad: KubeObject, network: string, afterMs: number): Promise<void> {
  await sleep(world.clock, afterMs);
  const now = world.cluster.etcd.get(NADS, `${nad.metadata.namespace}/${nad.metadata.name}`);
  if (now === null) return;
  for (const other of honest(world)) {
    if (other.metadata.uid === now.metadata.uid || configOf(other)?.name !== network) continue;
    await write(world, other, now.spec.config, "follow");
  }
}

/** An edit, and its name for people. */
export async function write(
  world: World,
  nad: KubeObject,
  config: NetworkConfig | string,
  name: string,
): Promise<void> {
  const { namespace, name: nadName } = nad.metadata;
  const text = typeof config === "string" ? config : JSON.stringify(config);
  const written = await attempted(world.cluster.admin.patch(nadPath(namespace, nadName), { spec: { config: text } }));
  if (written !== null) done(world, name, `edits ${namespace}/${nadName} (${name}): ${text}`);
}

function done(world: World, name: string, what: string): void {
  world.story.tell("alice", what);
  world.counts.add(`people.nad-${name}`);
}

/** Those that somebody puts right again. */
export function honest(world: World): KubeObject[] {
  const planned = new Set(plannedNads().map(({ metadata }) => `${metadata.namespace}/${metadata.name}`));
  return objectsOf(world, NADS).filter(
    ({ metadata: { namespace, name } }) =>
      planned.has(`${namespace}/${name}`) || (namespace !== MALLORY && name.startsWith(JOINED)),
  );
}

/** Mostly of somebody who has it. */
function someAddress(config: NetworkConfig, chance: Chance, world: World): string {
  const used = objectsOf(world, ALLOCATIONS).filter(({ spec }) => spec?.network === config.name);
  const one = chance.happens(0.7) ? chance.of(used) : undefined;
  return one === undefined ? nthAddress(config, chance.between(1, 14)) : one.spec.address.split("/")[0];
}

function excludedOf(config: NetworkConfig, chance: Chance, world: World): string {
  const address = someAddress(config, chance, world);
  return `${address}/${address.includes(":") ? 128 : 32}`;
}
