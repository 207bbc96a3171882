import { parseInterfaceAddress } from "../../../../ipam/space/cidr.ts";
import { allocationName } from "../../../../kube/object-names.ts";
import { isoTime, sleep } from "../../../../platform/time.ts";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { addressIn } from "../addresses.ts";
import { firstSubnet, nthAddress } from "../people/configs.ts";
import { ALLOCATIONS, allocationPath, attempted, CLAIMS, claimPath, objectsOf } from "../people/look.ts";
import { MALLORY, NETWORKS, nadsNow } from "../people/networks.ts";
import { tellAttack } from "./pods.ts";

/**
 * Whoever may write the status of claims, or has the token of a node: what is written into list, network and
 * annotations neither gives nor takes an address (docs/decisions/0093).
 */
export const LIST_ATTACKS: ActionKinds = {
  "attack-claim-list": { weight: 0.8, run: writeList },
  "attack-claim-network": { weight: 0.4, run: writeNetwork },
  "attack-claim-append": { weight: 0.4, run: appendAsNode },
};

const MALFORMED = ["", "10.1.0", "fe80::1%eth0", "010.2.0.7/24", "10.1.0.9/33", "nobody"];
const LIST_MAX = 16;

type Edit = readonly [what: string, ips: readonly string[]];

async function writeList(world: World, chance: Chance): Promise<void> {
  const claim = someClaim(world, chance);
  if (claim === undefined) return;
  const [what, ips] = chance.of(editsOf(world, chance, claim)) as Edit;
  const { namespace, name } = claim.metadata;
  // Without addresses a list is a wish, and whoever attaches the claim may be refused.
  if (!hasAny(world, claim)) await mark(world, claim);
  if (
    (await attempted(world.cluster.admin.patch(`${claimPath(namespace, name)}/status`, { status: { ips } }))) === null
  )
    return;
  tellAttack(world, "claim-list", `writes the list of claim ${namespace}/${name} (${what}): ${ips.join(", ")}`);
}

function editsOf(world: World, chance: Chance, claim: KubeObject): Edit[] {
  const known: string[] = claim.status?.ips ?? [];
  const config = NETWORKS.find(({ network }) => network === claim.spec.network)?.config;
  const held = chance.of(objectsOf(world, ALLOCATIONS));
  const length = config === undefined ? "" : firstSubnet(config).split("/")[1];
  const free = config === undefined ? [] : [`${nthAddress(config, chance.between(1, 60))}/${length}`];
  const nth = (n: number) => (config === undefined ? `192.0.2.${n}/24` : `${nthAddress(config, n)}/${length}`);
  const many = Array.from({ length: LIST_MAX + chance.below(8) }, (_, i) => nth(i + 1));
  const others = held === undefined ? [] : [held.spec.address as string];
  return [
    ["nothing", []],
    ["another first", [...free, ...known]],
    ["another instead", free],
    ["what others have", [...others, ...known]],
    ["the other way round", known.toReversed()],
    ["without the first", known.slice(1)],
    ["what is none", [chance.of(MALFORMED) as string, ...known]],
    ["too many", many],
    ["full", [...known, ...Array.from({ length: LIST_MAX }, (_, i) => `192.0.2.${i + 1}/24`)].slice(0, LIST_MAX)],
  ];
}

/** To where it has nothing, mostly, with what an older release has written beside it. */
async function writeNetwork(world: World, chance: Chance): Promise<void> {
  const claim = someClaim(world, chance);
  if (claim === undefined) return;
  const network = chance.happens(0.2) ? "" : chance.of(NETWORKS)?.network;
  const { namespace, name } = claim.metadata;
  const former = `${claim.spec.network} 10.9.0.9/24 -> ${network} 10.9.0.8/24`;
  const annotations = chance.happens(0.3) ? { "ipam.holdfast.dev/followed": former } : {};
  if (!hasAny(world, claim)) await mark(world, claim);
  const patch = { metadata: { annotations }, spec: { network } };
  if ((await attempted(world.cluster.admin.patch(claimPath(namespace, name), patch))) === null) return;
  tellAttack(world, "claim-network", `moves claim ${namespace}/${name} from ${claim.spec.network} to "${network}"`);
}

/** What the token of a node may do: an address is reserved for the claim, and appended to its list. */
async function appendAsNode(world: World, chance: Chance): Promise<void> {
  const claim = someClaim(world, chance);
  const nad = claim && nadsNow(world).find(({ network }) => network === claim.spec.network);
  const known: string[] = claim?.status?.ips ?? [];
  const [subnet] = String(nad?.config.ipam?.subnets ?? "").split(",");
  if (claim === undefined || !subnet || known.length >= LIST_MAX || !hasAny(world, claim)) return;
  const address = addressIn(subnet, chance);
  const { namespace, name, uid, resourceVersion } = claim.metadata;
  const reserved = chance.happens(0.7) ? reserve(world, chance, claim, address) : null;
  const status = { ips: [...known, address] };
  const patch = { metadata: { uid, resourceVersion }, status };
  if ((await attempted(world.cluster.admin.patch(`${claimPath(namespace, name)}/status`, patch))) !== null)
    tellAttack(world, "claim-append", `appends ${address} to claim ${namespace}/${name} with the token of a node`);
  await reserved;
}

/** As an ADD on one of the nodes would, of a pod that is none. */
async function reserve(world: World, chance: Chance, claim: KubeObject, address: string): Promise<void> {
  const own = objectsOf(world, ALLOCATIONS).find(
    (one) => isBoundTo(one, claim) && one.spec.network === claim.spec.network,
  );
  const node = chance.of(world.machines)?.name;
  if (own === undefined || node === undefined) return;
  const { labels, annotations, finalizers } = own.metadata;
  const name = allocationName(own.spec.network, parseInterfaceAddress(address).address);
  const { namespace } = claim.metadata;
  const pod = { namespace, name: "stolen", uid: `stolen-${chance.below(1_000)}` };
  const since = isoTime(world.clock.wallMs());
  const key = `stolen${chance.below(1_000)}/net1`;
  const attachments = { [key]: { node, pod, since } };
  const made = await attempted(
    world.cluster.admin.create("/apis/ipam.holdfast.dev/v1alpha1/ipallocations", {
      ...own,
      metadata: { name, labels, annotations, finalizers },
      spec: { ...own.spec, address },
      status: { ...own.status, since, attachments },
    }),
  );
  if (made === null) return;
  world.oracle.slipped(claim.metadata.uid, own.spec.network, address);
  await sleep(world.clock, chance.between(500, 5_000));
  const now = world.cluster.etcd.get(ALLOCATIONS, name);
  if (now?.status?.attachments?.[key] === undefined) return;
  await attempted(world.cluster.admin.patch(allocationPath(name), { status: { attachments: { [key]: null } } }));
}

function someClaim(world: World, chance: Chance): KubeObject | undefined {
  return chance.of(
    objectsOf(world, CLAIMS).filter(
      ({ metadata }) => metadata.namespace !== MALLORY && metadata.deletionTimestamp === undefined,
    ),
  );
}

function hasAny(world: World, claim: KubeObject): boolean {
  return objectsOf(world, ALLOCATIONS).some((one) => isBoundTo(one, claim));
}

function isBoundTo({ spec, status }: KubeObject, { metadata }: KubeObject): boolean {
  return spec?.owner?.uid === metadata.uid && status?.state === "Bound";
}

async function mark(world: World, { metadata: { namespace, name } }: KubeObject): Promise<void> {
  const metadata = { annotations: { "simulation/prefilled": "" } };
  await attempted(world.cluster.admin.patch(claimPath(namespace, name), { metadata }));
}
