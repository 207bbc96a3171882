import { join } from "node:path";
import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { readManifestDirectory } from "../../../harness/kube-manifests.ts";
import { type CapiReview, capiProblems, concernsCapi } from "../../../harness/machines/capi-rules.ts";
import { converted } from "../../../harness/machines/conversion.ts";
import { capiDefinitions, machineDefinitions, switchedDefinitions } from "../../../harness/machines/definitions.ts";
import { simClusterOf } from "../../cluster/cluster.ts";
import type { World } from "../../world.ts";
import { attempted } from "../people/look.ts";
import { allOf, at, keyOf, patch, STORAGE, servedVersion } from "./objects.ts";
import { type IpamVersion, machinePlan } from "./plan.ts";

const DEPLOYED = join(import.meta.dirname, "../../../../deploy/machines/crds");
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** What is there whatever the seed says: machines of other providers, hosts, and Metal3's data kinds. */
export async function defineOthers(world: World): Promise<void> {
  const hosts = machineDefinitions("metal3-host");
  const own = machinePlan(world.seed).ownData
    ? [...hosts.filter(({ metadata }) => metadata.name.startsWith("baremetal")), ...readManifestDirectory(DEPLOYED)]
    : [...hosts, ...machineDefinitions("metal3-data")];
  for (const definition of [...machineDefinitions("capv"), ...own]) await define(world, definition);
}

/** Cluster API is installed. */
export async function installCapi(world: World, version: IpamVersion): Promise<void> {
  for (const definition of capiDefinitions(version)) await define(world, definition);
}

/** Its webhooks answer for as long as the world lasts. */
export function admitCapi(world: World): void {
  const { admitters } = simClusterOf(world);
  admitters.push((given) => {
    const review = given as unknown as CapiReview;
    if (!concernsCapi(review)) return null;
    return capiProblems(review, claimOf(world, review)).join(", ") || null;
  });
}

/**
 * The other version is served in place of the one before, as an upgrade of Cluster API does it; statuses are converted.
 */
export async function switchCapi(world: World): Promise<IpamVersion | null> {
  const from = servedVersion(world, "claims") as IpamVersion | null;
  if (from === null) return null;
  const to: IpamVersion = from === "v1beta2" ? "v1beta1" : "v1beta2";
  for (const definition of switchedDefinitions(from, to)) await define(world, definition);
  for (const claim of allOf(world, "claims")) {
    if (claim.status === undefined) continue;
    const next = converted(claim.status, from, to);
    const gone = Object.keys(claim.status).filter((key) => next[key] === undefined);
    const status = { ...Object.fromEntries(gone.map((key) => [key, null])), ...next };
    await patch(world, "claims", keyOf(claim), { status }, "/status");
  }
  return to;
}

async function define({ cluster }: World, definition: KubeObject): Promise<void> {
  const { name } = definition.metadata;
  const known = cluster.etcd.get(STORAGE.definitions, name);
  if (known === null) await attempted(cluster.admin.create(DEFINITIONS, definition));
  else await attempted(cluster.admin.patch(`${DEFINITIONS}/${name}`, { spec: definition.spec }));
}

function claimOf(world: World, { operation, object }: CapiReview): KubeObject | null {
  if (operation !== "CREATE" || object === null) return null;
  return at(world, "claims", `${object.metadata.namespace}/${object.spec.claimRef.name}`);
}
