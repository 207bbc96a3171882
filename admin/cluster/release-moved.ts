import { AllocationClient } from "../../allocations/allocation-client.ts";
import { isSound } from "../../allocations/allocation-object.ts";
import { giveBack } from "../../allocations/give-back.ts";
import { describeHolder } from "../../allocations/owners.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { METAL3_DATA_PATHS, machinePaths } from "../../kube/cluster-api.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { type AllocationOwner, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import { withdrawMachineAddress } from "../../store/cluster/parts/machine-address.ts";
import type { MovedAddress, ReleasedCluster, ReleaseMovedWant } from "../admin-api.ts";
import { readAllocations } from "./snapshot.ts";

/** Addresses released at once: each costs a few reads of the API server. */
const AT_ONCE = 8;
const IS_THERE = "its claim exists here";
const UNKNOWN = "nobody can tell whether its claim exists: its kind is not served here, or may not be read";
const CHANGED = "it was changed meanwhile";

/** Whether an object exists here: by its paths in every version of its kind, of which the first one served tells. */
type Existence = "there" | "absent" | "unknown" | "not-served";

/**
 * Each claim is read again from the quorum: an address whose claim exists is kept. `force`: also while the Cluster is
 * here, and where the kind of the claims is not served any more. Throws RefusalError.
 */
export async function releaseMoved(
  api: KubeApi,
  { cluster: { namespace, name }, force, dryRun }: ReleaseMovedWant,
  deadlineMs: number,
): Promise<ReleasedCluster> {
  const cluster = `${namespace}/${name}`;
  const held = (await readAllocations(api)).filter(
    ({ spec, status }) =>
      spec?.owner?.cluster === name && spec.owner.namespace === namespace && status?.state === "Bound",
  );
  if (held.length === 0)
    throw new RefusalError(refuse("NOT_FOUND", { what: `address that is held for machines of cluster ${cluster}` }));
  const here = await existence(api, machinePaths("clusters", { namespace, name }), deadlineMs);
  if (!force && here !== "absent" && here !== "not-served") throw clusterHere(cluster, here);
  const released: MovedAddress[] = [];
  const kept: MovedAddress[] = [];
  await severalAtOnce(held.filter(isSound), AT_ONCE, async (object) => {
    const { network, address, owner } = object.spec;
    const why = dryRun
      ? reasonToKeep(await claimExistence(api, owner, deadlineMs), force)
      : await releaseOne(api, object, force, deadlineMs);
    const holder = describeHolder(owner);
    if (why === null) released.push({ network, address, holder });
    else kept.push({ network, address, holder, why });
  });
  return { released: released.toSorted(byAddress), kept: kept.toSorted(byAddress) };
}

/** Why it is kept; null: it was released. */
async function releaseOne(
  api: KubeApi,
  { metadata: { name, uid }, spec }: IPAllocation,
  force: boolean,
  deadlineMs: number,
): Promise<string | null> {
  const outcome = await giveBack<string>(
    new AllocationClient(api, "housekeeping"),
    { name, uid, owner: spec.owner },
    async ({ object }) => {
      if (object.status?.state !== "Bound") return { kind: "leave", why: CHANGED };
      const { owner } = object.spec;
      const claim = await claimExistence(api, owner, deadlineMs);
      const why = reasonToKeep(claim, force);
      if (why !== null) return { kind: "leave", why };
      const isServed = claim === "absent";
      if (isServed && (await withdrawMachineAddress(api, object, { deadlineMs })) === "changed")
        return { kind: "leave", why: CHANGED };
      return { kind: "cool" };
    },
    deadlineMs,
  );
  if (outcome.kind === "left") return outcome.why;
  return outcome.kind === "done" ? null : CHANGED;
}

function reasonToKeep(claim: Existence, force: boolean): string | null {
  if (claim === "there") return IS_THERE;
  return claim === "absent" || (claim === "not-served" && force) ? null : UNKNOWN;
}

function claimExistence(api: KubeApi, owner: AllocationOwner, deadlineMs: number): Promise<Existence> {
  const { kind, namespace, name } = owner;
  const paths =
    kind === "Metal3Data"
      ? METAL3_DATA_PATHS.map((path) => namespacedPath(path, namespace, name))
      : machinePaths("ipaddressclaims", owner);
  return existence(api, paths, deadlineMs);
}

async function existence(api: KubeApi, paths: readonly string[], deadlineMs: number): Promise<Existence> {
  for (const path of paths) {
    const { kind } = await new ObjectClient(api).get(path, deadlineMs);
    if (kind === "not-served") continue;
    if (kind === "refused") return "unknown";
    return kind === "present" ? "there" : "absent";
  }
  return "not-served";
}

function clusterHere(cluster: string, here: Existence): RefusalError {
  const holder =
    here === "there"
      ? `Cluster ${cluster}, which is here`
      : `Cluster ${cluster}, which may be here: it may not be read`;
  const refusal = refuse("IN_USE", { addresses: "what is held for its machines", holder });
  const hint =
    "the controller frees the addresses of claims that are deleted while their Cluster is here and not paused; end its pause, if it is paused";
  return new RefusalError({ ...refusal, hint });
}

function byAddress(a: MovedAddress, b: MovedAddress): number {
  return `${a.network} ${a.address}` < `${b.network} ${b.address}` ? -1 : 1;
}
