import type { AllocationClient } from "../../allocations/allocation-client.ts";
import { giveBack } from "../../allocations/give-back.ts";
import { tooManyWriters } from "../../allocations/hold.ts";
import { describeHolder, fromAllocationOwner } from "../../allocations/owners.ts";
import type { PodIdentity } from "../../allocations/records.ts";
import { describeOwner, isMachine, isPreallocation, knownKindOf, type Owner } from "../../ipam/owner.ts";
import { refuse } from "../../ipam/refusals.ts";
import { formatAddress } from "../../ipam/space/address.ts";
import { refusedBy } from "../../kube/answers.ts";
import { METAL3_DATA_PATHS, machinePaths } from "../../kube/cluster-api.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { allocationName } from "../../kube/object-names.ts";
import { attachmentsIn, CLAIMS_PATH, type IPAllocation, namespacedPath } from "../../kube/objects.ts";
import { isoTime } from "../../platform/time.ts";
import type { ReleaseOutcome, ReleaseWant } from "../node-store.ts";
import type { PodState } from "./parts/claim-access.ts";
import { withdrawMachineAddress } from "./parts/machine-address.ts";

interface Asking {
  readonly deadlineMs: number;
  readonly api: Pick<KubeApi, "send" | "clock">;
  podState(pod: PodIdentity): Promise<PodState>;
}

/**
 * For an operator. Refused, unless forced, while an attachment or a living pod has it; always while its claim exists.
 * Throws ApiAway and RefusalError.
 */
export async function releaseInKubernetes(
  client: AllocationClient,
  which: ReleaseWant,
  asking: Asking,
): Promise<ReleaseOutcome> {
  const { network, address, force, dryRun = false } = which;
  const text = formatAddress(address);
  const outcome = await giveBack<ReleaseOutcome>(
    client,
    { name: allocationName(network, address) },
    async ({ object }) => {
      const state = object.status?.state;
      const isIdle = state === "Cooling" || state === "Retained";
      const holders = isIdle ? null : await whoNeeds(object, force, asking);
      if (holders === null && dryRun) return { kind: "leave", why: releasedOf(object) };
      // For every allocator its cool-down is over then.
      if (state === "Cooling") return { kind: "cool", since: isoTime(0) };
      if (state === "Retained") return { kind: "cool", holderEnded: true };
      if (holders === null) {
        const { api, deadlineMs } = asking;
        const withdrawn = await withdrawMachineAddress(api, object, { deadlineMs });
        // The next attempt reads again who needs it.
        if (withdrawn === "changed") throw tooManyWriters(network, address);
        return { kind: "cool" };
      }
      return { kind: "leave", why: inUse(text, holders) };
    },
    asking.deadlineMs,
  );
  if (outcome.kind === "left") return outcome.why;
  if (outcome.kind === "absent") {
    const what = `allocation of ${text} on network ${network}`;
    return { kind: "refused", refusal: refuse("NOT_FOUND", { what }) };
  }
  if (outcome.kind !== "done") throw tooManyWriters(network, address);
  return releasedOf(outcome.object);
}

function releasedOf({ spec }: IPAllocation): ReleaseOutcome {
  return { kind: "released", addresses: [spec.address], holder: describeHolder(spec.owner) };
}

function inUse(addresses: string, holders: readonly string[]): ReleaseOutcome {
  return { kind: "refused", refusal: refuse("IN_USE", { addresses, holder: holders.join(", ") }) };
}

/** Whoever prevents the release: the owner and the containers that use the address; null: nobody. */
async function whoNeeds(
  object: IPAllocation,
  force: boolean,
  { api, deadlineMs, podState }: Asking,
): Promise<string[] | null> {
  const { spec } = object;
  // Only a later release knows whether such an owner needs it.
  if (knownKindOf(spec.owner.kind) === undefined) return [describeHolder(spec.owner)];
  const owner = fromAllocationOwner(spec.owner);
  const users = attachmentsIn(object).map(
    (one) => `container ${one.containerID} (${one.interface}) on node ${one.node}`,
  );
  // Not even by force: the claim lists the address, so it would get it back, or two owners would have it.
  const claimed = isClaimed(owner) && (await claimExists(api, owner, deadlineMs));
  // A pool keeps it, and would take it again.
  const isKept = isPreallocation(owner) && !force;
  // Imported and adopted addresses have no attachments: only the pod tells whether they are in use.
  const asksPod = owner.kind === "pod" && owner.namespace !== "" && owner.name !== "" && users.length === 0;
  const lives = asksPod && !force && (await podState(owner)) === "living";
  const isNeeded = claimed || isKept || lives || (users.length > 0 && !force);
  return isNeeded ? [describeOwner(owner), ...users] : null;
}

/** Whether an owner's object decides, however much an operator wants its address. */
function isClaimed(owner: Owner): boolean {
  return owner.kind === "claim" || (isMachine(owner.kind) && !isPreallocation(owner));
}

/** Of a machine, one of its name is enough: it takes over what its predecessor had. Throws API_REFUSED: no right. */
async function claimExists(api: Pick<KubeApi, "send" | "clock">, owner: Owner, deadlineMs: number): Promise<boolean> {
  for (const path of pathsOf(owner)) {
    const read = await new ObjectClient(api).get(path, deadlineMs);
    if (read.kind === "absent") return false;
    if (read.kind === "present") return isMachine(owner.kind) || read.object.metadata.uid === owner.uid;
    // A node's rights end here: its daemon cannot tell whether anybody uses the address.
    if (read.kind === "refused" && isMachine(owner.kind))
      throw refusedBy(read.answer, `read ${describeOwner(owner)}, which takes an administrator's --kubeconfig FILE`);
    if (read.kind === "refused") return true;
  }
  // A claim that may not be read, or whose definition is missing now, may exist.
  return true;
}

function pathsOf(owner: Owner): readonly string[] {
  const { kind, namespace, name } = owner;
  if (kind === "addressClaim") return machinePaths("ipaddressclaims", owner);
  const collections = kind === "machineData" ? METAL3_DATA_PATHS : [CLAIMS_PATH];
  return collections.map((path) => namespacedPath(path, namespace, name));
}
