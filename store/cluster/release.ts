import { describeOwner, type Owner } from "../../ipam/owner.ts";
import { refuse } from "../../ipam/refusals.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { CLAIMS_PATH, namespacedPath } from "../../kube/objects.ts";
import { isoTime } from "../../platform/time.ts";
import type { ReleaseOutcome } from "../node-store.ts";
import type { PodIdentity } from "../records.ts";
import type { AllocationClient } from "./allocations/allocation-client.ts";
import { cooled } from "./allocations/allocation-object.ts";
import { fromAllocationOwner } from "./allocations/owners.ts";
import type { PodState } from "./claim-desk.ts";

/**
 * An operator takes an address back. Used by an attachment, or held by a pod that lives, it is refused unless forced;
 * held by a claim that still exists always: delete the claim. Throws ApiAway and RefusalError.
 */
export async function releaseInKubernetes(
  client: AllocationClient,
  which: { readonly network: string; readonly address: Address; readonly force: boolean },
  {
    nowMs,
    deadlineMs,
    api,
    podState,
  }: {
    readonly nowMs: number;
    readonly deadlineMs: number;
    readonly api: Pick<KubeApi, "send" | "clock">;
    podState(pod: PodIdentity): Promise<PodState>;
  },
): Promise<ReleaseOutcome> {
  const { network, address, force } = which;
  const text = formatAddress(address);
  for (;;) {
    const reading = await client.read(network, address, deadlineMs);
    if (reading === null) {
      return {
        kind: "refused",
        refusal: refuse("NOT_FOUND", { what: `allocation of ${text} on network ${network}` }),
      };
    }
    const { object } = reading;
    const owner = fromAllocationOwner(object.spec.owner);
    const holder = describeOwner(owner);
    if (object.status?.state === "Cooling") {
      // To every allocator it has rested long enough then.
      const rested = { ...object, status: { ...object.status, since: isoTime(0) } };
      const written = await client.replace(rested, deadlineMs);
      if (written.kind === "changed") continue;
      return { kind: "released", addresses: [object.spec.address], holder };
    }
    const users = Object.values(object.status?.attachments ?? {}).map(
      (one) => `container ${one.containerID} (${one.interface}) on node ${one.node}`,
    );
    const claimed = owner.kind === "claim" && (await claimExists(api, owner, deadlineMs));
    // Imported and adopted addresses have no attachments: whether they are used is known by their pod alone.
    const asksPod = owner.kind === "pod" && owner.namespace !== "" && owner.name !== "" && users.length === 0;
    const lives = asksPod && !force && (await podState(owner)) === "living";
    // By force neither: the claim lists the address, so it would come back to it, or two would have it.
    if (claimed || lives || (users.length > 0 && !force)) {
      return {
        kind: "refused",
        refusal: refuse("IN_USE", { addresses: text, holder: [holder, ...users].join(", ") }),
      };
    }
    const written = await client.replace(cooled(object, isoTime(reading.serverMs ?? nowMs)), deadlineMs);
    if (written.kind === "done") return { kind: "released", addresses: [object.spec.address], holder };
  }
}

async function claimExists(
  api: Pick<KubeApi, "send" | "clock">,
  { namespace, name, uid }: Owner,
  deadlineMs: number,
): Promise<boolean> {
  const path = namespacedPath(CLAIMS_PATH, namespace, name);
  const read = await new ObjectClient(api).get(path, deadlineMs);
  // What may not be read, or has no definition now, may exist.
  return read.kind === "present" ? read.object.metadata.uid === uid : read.kind !== "absent";
}
